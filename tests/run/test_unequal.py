"""Functions with open sizes run on unequal parts without another trace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax

ON_READ = {
    "synchronization": mirrax.VariableSynchronization.ON_READ,
    "aggregation": mirrax.VariableAggregation.SUM,
}
SPEC = mirrax.TensorSpec([None, 3])


def rows(count):
    return np.random.default_rng(count).normal(size=(count, 3)).astype("float32")


def parts_of(strategy, *sizes):
    """Returns rows in parts of these sizes, on the devices of the replicas."""
    pieces = np.split(rows(sum(sizes)), np.cumsum(sizes)[:-1])
    devices = strategy.topology.devices
    placed = [jax.device_put(p, d) for p, d in zip(pieces, devices, strict=True)]
    return mirrax.PerReplica(placed)


def values(strategy, value):
    return [np.asarray(part) for part in strategy.experimental_local_results(value)]


def all_reduce(value, op="SUM"):
    return mirrax.get_replica_context().all_reduce(op, value)


def on_replicas(strategy, body):
    """Returns `body` on all replicas as a function whose number of rows is open."""
    return mirrax.function(
        lambda x: strategy.run(body, args=(x,)), input_signature=[SPEC]
    )


SIZES = [(2, 2), (2, 1), (3, 0), (1, 3)]


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x.sum(),
        lambda x: x.mean(0),
        lambda x: x * 2,
        lambda x: x.shape[0],
        lambda x: jnp.ones(x.shape[0]).sum(),
        lambda x: jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + 2, 0),
        lambda x: {"rows": x, "gradient": jax.grad(lambda y: (y**2).mean())(x)},
        lambda x: jax.random.uniform(jax.random.key(0), x.shape),
    ],
    ids=["sum", "mean", "rows", "size", "ones", "loop", "structure", "random"],
)
def test_each_replica_gets_what_its_part_gives(two_replicas, body):
    step = on_replicas(two_replicas, body)
    for sizes in SIZES:
        batch = parts_of(two_replicas, *sizes)
        result = step(batch)
        for index, part in enumerate(batch.values):
            expected = jax.jit(body)(part)
            found = jax.tree.map(
                lambda leaf, i=index: leaf.values[i],
                result,
                is_leaf=lambda x: isinstance(x, mirrax.PerReplica),
            )
            jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert step.trace_count == 1


def test_the_first_batch_can_be_unequal(two_replicas):
    step = on_replicas(two_replicas, lambda x: x.sum())
    for sizes in [(0, 1), (2, 1), (2, 2)]:
        batch = parts_of(two_replicas, *sizes)
        found = values(two_replicas, step(batch))
        np.testing.assert_allclose(found, [p.sum() for p in batch.values], rtol=1e-6)
    assert step.trace_count == 1


def test_collectives_meet(four_replicas):
    def body(x):
        total = all_reduce(x.sum(0))
        return all_reduce(jnp.float32(x.shape[0])), total, x.sum(0) - total

    step = on_replicas(four_replicas, body)
    for sizes in [(1, 1, 1, 1), (2, 2, 1, 0), (3, 2, 2, 2)]:
        batch = parts_of(four_replicas, *sizes)
        count, total, rest = step(batch)
        assert float(count) == sum(sizes)
        np.testing.assert_allclose(total, rows(sum(sizes)).sum(0), rtol=1e-4)
        for own, part in zip(rest.values, batch.values, strict=True):
            expected = np.asarray(part).sum(0) - np.asarray(total)
            np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-5)
    assert step.trace_count == 1


def test_replicas_know_their_number(two_replicas):
    def body(x):
        number = mirrax.get_replica_context().replica_id_in_sync_group
        return x.sum() * 0 + number

    step = on_replicas(two_replicas, body)
    assert values(two_replicas, step(parts_of(two_replicas, 2, 1))) == [0, 1]
    assert step.trace_count == 1


def test_steps_on_whole_arrays_stand_between(two_replicas):
    @mirrax.function(input_signature=[SPEC, mirrax.TensorSpec([])])
    def step(x, scale):
        half = scale / 2
        sums = two_replicas.run(lambda y: y.sum() * half, args=(x,))
        total = two_replicas.reduce("SUM", sums, axis=None) + 1
        return two_replicas.run(lambda y: y.sum() + total, args=(x,)), total

    for sizes in SIZES:
        batch = parts_of(two_replicas, *sizes)
        found, total = step(batch, np.float32(4))
        np.testing.assert_allclose(total, 2 * rows(sum(sizes)).sum() + 1, rtol=1e-4)
        expected = [part.sum() + total for part in batch.values]
        np.testing.assert_allclose(values(two_replicas, found), expected, rtol=1e-4)
    assert step.trace_count == 1


def test_variables_are_read_and_written(two_replicas):
    with two_replicas.scope():
        seen = mirrax.Variable(np.float32(0), **ON_READ)
        weight = mirrax.Variable(np.ones((3, 1), "float32"))
    scale = mirrax.Variable(np.float32(0.01))

    def body(x):
        seen.assign_add(x.shape[0])
        _, (gradient,) = mirrax.value_and_grad(
            lambda: jnp.sum(jnp.square(x @ weight.value)), [weight]
        )()
        weight.assign_sub(scale.value * all_reduce(gradient))
        return weight.value

    step = on_replicas(two_replicas, body)
    expected = jnp.ones((3, 1))
    for sizes in SIZES:
        before = weight.value
        given = np.array(before)
        result = step(parts_of(two_replicas, *sizes))
        whole = rows(sum(sizes))
        gradient = jax.grad(lambda w, x: jnp.sum(jnp.square(x @ w)))(expected, whole)
        expected = expected - 0.01 * gradient
        np.testing.assert_allclose(weight.value, expected, rtol=1e-4)
        np.testing.assert_array_equal(result, weight.value)
        np.testing.assert_array_equal(before, given)
    assert float(seen.value) == sum(map(sum, SIZES))
    assert step.trace_count == 1


def test_equal_and_unequal_arguments_go_together(two_replicas):
    labels = mirrax.TensorSpec([2], np.float32)

    @mirrax.function(input_signature=[SPEC, labels])
    def step(x, y):
        return two_replicas.run(lambda a, b: a.sum() + b, args=(x, y))

    pair = two_replicas.experimental_distribute_values_from_function(
        lambda context: np.full(2, context.replica_id_in_sync_group, "float32")
    )
    batch = parts_of(two_replicas, 2, 1)
    found = values(two_replicas, step(batch, pair))
    expected = [part.sum() + index for index, part in enumerate(batch.values)]
    np.testing.assert_allclose([part[0] for part in found], expected, rtol=1e-5)
    assert step.trace_count == 1


def test_a_function_given_to_run_shares_its_trace(two_replicas):
    step = mirrax.function(lambda x: all_reduce(x.sum()), input_signature=[SPEC])
    for sizes in SIZES:
        found = two_replicas.run(step, args=(parts_of(two_replicas, *sizes),))
        np.testing.assert_allclose(found, rows(sum(sizes)).sum(), rtol=1e-4)
    assert step.over(two_replicas, None).trace_count == 1


def test_a_size_that_would_answer_otherwise_is_left_to_python(two_replicas):
    step = on_replicas(two_replicas, lambda x: x.sum() if x.shape[0] > 1 else 7.0)
    found = values(two_replicas, step(parts_of(two_replicas, 2, 1)))
    np.testing.assert_allclose(found, [rows(3)[:2].sum(), 7], rtol=1e-5)


def test_gathered_rows_are_left_to_python(two_replicas):
    step = on_replicas(
        two_replicas, lambda x: mirrax.get_replica_context().all_gather(x, 0)
    )
    for sizes in SIZES:
        found = step(parts_of(two_replicas, *sizes))
        np.testing.assert_array_equal(found, rows(sum(sizes)))


def test_rows_of_all_replicas_are_left_to_python(two_replicas):
    @mirrax.function(input_signature=[SPEC])
    def step(x):
        return two_replicas.reduce("MEAN", two_replicas.run(jnp.abs, (x,)), axis=0)

    for sizes in SIZES:
        found = step(parts_of(two_replicas, *sizes))
        expected = np.abs(rows(sum(sizes))).mean(0)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_collective_in_a_loop_meets_equal_parts_alone(two_replicas):
    def body(x):
        return jax.lax.fori_loop(0, 2, lambda _, c: all_reduce(c), x.sum())

    step = on_replicas(two_replicas, body)
    found = values(two_replicas, step(parts_of(two_replicas, 2, 2)))
    np.testing.assert_allclose(found, [2 * rows(4).sum()] * 2, rtol=1e-4)
    with pytest.raises(RuntimeError, match="cannot stand inside a loop"):
        step(parts_of(two_replicas, 2, 1))


def test_callbacks_are_left_to_python(two_replicas):
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    step = on_replicas(
        two_replicas,
        lambda x: jax.pure_callback(lambda y: np.float32(len(y)), scalar, x),
    )
    for sizes in [(2, 2), (2, 1)]:
        found = values(two_replicas, step(parts_of(two_replicas, *sizes)))
        assert found == list(sizes)


def test_a_mirrored_variable_gets_no_size_of_a_part(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(np.float32(0))
    step = on_replicas(two_replicas, lambda x: variable.assign(x.shape[0]))
    step(parts_of(two_replicas, 2, 2))
    assert float(variable.value) == 2
    with pytest.raises(ValueError, match="same value by every replica"):
        step(parts_of(two_replicas, 2, 1))


def test_sizes_that_are_not_open_must_fit(two_replicas):
    spec = mirrax.TensorSpec([None, 3])
    step = mirrax.function(
        lambda x: two_replicas.run(jnp.sum, (x,)), input_signature=[spec]
    )
    first, second = parts_of(two_replicas, 2, 1).values
    with pytest.raises(mirrax.errors.SignatureMismatch):
        step(mirrax.PerReplica([first[:, :2], second]))


def test_a_mirrored_result_of_equal_arguments_stays_one_array(two_replicas):
    step = mirrax.function(
        lambda x: two_replicas.run(jnp.sum, (x,)), input_signature=[SPEC]
    )
    found = [step(np.ones((count, 3), "float32")) for count in (3, 5)]
    assert [float(total) for total in found] == [9, 15]
    assert step.trace_count == 1
