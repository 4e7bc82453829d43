"""Datasets divided among replicas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mirrax
from mirrax.data import AutoShardPolicy, Dataset, TextLineDataset
from mirrax.data.iterator import seal, unseal
from mirrax.errors import InvalidArgumentError, OutOfRangeError
from mirrax.input.input_context import InputOptions, InputReplicationMode
from mirrax.values.tensor_spec import PerReplicaSpec, TensorSpec
from tests.conftest import mirrored
from tests.data.plans import quick, ragged, through_json, with_policy
from tests.programs import engines, parts

POLICIES = list(AutoShardPolicy)
PER_REPLICA = InputOptions(
    experimental_replication_mode=InputReplicationMode.PER_REPLICA
)
policies = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
evenly = pytest.mark.parametrize(
    "policy",
    [AutoShardPolicy.OFF, AutoShardPolicy.FILE, AutoShardPolicy.HINT],
    ids=lambda policy: policy.name,
)
by_data = pytest.mark.parametrize(
    "policy",
    [AutoShardPolicy.AUTO, AutoShardPolicy.DATA],
    ids=lambda policy: policy.name,
)

strategies = [mirrored(n) for n in range(1, 9)]


def steps(strategy, distributed):
    """Returns the parts of each step, as lists."""
    return [parts(strategy, element) for element in distributed]


def distribute(strategy, dataset, policy=AutoShardPolicy.AUTO):
    return strategy.experimental_distribute_dataset(with_policy(dataset, policy))


def flat(found):
    return [row for step in found for part in step for row in part]


# Nothing is lost, nothing is doubled.


@policies
@quick
@given(
    count=st.integers(0, 64),
    size=st.integers(1, 9),
    strategy=st.sampled_from(strategies),
)
def test_every_example_comes_once(policy, count, size, strategy):
    dataset = Dataset.range(count).batch(size)
    found = steps(strategy, distribute(strategy, dataset, policy))
    assert flat(found) == list(range(count))


@policies
@pytest.mark.parametrize("size", range(1, 10))
def test_every_example_comes_once_to_four_replicas(four_replicas, policy, size):
    dataset = Dataset.range(23).batch(size)
    found = steps(four_replicas, distribute(four_replicas, dataset, policy))
    assert flat(found) == list(range(23))


@quick
@given(
    count=st.integers(0, 40),
    size=st.integers(1, 9),
    strategy=st.sampled_from(strategies),
    drop=st.booleans(),
)
def test_every_example_of_an_input_function_comes_once(count, size, strategy, drop):
    dataset = Dataset.range(count).batch(size, drop_remainder=drop)
    distributed = strategy.distribute_datasets_from_function(lambda context: dataset)
    found = steps(strategy, distributed)
    assert flat(found) == flat([[x.tolist() for x in dataset]])
    assert {len(step) for step in found} <= {strategy.num_replicas_in_sync}


@quick
@given(
    lengths=st.lists(st.integers(0, 12), min_size=3, max_size=3), size=st.integers(1, 4)
)
def test_every_example_of_each_replicas_function_comes_once(lengths, size):
    distributed = strategies[2].distribute_datasets_from_function(
        lambda c: Dataset.range(lengths[c.input_pipeline_id]).batch(size), PER_REPLICA
    )
    found = steps(strategies[2], distributed)
    own = [[row for step in found for row in step[i]] for i in range(3)]
    assert own == [list(range(n)) for n in lengths]


# The rule that cuts each batch on its own.


@by_data
@pytest.mark.parametrize(
    ("count", "size", "replicas", "expected"),
    [
        (9, 9, 4, [[0, 1, 2], [3, 4, 5], [6, 7, 8], []]),
        (6, 8, 2, [[0, 1, 2], [3, 4, 5]]),
        (1, 8, 2, [[0], []]),
    ],
    ids=["trailing", "partial", "single"],
)
def test_a_batch_is_cut_from_the_front(policy, count, size, replicas, expected):
    strategy = mirrored(replicas)
    dataset = Dataset.range(count).batch(size)
    assert steps(strategy, distribute(strategy, dataset, policy)) == [expected]


@policies
def test_a_batch_of_unknown_size_is_cut_from_the_front(four_replicas, policy):
    dataset = Dataset.range(9).batch(9).map(lambda x: x)
    (sizes,) = steps(four_replicas, distribute(four_replicas, dataset, policy))
    assert [len(part) for part in sizes] == [3, 3, 3, 0]


# The rule that cuts evenly, across batches.


@evenly
@pytest.mark.parametrize(
    ("count", "size", "replicas", "expected"),
    [
        (9, 9, 4, [[3, 2, 2, 2]]),
        (6, 8, 2, [[4, 2]]),
        (4, 8, 2, [[4, 0]]),
        (14, 7, 2, [[4, 3], [4, 3]]),
        (6, 3, 4, [[1, 1, 1, 0], [1, 1, 1, 0]]),
    ],
    ids=["even", "partial", "empty", "odd", "fewer than replicas"],
)
def test_parts_differ_by_at_most_one(policy, count, size, replicas, expected):
    strategy = mirrored(replicas)
    found = steps(
        strategy, distribute(strategy, Dataset.range(count).batch(size), policy)
    )
    assert [[len(part) for part in step] for step in found] == expected


# As TensorFlow 2.21 divides 22 rows in batches of 9 among 4 replicas.
BATCH = Dataset.range(22).batch(9)
FLOWING = [[3, 2, 2, 2], [3, 2, 2, 2], [3, 1, 0, 0]]
CUT = [[3, 3, 3, 0], [3, 3, 3, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (BATCH, FLOWING),
        (BATCH.assert_cardinality(3), FLOWING),
        (BATCH.map(lambda x: x), CUT),
        (
            BATCH.map(lambda x: np.concatenate([x, x])),
            [[5, 5, 5, 3], [5, 5, 5, 3], [2, 2, 2, 2]],
        ),
        (
            BATCH.map(lambda x: x[:5]),
            [[2, 2, 1, 0], [2, 2, 1, 0], [1, 1, 1, 1]],
        ),
        (BATCH.take_while(lambda x: True), CUT),
        (BATCH.rebatch(9), CUT),
        (
            Dataset.range(22).batch(9, drop_remainder=True).map(lambda x: x),
            FLOWING[:2],
        ),
    ],
    ids=[
        "batch",
        "assert",
        "map",
        "more",
        "fewer",
        "take_while",
        "rebatch",
        "static",
    ],
)
@evenly
def test_batches_are_joined_where_every_operation_keeps_their_size(
    four_replicas, policy, dataset, expected
):
    found = steps(four_replicas, distribute(four_replicas, dataset, policy))
    assert [[len(part) for part in step] for step in found] == expected


@evenly
def test_rows_are_joined_across_batches(two_replicas, policy):
    dataset = Dataset.range(6).batch(4).repeat(2)
    assert steps(two_replicas, distribute(two_replicas, dataset, policy)) == [
        [[0, 1], [2, 3]],
        [[4, 5], [0, 1]],
        [[2, 3], [4, 5]],
    ]


@evenly
def test_batches_without_rows_are_passed_over(two_replicas, policy):
    dataset = ragged(0, 2, 0, 0, 1, 0)
    found = steps(two_replicas, distribute(two_replicas, dataset, policy))
    assert found == [[[2], [2]], [[1], []]]


def test_auto_cuts_files_evenly(two_replicas, tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(6)))
    dataset = TextLineDataset(str(path)).batch(8)
    (step,) = steps(two_replicas, distribute(two_replicas, dataset))
    assert [len(part) for part in step] == [4, 2]


# What an element is.


def test_parts_are_on_the_devices_of_their_replicas(four_replicas):
    element = next(iter(distribute(four_replicas, Dataset.range(8).batch(8))))
    devices = [x.device for x in four_replicas.experimental_local_results(element)]
    assert devices == list(four_replicas.topology.local_devices)


def test_nested_elements_keep_their_nesting(two_replicas):
    dataset = Dataset.from_tensor_slices({"a": np.arange(4), "b": (np.ones(4), None)})
    element = next(iter(distribute(two_replicas, dataset.batch(4))))
    assert parts(two_replicas, element["a"]) == [[0, 1], [2, 3]]
    assert element["b"][1] is None


@pytest.mark.parametrize(
    ("size", "drop", "rows"),
    [(4, True, 2), (4, False, None), (5, True, None)],
    ids=["divides", "remainder", "does not divide"],
)
def test_a_spec_is_static_only_where_parts_are(two_replicas, size, drop, rows):
    dataset = Dataset.range(20).batch(size, drop_remainder=drop)
    spec = distribute(two_replicas, dataset).element_spec
    assert spec == PerReplicaSpec((TensorSpec((rows,), np.int64),) * 2)


def test_distributed_dataset_shows_its_elements(two_replicas):
    shown = repr(distribute(two_replicas, Dataset.range(6).batch(3)))
    assert shown.startswith("<mirrax.DistributedDataset element_spec=PerReplicaSpec(")


def test_one_replica_has_the_spec_of_the_dataset():
    dataset = Dataset.range(4).batch(2)
    assert distribute(mirrored(1), dataset).element_spec == dataset.element_spec


def test_scalars_cannot_be_divided(two_replicas):
    with pytest.raises(IndexError, match="must be batches"):
        distribute(two_replicas, Dataset.range(4))


def test_scalars_need_not_be_divided_for_one_replica():
    strategy = mirrored(1)
    found = steps(strategy, distribute(strategy, Dataset.range(3)))
    assert found == [[0], [1], [2]]


def test_vectors_are_divided_along_their_own_dimension(two_replicas):
    dataset = Dataset.from_tensor_slices(np.arange(8).reshape(2, 4))
    assert steps(two_replicas, distribute(two_replicas, dataset)) == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]


def test_arrays_of_unequal_length_are_refused(two_replicas):
    dataset = Dataset.from_tensors((np.arange(4), np.arange(6)))
    with pytest.raises(InvalidArgumentError, match=r"same number of rows.*\[4, 6\]"):
        list(distribute(two_replicas, dataset))


def test_a_batch_of_unknown_shape_is_divided(two_replicas):
    spec = TensorSpec(None, np.int64)
    dataset = Dataset.from_generator(lambda: iter([np.arange(4)]), spec)
    found = steps(two_replicas, distribute(two_replicas, dataset.map(lambda x: x + 1)))
    assert found == [[[1, 2], [3, 4]]]


def test_an_element_does_not_change_with_the_batch_it_came_from(two_replicas):
    dataset = Dataset.from_tensor_slices(np.arange(4)).batch(4).cache()
    distributed = distribute(two_replicas, dataset)
    found = [steps(two_replicas, distributed) for _ in range(2)]
    assert found == [[[[0, 1], [2, 3]]]] * 2


def test_the_default_strategy_gives_the_dataset_itself():
    dataset = Dataset.range(4)
    assert mirrax.get_strategy().experimental_distribute_dataset(dataset) is dataset


def test_a_dataset_of_global_batches_is_not_made_per_replica(two_replicas):
    with pytest.raises(NotImplementedError, match="PER_REPLICA"):
        two_replicas.experimental_distribute_dataset(Dataset.range(4), PER_REPLICA)


# Input functions.


@pytest.mark.parametrize(
    ("options", "expected"),
    [(None, [(1, 0, 2)]), (PER_REPLICA, [(2, 0, 2), (2, 1, 2)])],
    ids=["per worker", "per replica"],
)
def test_an_input_function_is_told_for_whom_it_is(two_replicas, options, expected):
    told = []

    def make(context):
        told.append(
            (
                context.num_input_pipelines,
                context.input_pipeline_id,
                context.num_replicas_in_sync,
            )
        )
        return Dataset.range(4).batch(2)

    two_replicas.distribute_datasets_from_function(make, options)
    assert told == expected


def test_replicas_take_batches_in_turn(two_replicas):
    distributed = two_replicas.distribute_datasets_from_function(
        lambda context: Dataset.range(6).batch(2)
    )
    assert steps(two_replicas, distributed) == [[[0, 1], [2, 3]], [[4, 5], []]]


def test_scalars_that_do_not_suffice_are_an_error_not_a_loss(two_replicas):
    distributed = two_replicas.distribute_datasets_from_function(
        lambda context: Dataset.range(3)
    )
    iterator = iter(distributed)
    assert parts(two_replicas, next(iterator)) == [0, 1]
    with pytest.raises(InvalidArgumentError, match="fewer elements than replicas"):
        next(iterator)


# The end, errors, positions.


def test_the_end_is_said_in_three_ways(strategy):
    iterator = iter(distribute(strategy, Dataset.range(4).batch(4)))
    next(iterator)
    with pytest.raises(OutOfRangeError, match="no more elements"):
        iterator.get_next()
    with pytest.raises(StopIteration):
        next(iterator)
    last = iterator.get_next_as_optional()
    assert not last.has_value()
    with pytest.raises(InvalidArgumentError, match="no element"):
        last.get_value()


def test_an_optional_holds_the_next_element(two_replicas):
    iterator = iter(distribute(two_replicas, Dataset.range(4).batch(4)))
    held = iterator.get_next_as_optional()
    assert held.has_value()
    assert parts(two_replicas, held.get_value()) == [[0, 1], [2, 3]]


@policies
def test_what_comes_before_an_error_arrives(two_replicas, policy):
    def generate():
        yield from range(8)
        raise OSError("the disk is gone")

    dataset = Dataset.from_generator(generate, TensorSpec((), np.int64)).batch(4)
    iterator = iter(distribute(two_replicas, dataset, policy))
    assert [parts(two_replicas, next(iterator)) for _ in range(2)] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
    ]
    with pytest.raises(OSError, match="the disk is gone"):
        next(iterator)


@quick
@given(
    policy=st.sampled_from(POLICIES),
    count=st.integers(0, 40),
    size=st.integers(1, 9),
    strategy=st.sampled_from(strategies),
    data=st.data(),
)
def test_a_position_resumes_identically(policy, count, size, strategy, data):
    def make():
        dataset = Dataset.range(count).shuffle(9, seed=1).repeat(2).batch(size)
        return distribute(strategy, dataset, policy)

    position = data.draw(st.integers(0, len(steps(strategy, make()))))
    iterator = iter(make())
    for _ in range(position):
        next(iterator)
    other = iter(make())
    other.restore_state(through_json(iterator.save_state()))
    assert steps(strategy, other) == steps(strategy, iterator)


@pytest.mark.parametrize("rows", [{"0": [[], 0]}, [[0, []]]], ids=["dict", "pairs"])
def test_a_position_of_another_form_is_refused(two_replicas, rows):
    iterator = iter(distribute(two_replicas, Dataset.range(12).batch(4)))
    state = {**unseal(iterator.save_state()), "rows": rows}
    with pytest.raises(ValueError, match="must come from `save_state`"):
        iterator.restore_state(seal(state))


@pytest.mark.parametrize("options", [None, PER_REPLICA], ids=["worker", "replica"])
def test_a_position_in_input_functions_resumes_identically(four_replicas, options):
    def make():
        return four_replicas.distribute_datasets_from_function(
            lambda context: Dataset.range(30).shuffle(30, seed=1).batch(2), options
        )

    iterator = iter(make())
    next(iterator)
    other = iter(make())
    other.restore_state(through_json(iterator.save_state()))
    assert steps(four_replicas, other) == steps(four_replicas, iterator)


def test_each_iteration_is_shuffled_anew(two_replicas):
    dataset = Dataset.range(30).shuffle(30, seed=1).batch(10)
    distributed = distribute(two_replicas, dataset)
    assert steps(two_replicas, distributed) != steps(two_replicas, distributed)


def test_a_distributed_dataset_can_be_reduced(two_replicas):
    distributed = distribute(two_replicas, Dataset.range(8).batch(4))
    assert distributed.reduce(0, lambda count, element: count + 1) == 2


@engines
def test_a_replica_cannot_take_a_batch_for_all(strategy, engine):
    batches = strategy.experimental_distribute_dataset(Dataset.range(4).batch(2))
    iterator = iter(batches)
    with pytest.raises(ValueError, match=r"args=\(next\(iterator\),\)"):
        strategy.run(engine(lambda: next(iterator)))
    with pytest.raises(ValueError, match=r"args=\(next\(iterator\),\)"):
        strategy.run(engine(lambda: list(batches)))
    assert len(list(iterator)) == 2


def test_a_function_around_run_takes_batches(two_replicas):
    batches = two_replicas.experimental_distribute_dataset(Dataset.range(4).batch(2))
    iterator = iter(batches)

    @mirrax.function
    def step():
        found = two_replicas.run(lambda x: x.sum(), args=(next(iterator),))
        return two_replicas.reduce("SUM", found, axis=None)

    assert [int(step()), int(step())] == [1, 5]
