"""What a replica sees of the others, in every engine and with every strategy."""

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.options import CommunicationOptions, ReduceOp

engines = pytest.mark.parametrize(
    "engine", [lambda fn: fn, mirrax.function], ids=["eager", "compiled"]
)


def context():
    return mirrax.get_replica_context()


def parts(strategy, value):
    """What each replica has, whether it came back bare or in parts."""
    local = strategy.experimental_local_results(value)
    count = strategy.num_replicas_in_sync
    return [np.asarray(part) for part in (local if len(local) > 1 else local * count)]


def numbers(strategy):
    return list(range(strategy.num_replicas_in_sync))


# Who am I?


@engines
def test_each_replica_has_its_number(strategy, engine):
    result = strategy.run(engine(lambda: context().replica_id_in_sync_group))
    assert parts(strategy, result) == numbers(strategy)


def test_the_number_is_an_int_in_eager_code(strategy):
    types = []
    strategy.run(lambda: types.append(type(context().replica_id_in_sync_group)))
    assert set(types) == {int}


@engines
def test_each_replica_knows_how_many_there_are(strategy, engine):
    result = strategy.run(engine(lambda: context().num_replicas_in_sync))
    assert parts(strategy, result)[0] == strategy.num_replicas_in_sync


@engines
def test_each_replica_knows_its_strategy(strategy, engine):
    seen = []
    strategy.run(engine(lambda: seen.append(context().strategy)))
    assert set(seen) == {strategy}


def test_each_replica_knows_its_device(strategy):
    seen = []
    strategy.run(lambda: seen.append(context().devices))
    assert seen == [(name,) for name in strategy.topology.names]


def test_a_program_for_all_replicas_has_no_device_of_its_own(two_replicas):
    with pytest.raises(RuntimeError, match=r"Use `strategy.extended.worker_devices`"):
        two_replicas.run(mirrax.function(lambda: context().devices))


@engines
def test_a_replica_is_not_in_cross_replica_context(strategy, engine):
    seen = []
    strategy.run(engine(lambda: seen.append(mirrax.in_cross_replica_context())))
    assert set(seen) == {False}


def test_there_is_no_replica_context_in_a_scope(strategy):
    with strategy.scope():
        assert context() is None


def test_outside_every_scope_there_is_one_replica():
    assert context().num_replicas_in_sync == 1
    assert context().replica_id_in_sync_group == 0
    assert float(context().all_reduce("SUM", 3.0)) == 3
    assert context().merge_call(lambda strategy, x: x + 1, args=(2,)) == 3


# all_reduce.


@engines
@pytest.mark.parametrize("op", ["SUM", "sum", ReduceOp.SUM], ids=str)
def test_all_reduce_adds_up(strategy, engine, op):
    def step():
        return context().all_reduce(op, context().replica_id_in_sync_group + 1.0)

    total = sum(number + 1 for number in numbers(strategy))
    assert parts(strategy, strategy.run(engine(step))) == [total] * len(
        numbers(strategy)
    )


@engines
@pytest.mark.parametrize("op", ["MEAN", "mean", ReduceOp.MEAN], ids=str)
def test_all_reduce_takes_the_mean(strategy, engine, op):
    def step():
        return context().all_reduce(op, context().replica_id_in_sync_group + 1.0)

    mean = np.mean([number + 1 for number in numbers(strategy)])
    assert parts(strategy, strategy.run(engine(step)))[0] == mean


@engines
def test_all_reduce_takes_structures(strategy, engine):
    def step():
        tree = {"x": jnp.ones(2), "y": [2, (np.float32(3),)], "z": None}
        return context().all_reduce("SUM", tree)

    result = strategy.run(engine(step))
    count = strategy.num_replicas_in_sync
    np.testing.assert_array_equal(parts(strategy, result["x"])[0], [count, count])
    assert parts(strategy, result["y"][0])[0] == 2 * count
    assert parts(strategy, result["y"][1][0])[0] == 3 * count
    assert result["z"] is None


@engines
def test_all_reduce_of_nothing_is_nothing(strategy, engine):
    assert strategy.run(engine(lambda: context().all_reduce("SUM", []))) == []


@engines
def test_all_reduce_takes_variables(strategy, engine):
    with strategy.scope():
        variable = mirrax.Variable(2.0)
    result = strategy.run(engine(lambda: context().all_reduce("SUM", variable)))
    assert parts(strategy, result)[0] == 2 * strategy.num_replicas_in_sync


@engines
def test_a_value_that_all_replicas_share_counts_once_for_each(strategy, engine):
    shared = jnp.float32(5)
    result = strategy.run(engine(lambda: context().all_reduce("SUM", shared)))
    assert parts(strategy, result)[0] == 5 * strategy.num_replicas_in_sync


@engines
@pytest.mark.parametrize(
    ("op", "kinds"),
    [("SUM", ["int32", "int32", "float32", "int32"]), ("MEAN", ["float32"] * 4)],
    ids=["sum", "mean"],
)
def test_all_reduce_gives_the_same_type_on_any_number_of_replicas(
    strategy, engine, op, kinds
):
    values = [True, 2, 2.0, np.bool_(True)]
    result = strategy.run(engine(lambda: context().all_reduce(op, values)))
    first = [strategy.experimental_local_results(leaf)[0] for leaf in result]
    assert [str(value.dtype) for value in first] == kinds
    assert not any(value.aval.weak_type for value in first)


@engines
def test_all_reduce_in_packs_gives_the_same(strategy, engine):
    def step():
        values = [jnp.full(3, i + 1.0) for i in range(4)]
        return context().all_reduce("SUM", values, CommunicationOptions(16))

    result = strategy.run(engine(step))
    count = strategy.num_replicas_in_sync
    assert [parts(strategy, value)[0][0] for value in result] == [
        count * (i + 1) for i in range(4)
    ]


@engines
def test_an_unknown_operation_is_refused(strategy, engine):
    with pytest.raises(ValueError, match=r"one of SUM, MEAN.*Received: 'MAX'"):
        strategy.run(engine(lambda: context().all_reduce("MAX", 1.0)))


@engines
def test_an_aggregation_is_no_operation(strategy, engine):
    with pytest.raises(AssertionError, match="takes a ReduceOp"):
        strategy.run(
            engine(lambda: context().all_reduce(mirrax.VariableAggregation.SUM, 1.0))
        )


# all_gather.


@engines
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_all_gather_joins_in_replica_order(strategy, engine, axis):
    def step():
        own = jnp.full((2, 3), context().replica_id_in_sync_group)
        return context().all_gather(own, axis)

    expected = np.concatenate([np.full((2, 3), i) for i in numbers(strategy)], axis)
    np.testing.assert_array_equal(
        parts(strategy, strategy.run(engine(step)))[-1], expected
    )


@engines
def test_all_gather_takes_structures(strategy, engine):
    result = strategy.run(
        engine(lambda: context().all_gather({"x": jnp.ones(2), "y": [jnp.ones(1)]}, 0))
    )
    count = strategy.num_replicas_in_sync
    assert parts(strategy, result["x"])[0].shape == (2 * count,)
    assert parts(strategy, result["y"][0])[0].shape == (count,)


@engines
@pytest.mark.parametrize("axis", [1, -2, None, True, 0.0])
def test_all_gather_refuses_an_axis_that_is_not_there(strategy, engine, axis):
    with pytest.raises(ValueError, match=r"`axis` of all_gather.*1 dimension"):
        strategy.run(engine(lambda: context().all_gather(jnp.ones(2), axis)))


@engines
def test_all_gather_refuses_scalars(strategy, engine):
    with pytest.raises(ValueError, match=r"`axis` of all_gather.*0 dimension"):
        strategy.run(engine(lambda: context().all_gather(1.0, 0)))


# merge_call.


@engines
def test_merge_call_runs_once_in_cross_replica_context(strategy, engine):
    seen = []

    def merge(given):
        seen.append((given is strategy, mirrax.in_cross_replica_context(), context()))

    strategy.run(engine(lambda: context().merge_call(merge)))
    assert seen == [(True, True, None)]


@engines
def test_merge_call_hands_over_the_values_of_all_replicas(strategy, engine):
    def merge(strategy, x, *, y):
        return strategy.reduce("SUM", {"x": x, "y": y}, axis=None)

    def step():
        number = jnp.float32(context().replica_id_in_sync_group)
        return context().merge_call(merge, args=(number,), kwargs={"y": 10 * number})

    result = strategy.run(engine(step))
    total = sum(numbers(strategy))
    assert parts(strategy, result["x"])[0] == total
    assert parts(strategy, result["y"])[0] == 10 * total


@engines
def test_each_replica_gets_its_part_of_what_merge_call_returns(strategy, engine):
    def step():
        number = context().replica_id_in_sync_group
        same = context().merge_call(lambda _, x: x, args=(jnp.float32(number),))
        return same - number

    assert parts(strategy, strategy.run(engine(step))) == [0] * len(numbers(strategy))


@engines
def test_merge_call_can_return_parts_of_its_own(two_replicas, engine):
    def merge(_):
        return {"own": mirrax.PerReplica((10, 20)), "all": 7}

    def step():
        answer = context().merge_call(merge)
        return answer["own"] + answer["all"]

    assert parts(two_replicas, two_replicas.run(engine(step))) == [17, 27]


@engines
def test_an_error_in_a_merge_function_leaves_the_strategy(strategy, engine):
    def merge(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        strategy.run(engine(lambda: context().merge_call(merge)))
    assert not mirrax.has_strategy()


@engines
def test_merge_call_hands_over_once_what_all_replicas_share(two_replicas, engine):
    shared, seen = jnp.float32(5), []

    def merge(_, number, array):
        seen.append((number, array))

    two_replicas.run(engine(lambda: context().merge_call(merge, args=(2.0, shared))))
    assert seen == [(2.0, shared)]


@engines
def test_sum_of_what_all_replicas_share_is_refused(two_replicas, engine):
    def merge(strategy, x):
        return strategy.reduce("SUM", x, axis=None)

    step = engine(lambda: context().merge_call(merge, args=(2.0,)))
    with pytest.raises(ValueError, match=r"all replicas only once.*jnp.array"):
        two_replicas.run(step)


@engines
def test_merge_call_can_return_any_object(strategy, engine):
    given, seen = object(), []
    strategy.run(engine(lambda: seen.append(context().merge_call(lambda _: given))))
    assert set(seen) == {given}


@engines
def test_merge_call_can_assign_variables(strategy, engine):
    with strategy.scope():
        variable = mirrax.Variable(0.0)

    def merge(strategy, x):
        variable.assign_add(strategy.reduce("SUM", x, axis=None))

    strategy.run(
        engine(lambda: context().merge_call(merge, args=(jnp.float32(1),))),
    )
    assert variable.numpy() == strategy.num_replicas_in_sync


# In the wrong place.


def test_a_context_is_of_no_use_in_a_merge_function(two_replicas):
    def step():
        own = context()
        own.merge_call(lambda _: own.all_reduce("SUM", 1.0))

    message = r"`ReplicaContext.all_reduce` acts for one replica.*cross-replica"
    with pytest.raises(RuntimeError, match=message):
        two_replicas.run(step)


@pytest.mark.parametrize(
    "use",
    [
        lambda own: own.all_reduce("SUM", 1.0),
        lambda own: own.all_gather(jnp.ones(1), 0),
        lambda own: own.merge_call(lambda _: None),
    ],
    ids=["all_reduce", "all_gather", "merge_call"],
)
def test_a_context_is_of_no_use_after_the_run(two_replicas, use):
    kept = []
    two_replicas.run(lambda: kept.append(context()))
    with pytest.raises(RuntimeError, match="acts for one replica"):
        use(kept[0])


@engines
def test_a_context_of_an_earlier_run_is_refused_in_a_later_one(strategy, engine):
    kept = []
    strategy.run(lambda: kept.append(context()))
    message = r"of a `run` that is over.*get_replica_context\(\).all_reduce"
    with pytest.raises(RuntimeError, match=message):
        strategy.run(engine(lambda: kept[0].all_reduce("SUM", 1.0)))


def test_a_context_of_one_replica_is_of_no_use_after_the_run():
    kept = []
    mirrax.OneDeviceStrategy("CPU:0").run(lambda: kept.append(context()))
    with pytest.raises(RuntimeError, match="acts for one replica"):
        kept[0].all_reduce("SUM", 1.0)


def test_unequal_shapes_are_refused_with_the_place(two_replicas):
    def step():
        size = context().replica_id_in_sync_group + 1
        return context().all_reduce("SUM", jnp.ones(size))

    message = r"replica 1: float32\[2\](.|\n)*all_reduce, called at .*_context.py:\d+"
    with pytest.raises(mirrax.errors.InvalidArgumentError, match=message):
        two_replicas.run(step)


def test_all_gather_of_unequal_parts_joins_them(two_replicas):
    def step():
        size = context().replica_id_in_sync_group + 1
        return context().all_gather(jnp.full(size, float(size)), axis=0)

    result = two_replicas.run(step)
    np.testing.assert_array_equal(result.values[0], [1, 2, 2])
    np.testing.assert_array_equal(result.values[1], [1, 2, 2])


def test_all_gather_refuses_parts_that_do_not_fit(two_replicas):
    def step():
        size = context().replica_id_in_sync_group + 1
        return context().all_gather(jnp.ones((1, size)), axis=0)

    message = r"Dimensions of inputs should match.*float32\[1, 1\].*float32\[1, 2\]"
    with pytest.raises(mirrax.errors.InvalidArgumentError, match=message):
        two_replicas.run(step)


def test_the_results_of_all_reduce_are_equal_bit_for_bit(four_replicas):
    def step():
        numbers = np.random.default_rng(context().replica_id_in_sync_group)
        return context().all_reduce("SUM", jnp.asarray(numbers.normal(size=64)))

    first, *others = parts(four_replicas, four_replicas.run(step))
    assert [other.tobytes() == first.tobytes() for other in others] == [True] * 3


@engines
@pytest.mark.parametrize("value", [2_000_000_000, np.uint8(200)], ids=repr)
def test_engines_agree_on_a_mean_of_integers(two_replicas, engine, value):
    step = engine(lambda x: mirrax.get_replica_context().all_reduce("MEAN", x))
    means = two_replicas.run(step, args=(jnp.asarray(value),))
    for mean in two_replicas.experimental_local_results(means):
        assert mean == value


def test_hints_are_of_their_own_kind(strategy):
    with pytest.raises(TypeError, match="is a `CommunicationOptions`"):
        strategy.run(
            lambda: mirrax.get_replica_context().all_reduce("SUM", 1.0, options=3)
        )
