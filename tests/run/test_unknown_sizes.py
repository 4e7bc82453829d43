"""A function whose signature leaves sizes open is traced once for many shapes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax

ROWS = mirrax.TensorSpec([None, 3])
ON_READ = {
    "synchronization": mirrax.VariableSynchronization.ON_READ,
    "aggregation": mirrax.VariableAggregation.SUM,
}


def rows(count, width=3):
    return np.random.default_rng(count).normal(size=(count, width)).astype("float32")


def same(found, expected):
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in leaves)


def batches(strategy, count, size):
    dataset = mirrax.data.Dataset.from_tensor_slices(rows(count)).batch(size)
    return strategy.experimental_distribute_dataset(dataset)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x.mean(),
        lambda x: (x.reshape(-1), {"twice": jnp.concatenate([x, x])}),
        jax.grad(lambda x: jnp.square(x).mean()),
        lambda x: jnp.sum(x) / x.shape[0],
    ],
    ids=["mean", "structure", "gradient", "size"],
)
def test_one_trace_serves_all_sizes(body):
    step = mirrax.function(body, input_signature=[ROWS])
    results = [step(rows(count)) for count in (4, 2, 1, 7, 2)]
    assert step.trace_count == 1
    assert same(results, [mirrax.function(body)(rows(n)) for n in (4, 2, 1, 7, 2)])


def test_an_empty_batch_gives_what_jax_gives():
    step = mirrax.function(lambda x: x.mean(0), input_signature=[ROWS])
    step(rows(4))
    assert same(step(rows(0)), jnp.mean(rows(0), 0))


def test_the_first_batch_can_be_the_empty_one():
    step = mirrax.function(lambda x: x.sum(), input_signature=[ROWS])
    assert [float(step(rows(0))), float(step(np.ones((2, 3), "float32")))] == [0, 6]
    assert step.trace_count == 1


def test_a_question_about_the_size_gets_a_trace_for_each_answer():
    @mirrax.function(input_signature=[ROWS])
    def step(x):
        return x.sum() if x.shape[0] > 3 else -x.sum()

    ones = np.ones((8, 3), "float32")
    results = [float(step(ones[:count])) for count in (4, 2, 6, 3, 8)]
    assert results == [12, -6, 18, -9, 24]
    assert step.trace_count == 2


def test_python_that_needs_the_number_gets_a_trace_for_each():
    @mirrax.function(input_signature=[ROWS])
    def step(x):
        return sum(x[i].sum() * i for i in range(x.shape[0]))

    ones = np.ones((4, 3), "float32")
    assert [float(step(ones[:count])) for count in (4, 2, 3, 4)] == [18, 3, 9, 18]
    assert step.trace_count == 3


def test_what_works_without_symbols_alone_gets_a_trace_for_each_shape():
    @mirrax.function(input_signature=[ROWS])
    def step(x):
        return sum(row.sum() for row in x)

    ones = np.ones((4, 3), "float32")
    assert [float(step(ones[:count])) for count in (4, 2, 4)] == [12, 6, 12]
    assert step.trace_count == 2


def test_an_error_of_the_function_comes_out():
    @mirrax.function(input_signature=[ROWS])
    def step(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        step(rows(2))


def test_a_size_can_be_a_result():
    step = mirrax.function(lambda x: x.shape, input_signature=[ROWS])
    results = [step(rows(count)) for count in (4, 2)]
    assert jax.tree.map(int, results) == [(4, 3), (2, 3)]
    assert isinstance(results[1][0], jax.Array)
    assert step.trace_count == 1


def test_a_size_hidden_in_a_result_gets_a_trace_for_each_shape():
    class Note:
        def __init__(self, size):
            self.size = size

    step = mirrax.function(lambda x: Note(x.shape[0]), input_signature=[ROWS])
    assert [step(rows(count)).size for count in (4, 2)] == [4, 2]


def test_a_size_in_a_callback_gets_a_trace_for_each_shape():
    @mirrax.function(input_signature=[ROWS])
    def step(x):
        size = x.shape[0]
        scalar = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.pure_callback(lambda y: np.float32(y.sum() + size), scalar, x)

    ones = np.ones((4, 3), "float32")
    assert [float(step(ones[:count])) for count in (4, 2)] == [16, 8]


def test_a_callback_without_sizes_keeps_one_trace():
    @mirrax.function(input_signature=[ROWS])
    def step(x):
        return jax.pure_callback(np.negative, x, x)

    assert [step(rows(count)).shape for count in (4, 2)] == [(4, 3), (2, 3)]
    assert step.trace_count == 1


def test_sizes_that_belong_together_stay_together():
    specs = [ROWS, mirrax.TensorSpec([None, 3])]
    step = mirrax.function(lambda x, y: jnp.max(x * y), input_signature=specs)
    results = [step(rows(count), rows(count)) for count in (4, 2, 1)]
    assert same(results, [jnp.max(rows(n) * rows(n)) for n in (4, 2, 1)])
    assert step.trace_count == 1


def test_sizes_that_part_later_get_another_trace():
    specs = [ROWS, mirrax.TensorSpec([None, 3])]
    step = mirrax.function(lambda x, y: x.shape[0] - y.shape[0], input_signature=specs)
    pairs = [(4, 4), (2, 5), (1, 1), (3, 7)]
    assert [int(step(rows(a), rows(b))) for a, b in pairs] == [0, -3, 0, -4]
    assert step.trace_count == 2


def test_two_open_sizes_of_one_argument_are_two():
    spec = mirrax.TensorSpec([None, None])
    step = mirrax.function(lambda x: x.sum(1), input_signature=[spec])
    results = [step(rows(a, b)).shape for a, b in [(4, 4), (2, 5), (3, 1)]]
    assert results == [(4,), (2,), (3,)]
    assert step.trace_count == 1


def test_an_unknown_rank_has_a_trace_for_each_rank():
    spec = mirrax.TensorSpec(None)
    step = mirrax.function(lambda x: x.sum(), input_signature=[spec])
    for shape in [(4, 3), (2, 5), (3,), (1,), ()]:
        step(np.ones(shape, "float32"))
    assert step.trace_count == 3


def test_arguments_can_be_named_and_nested():
    spec = {"x": (ROWS, mirrax.TensorSpec([None], np.int32))}

    @mirrax.function(input_signature=[spec])
    def step(batch):
        x, y = batch["x"]
        return (x * y[:, None]).sum()

    for count in (3, 2):
        step(batch={"x": (rows(count), np.arange(count, dtype=np.int32))})
    assert step.trace_count == 1


def test_arguments_without_open_sizes_are_part_of_the_kind():
    specs = [ROWS, mirrax.TensorSpec([2])]
    step = mirrax.function(lambda x, y: x.sum() + y.sum(), input_signature=specs)
    two = np.ones(2, "float32")
    assert float(step(np.ones((3, 3), "float32"), two)) == 11
    assert float(step(np.ones((1, 3), "float32"), two)) == 5
    assert step.trace_count == 1


def test_variables_are_read_and_written():
    weight = mirrax.Variable(np.ones((3, 1), "float32"))

    @mirrax.function(input_signature=[ROWS])
    def step(x):
        loss, gradient = mirrax.value_and_grad(
            lambda: jnp.mean(jnp.square(x @ weight.value)), [weight]
        )()
        weight.assign_sub(0.1 * gradient[0])
        return loss

    for count in (4, 2, 1):
        step(rows(count))
    assert step.trace_count == 1
    expected = jnp.ones((3, 1))
    for count in (4, 2, 1):
        gradient = jax.grad(lambda w, x: jnp.mean(jnp.square(x @ w)))
        expected = expected - 0.1 * gradient(expected, rows(count))
    np.testing.assert_allclose(weight.value, expected, rtol=1e-6)


def test_a_tape_keeps_one_trace():
    weight = mirrax.Variable(np.ones((3, 1), "float32"))

    @mirrax.function(input_signature=[ROWS])
    def step(x):
        with mirrax.GradientTape() as tape:
            loss = jnp.mean(x @ weight.value)
        return tape.gradient(loss, weight)

    results = [step(rows(count)) for count in (4, 2)]
    assert step.trace_count == 1
    for count, found in zip((4, 2), results, strict=True):
        expected = rows(count).mean(0)[:, None]
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_donated_argument_is_overwritten():
    step = mirrax.function(lambda x: x * 2, input_signature=[ROWS], donate_argnums=0)
    given = [jnp.asarray(rows(count)) for count in (4, 2)]
    results = [step(array) for array in given]
    assert [array.is_deleted() for array in given] == [True, True]
    assert same(results, [2 * rows(4), 2 * rows(2)])


def test_full_and_partial_batches_of_replicas_share_a_trace(two_replicas):
    dataset = batches(two_replicas, count=14, size=4)

    @mirrax.function(input_signature=[dataset.element_spec])
    def step(batch):
        total = two_replicas.run(lambda x: x.sum(), args=(batch,))
        return two_replicas.reduce("SUM", total, axis=None)

    total = sum(float(step(batch)) for batch in dataset)
    assert step.trace_count == 1
    np.testing.assert_allclose(total, rows(14).sum(), rtol=1e-5)


def test_a_function_given_to_run_shares_a_trace(two_replicas):
    @mirrax.function(input_signature=[ROWS])
    def part_mean(x):
        context = mirrax.get_replica_context()
        return context.all_reduce("MEAN", x.mean(0)), x * 2

    for batch in batches(two_replicas, count=14, size=4):
        mean, twice = two_replicas.run(part_mean, args=(batch,))
        parts = two_replicas.experimental_local_results(batch)
        expected = np.mean([np.mean(part, 0) for part in parts], 0)
        np.testing.assert_allclose(mean, expected, rtol=1e-5)
        assert twice.values[1].shape == parts[1].shape
    assert part_mean.over(two_replicas, None).trace_count == 1


def test_variables_of_replicas_are_read_and_written(two_replicas):
    with two_replicas.scope():
        seen = mirrax.Variable(np.float32(0), **ON_READ)
        weight = mirrax.Variable(np.ones((3, 1), "float32"))
    dataset = batches(two_replicas, count=14, size=4)

    def part(x):
        seen.assign_add(x.shape[0])
        _, gradient = mirrax.value_and_grad(
            lambda: jnp.sum(jnp.square(x @ weight.value)), [weight]
        )()
        context = mirrax.get_replica_context()
        weight.assign_sub(0.01 * context.all_reduce("SUM", gradient[0]))

    @mirrax.function(input_signature=[dataset.element_spec])
    def step(batch):
        two_replicas.run(part, args=(batch,))

    expected = jnp.ones((3, 1))
    for batch in dataset:
        step(batch)
        whole = np.concatenate(two_replicas.experimental_local_results(batch))
        gradient = jax.grad(lambda w, x: jnp.sum(jnp.square(x @ w)))(expected, whole)
        expected = expected - 0.01 * gradient
    assert step.trace_count == 1
    assert float(seen.value) == 14
    np.testing.assert_allclose(weight.value, expected, rtol=1e-4)


def test_functions_without_open_sizes_take_no_symbols():
    spec = mirrax.TensorSpec([4, 3])
    step = mirrax.function(list, input_signature=[spec])
    assert len(step(rows(4))) == 4
    assert step.trace_count == 1


def test_sizes_that_differ_become_open_on_request():
    step = mirrax.function(lambda x: x.sum(), reduce_retracing=True)
    counts = []
    for shape in [(2, 3), (4, 3), (5, 3), (2, 3), (1, 3), (5, 7), (6, 8), (2, 3)]:
        assert float(step(np.ones(shape, "float32"))) == np.prod(shape)
        counts.append(step.trace_count)
    # As TensorFlow counts.
    assert counts == [1, 2, 2, 2, 2, 3, 3, 3]


def test_sizes_of_another_dtype_or_rank_are_others():
    step = mirrax.function(lambda x: x.sum(), reduce_retracing=True)
    for value in [np.ones(2, "float32"), np.ones(3, "int32"), np.ones((4, 4), "int32")]:
        step(value)
    assert step.trace_count == 3
    step(np.ones(5, "float32"))
    step(np.ones(6, "float32"))
    assert step.trace_count == 4


def test_sizes_of_parts_become_open_on_request(two_replicas):
    step = mirrax.function(lambda x: x.sum(), reduce_retracing=True)
    sums = []
    for rows_per_part in (1, 2, 3, 4):
        batch = two_replicas.experimental_distribute_values_from_function(
            lambda _, count=rows_per_part: np.ones((count, 3), "float32")
        )
        sums.append(float(two_replicas.run(step, args=(batch,)).values[1]))
    assert sums == [3, 6, 9, 12]
    assert step.over(two_replicas, None).trace_count == 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Sized:
    x: jax.Array
    size: int = dataclasses.field(metadata={"static": True})


@pytest.mark.parametrize(
    ("wrap", "size_of"),
    [
        (lambda x: Sized(x, x.shape[0]), lambda result: result.size),
        (lambda x: {x.shape[0]: x}, lambda result: next(iter(result))),
    ],
    ids=["static field", "key"],
)
def test_sizes_beside_the_leaves_of_a_result_are_numbers(wrap, size_of):
    signature = [mirrax.TensorSpec([None], jnp.float32)]
    wrapped = mirrax.function(wrap, input_signature=signature)
    sizes = [size_of(wrapped(np.ones(n, np.float32))) for n in (2, 5, 2)]
    assert sizes == [2, 5, 2]
    assert {type(size) for size in sizes} == {int}
