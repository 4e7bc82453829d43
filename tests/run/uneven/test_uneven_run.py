"""Compiled `run` on unequal parts gives exactly what one device gives on all rows."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from tests.programs import part_arrays as parts

SCALAR = jax.ShapeDtypeStruct((), "float32")
ON_READ = {
    "synchronization": mirrax.VariableSynchronization.ON_READ,
    "aggregation": mirrax.VariableAggregation.SUM,
}

sizes_of_parts = pytest.mark.parametrize(
    "sizes", [(3, 1), (0, 2), (5, 5, 1, 0)], ids=str
)


def context():
    return mirrax.get_replica_context()


def all_reduce(value, op="SUM"):
    return context().all_reduce(op, value)


def strategy_for(sizes):
    return mirrax.MirroredStrategy([f"CPU:{i}" for i in range(len(sizes))])


def uneven(rows, sizes):
    """Returns rows cut into parts of these sizes, on the devices of the replicas."""
    pieces = np.split(rows, np.cumsum(sizes)[:-1])
    return mirrax.PerReplica(
        [jax.device_put(p, jax.devices()[i]) for i, p in enumerate(pieces)]
    )


def rows(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


class Model:
    """A linear model with a step that counts how often its Python runs."""

    def __init__(self, strategy):
        with strategy.scope():
            self.weights = mirrax.Variable(np.ones((3, 2), np.float32))
            self.seen = mirrax.Variable(0, **ON_READ)
        self.strategy = strategy
        self.python_runs = 0

    def loss(self, x, size):
        return jnp.sum((x @ self.weights - 1) ** 2) / size

    def step(self, x, size):
        self.python_runs += 1
        compute = mirrax.value_and_grad(self.loss, self.weights)
        loss, gradient = all_reduce(compute(x, size))
        self.weights.assign_sub(0.1 * gradient)
        self.seen.assign_add(x.shape[0])
        return {"loss": loss, "own": jnp.sum(x, axis=1)}


# The same numbers as on one device.


@sizes_of_parts
def test_a_step_equals_that_of_one_device_on_all_rows(sizes):
    batch, size = rows(sum(sizes), 3), float(sum(sizes))
    one = Model(mirrax.OneDeviceStrategy("CPU:0"))
    expected = one.strategy.run(mirrax.function(one.step), args=(batch, size))
    many = Model(strategy_for(sizes))
    result = many.strategy.run(
        mirrax.function(many.step), args=(uneven(batch, sizes), size)
    )
    np.testing.assert_allclose(many.weights.numpy(), one.weights.numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        parts(many.strategy, result["loss"])[0], expected["loss"], rtol=1e-5
    )
    assert many.seen.numpy() == one.seen.numpy() == sum(sizes)
    first, *others = [part.numpy() for part in many.weights.values]
    assert {other.tobytes() for other in others} == {first.tobytes()}
    # Equal results are one array; the others are parts on the replicas' devices.
    assert isinstance(result["loss"], jax.Array)
    assert result["loss"].sharding.is_fully_replicated
    own = result["own"].values
    assert [part.shape for part in own] == [(n,) for n in sizes]
    np.testing.assert_allclose(np.concatenate(own), expected["own"], rtol=1e-5)
    devices = [next(iter(part.devices())) for part in own]
    assert devices == list(many.strategy.topology.devices)


@sizes_of_parts
def test_gradients_go_through_collectives(sizes):
    strategy = strategy_for(sizes)
    batch = rows(sum(sizes))

    @mirrax.function
    def step(x):
        return jax.grad(lambda y: all_reduce(jnp.sum(y**2)) ** 2)(x)

    result = strategy.run(step, args=(uneven(batch, sizes),))
    # Every replica has the same loss, so each gradient counts once for each of them.
    expected = len(sizes) * 4 * np.sum(batch**2) * batch
    np.testing.assert_allclose(
        np.concatenate(parts(strategy, result)), expected, rtol=1e-4
    )


# It is compiled.


def test_python_does_not_run_again_for_parts_of_the_same_sizes():
    model = Model(strategy_for((3, 1)))
    step = mirrax.function(model.step)
    batches = [uneven(rows(4, 3) + i, (3, 1)) for i in range(3)]
    model.strategy.run(step, args=(batches[0], 4.0))
    runs = model.python_runs
    model.strategy.run(step, args=(batches[1], 4.0))
    model.strategy.run(step, args=(batches[2], 4.0))
    assert model.python_runs == runs
    assert model.seen.numpy() == 12


def test_python_does_not_run_again_for_other_numbers():
    model = Model(strategy_for((3, 1)))
    step = mirrax.function(model.step)
    batch = uneven(rows(4, 3), (3, 1))
    first = model.strategy.run(step, args=(batch, 4.0))
    runs = model.python_runs
    model.weights.assign(np.ones((3, 2), np.float32))
    second = model.strategy.run(step, args=(batch, 8.0))
    assert float(first["loss"]) == pytest.approx(2 * float(second["loss"]))
    assert model.python_runs == runs


def test_equal_parts_are_not_traced_again_after_unequal_ones():
    model = Model(strategy_for((2, 2)))
    step = mirrax.function(model.step)
    model.strategy.run(step, args=(uneven(rows(4, 3), (2, 2)), 4.0))
    model.strategy.run(step, args=(uneven(rows(4, 3), (3, 1)), 4.0))
    runs = model.python_runs
    model.strategy.run(step, args=(uneven(rows(4, 3), (2, 2)), 4.0))
    model.strategy.run(step, args=(uneven(rows(4, 3), (3, 1)), 4.0))
    assert model.python_runs == runs


def test_a_changed_variable_is_seen_without_running_python():
    strategy = strategy_for((1, 2))
    with strategy.scope():
        scale = mirrax.Variable(2.0)
    step = mirrax.function(lambda x: all_reduce(x.sum()) * scale)
    batch = uneven(np.ones(3, np.float32), (1, 2))
    assert float(strategy.run(step, args=(batch,))) == 6
    scale.assign(10.0)
    assert float(strategy.run(step, args=(batch,))) == 30


def test_a_setting_of_jax_is_compiled_for():
    precisions = []
    strategy = strategy_for((1, 2))

    @mirrax.function
    def step(x):
        precisions.append(jax.config.jax_default_matmul_precision)
        return x.T @ x

    batch = uneven(rows(3, 2), (1, 2))
    strategy.run(step, args=(batch,))
    with jax.default_matmul_precision("highest"):
        strategy.run(step, args=(batch,))
    assert set(precisions) == {None, "highest"}


# Collectives in loops and branches.


def accumulate(x):
    """Adds up parts of a batch of four columns, with a collective for each."""

    def body(carry, column):
        own, combined = carry
        loss = all_reduce(jnp.sum(column**2))
        return (own + jnp.sum(column), combined + loss), loss

    return mirrax.scan(body, (0.0, 0.0), x.T)


@sizes_of_parts
def test_a_scan_with_a_collective_gives_what_it_gives_for_equal_parts(sizes):
    strategy, x = strategy_for(sizes), rows(sum(sizes), 4)
    step = mirrax.function(accumulate)
    (own, combined), losses = strategy.run(step, args=(uneven(x, sizes),))
    pieces = np.split(x, np.cumsum(sizes)[:-1])
    expected = [piece.sum() for piece in pieces]
    np.testing.assert_allclose(own.values, expected, rtol=1e-5, atol=1e-5)
    assert float(combined) == pytest.approx((x**2).sum(), rel=1e-5)
    np.testing.assert_allclose(losses, (x**2).sum(0), rtol=1e-5)
    for value in (combined, losses):
        assert value.sharding == strategy.topology.replicated


@pytest.mark.parametrize(
    "scan",
    [
        jax.lax.scan,
        jax.jit(jax.lax.scan, static_argnums=0),
        lambda f, *given: jax.lax.scan(f, *given, reverse=True),
    ],
    ids=["jax", "in_jit", "reverse"],
)
def test_a_scan_of_jax_gives_what_one_device_gives(scan):
    sizes, x = (2, 1), rows(3, 4)

    def fn(x, combine):
        def body(carry, column):
            carry = carry * 0.5 + combine(column.sum())
            return carry, (carry, column)

        return scan(body, 0.0, x.T)

    step = mirrax.function(lambda x: fn(x, all_reduce))
    carry, (each, columns) = strategy_for(sizes).run(step, args=(uneven(x, sizes),))
    expected, (expected_each, _) = fn(x, lambda y: y)
    assert float(carry) == pytest.approx(float(expected), rel=1e-5)
    np.testing.assert_allclose(each, expected_each, rtol=1e-5)
    for part, own in zip(columns.values, (x[:2], x[2:]), strict=True):
        np.testing.assert_array_equal(part, own.T)


def test_a_scan_of_no_steps_has_results_of_no_rows():
    def fn(x):
        return jax.lax.scan(lambda c, y: (c + all_reduce(y.sum()), y), 1.0, x)

    given = mirrax.PerReplica([np.ones((0, 2)), np.ones((0, 3))])
    carry, made = strategy_for((0, 0)).run(mirrax.function(fn), args=(given,))
    assert float(carry) == 1
    assert [part.shape for part in made.values] == [(0, 2), (0, 3)]


def test_loops_and_branches_in_each_other_meet_at_their_collectives():
    sizes, x = (2, 0, 1), rows(3, 4)
    strategy = strategy_for(sizes)
    with strategy.scope():
        count = mirrax.Variable(0)

    @mirrax.function
    def step(x):
        def halve(value):
            count.assign_add(1)
            return all_reduce(value) / 2

        def body(carry, column):
            start = all_reduce(column.sum() ** 2)
            small = mirrax.while_loop(lambda v: v > 1, lambda v: halve(v / 3), start)
            return carry + mirrax.cond(small > 0.5, halve, lambda v: v, small), None

        return mirrax.scan(body, 0.0, x.T)[0]

    result = strategy.run(step, args=(uneven(x, sizes),))
    expected, steps = 0.0, 0
    for column in x.T:
        value = sum(p.sum() ** 2 for p in np.split(column, np.cumsum(sizes)[:-1]))
        while value > 1:
            value, steps = value / 2, steps + 1
        if value > 0.5:
            value, steps = value * 3 / 2, steps + 1
        expected += value
    assert float(result) == pytest.approx(expected, rel=1e-5)
    assert int(count) == steps


def test_gradients_go_through_a_loop_with_collectives():
    sizes, x = (3, 1), rows(4, 2)

    def loss(weight, x, combine):
        def body(carry, column):
            return carry + combine(jnp.sum((weight * column) ** 2)), None

        return jax.lax.scan(body, 0.0, x.T)[0]

    @mirrax.function
    def step(weight, x):
        return all_reduce(jax.grad(loss)(weight, x, all_reduce), "MEAN")

    found = strategy_for(sizes).run(step, args=(2.0, uneven(x, sizes)))
    expected = jax.grad(loss)(2.0, x, lambda y: y)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("scan", [mirrax.scan, jax.lax.scan], ids=["mirrax", "jax"])
def test_loops_of_different_lengths_are_refused(scan):
    @mirrax.function
    def step(x):
        return scan(lambda c, y: (c + all_reduce(y), None), 0.0, x)[0]

    with pytest.raises(RuntimeError, match=r"make the same (collective )?calls"):
        strategy_for((1, 2)).run(step, args=(uneven(rows(3), (1, 2)),))


def test_a_branch_that_depends_on_the_size_of_a_part_is_chosen_by_each_replica():
    @mirrax.function
    def step(x):
        is_large = jnp.asarray(x.shape[0] == 2)
        one = jnp.float32(1)
        return mirrax.cond(is_large, all_reduce, lambda y: all_reduce(y) + 100, one)

    result = strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))
    assert [float(part) for part in result.values] == [2, 102]


def test_a_branch_that_depends_on_what_a_loop_started_with_is_chosen_by_each_replica():
    @mirrax.function
    def step(x):
        def body(count, _):
            one = jnp.float32(1)
            large = lambda y: all_reduce(y) + 100  # noqa: E731
            return count + 1, mirrax.cond(count > 2, large, all_reduce, one)

        return mirrax.scan(body, jnp.asarray(x.shape[0]), None, length=2)[1]

    result = strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))
    assert [part.tolist() for part in result.values] == [[2, 102], [2, 2]]


def test_a_collective_in_a_branch_that_only_some_replicas_take_is_refused():
    @mirrax.function
    def step(x):
        is_large = jnp.asarray(x.shape[0] == 2)
        return mirrax.cond(is_large, all_reduce, lambda y: y, x.sum())

    with pytest.raises(mirrax.errors.ReplicaError, match="same collective calls"):
        strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))


def test_a_call_in_a_branch_is_not_joined_with_a_later_call_of_others():
    @mirrax.function
    def step(x):
        is_large = jnp.asarray(x.shape[0] == 2)
        one, keep = jnp.float32(1), lambda y: y
        jax.lax.cond(is_large, lambda y: all_reduce(y * 10), keep, one)
        total = all_reduce(one)
        jax.lax.cond(is_large, keep, lambda y: all_reduce(y * 100), one)
        return total

    with pytest.raises(RuntimeError, match="not depend on the size of a part"):
        strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))


def test_a_choice_among_other_numbers_of_branches_is_refused():
    @mirrax.function
    def step(x):
        branches = [all_reduce, lambda y: y, lambda y: 2 * y][: len(x) + 1]
        return jax.lax.switch(jnp.asarray(0), branches, jnp.float32(1))

    with pytest.raises(RuntimeError, match="not depend on the size of a part"):
        strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))


def steps_of_the_size(x, body):
    return jax.lax.fori_loop(0, jnp.asarray(x.shape[0]), body, 0.0)


def steps_inside_a_scan(x, body):
    def outer(count, _):
        return count, jax.lax.fori_loop(0, count, body, 0.0)

    return jax.lax.scan(outer, jnp.asarray(x.shape[0]), None, length=2)[1]


@pytest.mark.parametrize("loop", [steps_of_the_size, steps_inside_a_scan])
def test_a_loop_whose_steps_depend_on_the_size_of_a_part_is_refused(loop):
    @mirrax.function
    def step(x):
        return loop(x, lambda _, total: total + all_reduce(jnp.float32(1)))

    with pytest.raises(RuntimeError, match="not depend on the size of a part"):
        strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))


def test_a_scan_whose_order_depends_on_the_size_of_a_part_is_refused():
    @mirrax.function
    def step(x):
        is_reversed = x.shape[0] == 2
        add = lambda total, y: (total + all_reduce(y), y)  # noqa: E731
        return jax.lax.scan(add, 0.0, jnp.arange(3.0), reverse=is_reversed)

    with pytest.raises(RuntimeError, match="not depend on the size of a part"):
        strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))


def with_own_gradient(fn):
    wrapped = jax.custom_vjp(fn)
    wrapped.defvjp(lambda x: (fn(x), None), lambda _, gradient: (gradient,))
    return wrapped


def in_scan(fn):
    return jax.lax.scan(lambda c, _: (fn(c), None), 0.0, None, length=1)[0]


def in_cond(fn):
    return jax.lax.cond(jnp.asarray(True), fn, lambda y: y, 0.0)


def in_while(fn):
    return jax.lax.while_loop(lambda y: y < 1, fn, 0.0)


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint, with_own_gradient])
@pytest.mark.parametrize("block", [in_scan, in_cond, in_while])
def test_calls_with_collectives_inside_loops_and_branches_work(wrap, block):
    @mirrax.function
    def step(x):
        return block(wrap(lambda total: total + all_reduce(x.sum())))

    x = np.ones(3, np.float32)
    result = strategy_for((2, 1)).run(step, args=(uneven(x, (2, 1)),))
    assert float(result) == 3


def test_a_variable_that_a_loop_counts_up_stays_equal():
    strategy = strategy_for((2, 1))
    with strategy.scope():
        count = mirrax.Variable(0)

    @mirrax.function
    def step(x):
        def body(total, column):
            count.assign_add(1)
            return total + column.sum(), None

        return mirrax.scan(body, 0.0, x.T)[0]

    x = rows(3, 4)
    own = strategy.run(step, args=(uneven(x, (2, 1)),))
    np.testing.assert_allclose(own.values, [x[:2].sum(), x[2:].sum()], rtol=1e-5)
    assert int(count) == 4


def test_replicas_with_parts_of_the_same_shape_share_a_trace():
    shapes = []
    step = mirrax.function(lambda x: shapes.append(x.shape) or all_reduce(x.sum()))
    strategy_for((2, 2, 2, 1)).run(step, args=(uneven(rows(7), (2, 2, 2, 1)),))
    assert shapes == [(2,), (1,)]


# All-gather of unequal parts.


def test_all_gather_joins_unequal_parts():
    strategy = strategy_for((3, 1))
    step = mirrax.function(lambda x: context().all_gather(x, axis=0) * 2)
    batch = rows(4, 2)
    result = strategy.run(step, args=(uneven(batch, (3, 1)),))
    np.testing.assert_array_equal(parts(strategy, result)[0], 2 * batch)
    np.testing.assert_array_equal(parts(strategy, result)[1], 2 * batch)


@sizes_of_parts
def test_state_stays_replicated_over_an_uneven_step_with_all_gather(sizes):
    strategy, x = strategy_for(sizes), rows(sum(sizes), 3)

    @mirrax.function
    def step(state, part):
        everything = context().all_gather(part, axis=0)
        return state + everything.sum(0), everything.reshape(sum(sizes), 3)

    state, everything = strategy.run(step, args=(jnp.zeros(3), uneven(x, sizes)))
    assert isinstance(state, jax.Array)
    assert state.sharding == strategy.topology.replicated
    np.testing.assert_array_equal(everything, x)
    np.testing.assert_allclose(state, x.sum(0), rtol=1e-5)


def test_all_gather_of_unequal_parts_runs_as_a_program():
    strategy, python_runs = strategy_for((3, 1)), []

    given = uneven(rows(4, 3), (3, 1))

    @mirrax.function
    def step(part):
        python_runs.append(None)
        first = context().all_gather({"rows": part, "ones": jnp.ones((1, 2))}, axis=0)
        again = context().all_gather(first["rows"][: 2 * len(part)], axis=0)
        return again, first["ones"]

    for _ in range(3):
        again, ones = strategy.run(step, args=(given,))
    assert again.shape == (4 + 2, 3)
    assert ones.shape == (2, 2)
    # For each shape: up to the first gather, up to the second, and to the end.
    assert len(python_runs) == 2 * 3


def test_gradients_go_through_all_gather_of_unequal_parts():
    strategy, x = strategy_for((3, 1)), rows(4, 2)

    def loss(part):
        everything = context().all_gather(part, axis=0)
        weights = jnp.arange(1.0, 5.0)[:, None]
        return jnp.sum(weights * everything**2)

    given = uneven(x, (3, 1))
    compiled = strategy.run(mirrax.function(jax.grad(loss)), args=(given,))
    eager = strategy.run(jax.grad(loss), args=(given,))
    expected = 2 * 2 * np.arange(1.0, 5.0)[:, None] * x
    np.testing.assert_allclose(np.concatenate(compiled.values), expected, rtol=1e-5)
    np.testing.assert_allclose(np.concatenate(eager.values), expected, rtol=1e-5)


def test_all_gather_that_some_replicas_leave_out_is_refused():
    @mirrax.function
    def step(part):
        return context().all_gather(part, axis=0) if len(part) > 1 else part

    message = r"replica\(s\) \[0\] wait in all_gather .* replica\(s\) \[1\] ended"
    with pytest.raises(mirrax.errors.ReplicaError, match=message):
        strategy_for((3, 1)).run(step, args=(uneven(rows(4, 3), (3, 1)),))


def test_all_gather_of_different_numbers_of_values_is_refused():
    @mirrax.function
    def step(part):
        return context().all_gather([part] * len(part), axis=0)

    with pytest.raises(mirrax.errors.ReplicaError, match="same collective calls"):
        strategy_for((2, 1)).run(step, args=(uneven(rows(3), (2, 1)),))


def test_constants_come_back_as_arrays():
    step = mirrax.function(lambda part: np.arange(len(part)))
    result = strategy_for((3, 1)).run(step, args=(uneven(rows(4, 3), (3, 1)),))
    assert [type(part) for part in result.values] == [type(jnp.ones(1))] * 2
    assert [part.tolist() for part in result.values] == [[0, 1, 2], [0]]


def plainly(index):
    return index()


def in_a_loop(index):
    return jax.lax.scan(lambda c, _: (c + index(), None), 0, None, length=3)[0]


def in_a_branch(index):
    return jax.lax.cond(index() > 0, lambda: 5 * index(), lambda: -1)


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (plainly, [0, 1]),
        (lambda index: jax.jit(index)(), [0, 1]),
        (in_a_loop, [0, 3]),
        (in_a_branch, [-1, 5]),
    ],
    ids=["plain", "jit", "scan", "cond"],
)
def test_the_index_along_the_axis_of_replicas_is_known(wrap, expected):
    @mirrax.function
    def step(x):
        own = wrap(lambda: jax.lax.axis_index("replica"))
        return own, all_reduce(own + x.sum())

    strategy = strategy_for((2, 1))
    own, total = strategy.run(step, args=(uneven(np.ones(3, np.float32), (2, 1)),))
    assert [int(part) for part in own.values] == expected
    assert float(parts(strategy, total)[0]) == 3 + sum(expected)


def test_a_run_in_a_merge_function_knows_its_replica():
    @mirrax.function
    def step(x):
        def merge(strategy, x):
            own = strategy.run(lambda y: y * context().replica_id_in_sync_group, (x,))
            return strategy.reduce("SUM", own, axis=None)

        return context().merge_call(merge, args=(x.sum(),))

    strategy = strategy_for((2, 1))
    total = strategy.run(step, args=(uneven(np.ones(3, np.float32), (2, 1)),))
    assert float(parts(strategy, total)[0]) == 1


# Combined by merge functions.


def merged_by(merge):
    return lambda x: context().merge_call(merge, args=(x,))


def own_gathers(strategy, x):
    own = strategy.run(lambda y: context().all_gather(y, axis=0).sum(0), (x,))
    return strategy.reduce("MEAN", own, axis=None)


@sizes_of_parts
@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        (lambda s, x: s.reduce("MEAN", x, axis=0), lambda x: x.mean(0)),
        (lambda s, x: s.reduce("MEAN", x, axis=(0, 1)), lambda x: x.mean()),
        (lambda s, x: s.reduce("SUM", x, axis=0), lambda x: x.sum(0)),
        (lambda s, x: s.gather(x, axis=0), lambda x: x),
        (own_gathers, lambda x: x.sum(0)),
    ],
    ids=["mean", "mean_of_all", "sum", "gather", "all_gather_in_run"],
)
def test_merge_functions_combine_all_rows(sizes, merge, expected):
    strategy, batch, runs = strategy_for(sizes), rows(sum(sizes), 3), []

    @mirrax.function
    def step(x):
        runs.append(None)
        return merged_by(merge)(x)

    given = uneven(batch, sizes)
    strategy.run(step, args=(given,))
    count = len(runs)
    found = parts(strategy, strategy.run(step, args=(given,)))
    assert len(runs) == count
    for part in found:
        np.testing.assert_allclose(part, expected(batch), rtol=1e-5)


def test_a_gather_of_shapes_that_differ_elsewhere_is_refused():
    step = mirrax.function(merged_by(lambda s, x: s.gather(x, axis=1)))
    with pytest.raises(mirrax.errors.InvalidArgumentError, match="Shape mismatch"):
        strategy_for((2, 1)).run(step, args=(uneven(rows(3, 2), (2, 1)),))


@dataclasses.dataclass(frozen=True)
class Constant:
    """A callback that is told from others by its value, not by its hash."""

    value: float = dataclasses.field(hash=False, repr=False)

    def __call__(self):
        return np.float32(self.value)


@pytest.mark.parametrize("block", [plainly, in_a_loop], ids=["plain", "scan"])
def test_callbacks_with_the_same_hash_are_told_apart(block):
    @mirrax.function
    def step(x):
        call_back = lambda: jax.pure_callback(Constant(len(x)), SCALAR)  # noqa: E731
        return block(lambda: call_back().astype(int))

    strategy = strategy_for((2, 1))
    result = strategy.run(step, args=(uneven(rows(3), (2, 1)),))
    first, second = parts(strategy, result)
    assert first == 2 * second


def test_an_all_reduce_of_unequal_shapes_is_refused():
    strategy = strategy_for((3, 1))
    step = mirrax.function(all_reduce)
    with pytest.raises(mirrax.errors.InvalidArgumentError, match="same shape"):
        strategy.run(step, args=(uneven(rows(4), (3, 1)),))


# What differs between the replicas, and what does not.


def test_the_numbers_of_the_replicas_come_back():
    strategy = strategy_for((1, 2))
    step = mirrax.function(lambda x: context().replica_id_in_sync_group)
    result = strategy.run(step, args=(uneven(rows(3), (1, 2)),))
    assert isinstance(result, mirrax.PerReplica)
    assert parts(strategy, result) == [0, 1]


def in_scan_by_callback(x):
    def body(total, _):
        return total + of_callback(x), None

    return jax.lax.scan(body, 0.0, None, length=1)[0]


def of_callback(x):
    rows = np.float32(x.shape[0])
    return jax.pure_callback(lambda: rows, SCALAR)


@pytest.mark.parametrize(
    "count",
    [
        lambda x: x.shape[0],
        lambda x: jnp.float32(x.shape[0]),
        lambda x: jnp.ones_like(x).sum(),
        of_callback,
        in_scan_by_callback,
    ],
    ids=["int", "constant", "computed", "callback", "callback_in_scan"],
)
def test_the_sizes_of_the_parts_come_back(count):
    strategy = strategy_for((1, 2))
    result = strategy.run(mirrax.function(count), args=(uneven(rows(3), (1, 2)),))
    assert isinstance(result, mirrax.PerReplica)
    assert parts(strategy, result) == [1, 2]


@pytest.mark.parametrize(
    "count",
    [lambda x: x.shape[0], lambda x: jnp.float32(x.shape[0])],
    ids=["int", "constant"],
)
def test_the_sizes_of_the_parts_add_up(count):
    strategy = strategy_for((5, 5, 1, 0))
    step = mirrax.function(lambda x: all_reduce(count(x)))
    result = strategy.run(step, args=(uneven(rows(11), (5, 5, 1, 0)),))
    assert parts(strategy, result)[0] == 11


def test_arrays_chosen_by_the_size_of_a_part_add_up():
    strategy = strategy_for((1, 2))
    weights = [jnp.float32(0), jnp.float32(10), jnp.float32(20)]
    step = mirrax.function(lambda x: all_reduce(weights[x.shape[0]]))
    assert strategy.run(step, args=(uneven(rows(3), (1, 2)),)) == 30


def test_a_write_that_differs_is_refused_by_name():
    strategy = strategy_for((1, 2))
    with strategy.scope():
        variable = mirrax.Variable(0.0, name="mine")
    step = mirrax.function(lambda x: [variable.assign(x.sum())])
    # Before the program runs, as for equal parts.
    with pytest.raises(ValueError, match=r"'mine:0' must be .* same value by every"):
        strategy.run(step, args=(uneven(rows(3), (1, 2)),))
    assert variable.numpy() == 0


@pytest.mark.parametrize(
    "value",
    [
        lambda x: jnp.float32(context().replica_id_in_sync_group),
        lambda x: jnp.float32(x.shape[0]),
        lambda x: jax.pure_callback(lambda: np.float32(x.shape[0]), SCALAR),
    ],
    ids=["number", "size", "callback"],
)
def test_a_write_of_a_constant_that_differs_is_refused_by_name(value):
    strategy = strategy_for((1, 2))
    with strategy.scope():
        variable = mirrax.Variable(0.0, name="mine")
    step = mirrax.function(lambda x: [variable.assign(value(x))])
    with pytest.raises(ValueError, match=r"'mine:0'.*the same value"):
        strategy.run(step, args=(uneven(rows(3), (1, 2)),))


def test_an_argument_that_all_replicas_share_does_not_differ():
    strategy = strategy_for((1, 2))
    with strategy.scope():
        variable = mirrax.Variable(0.0)

    @mirrax.function
    def step(x, rate):
        variable.assign_add(rate * all_reduce(x.sum()))

    batch = uneven(np.ones(3, np.float32), (1, 2))
    strategy.run(step, args=(batch, jnp.float32(0.5)))
    assert variable.numpy() == 1.5


def test_state_stays_replicated_over_an_uneven_step():
    strategy = strategy_for((1, 2))
    traces = []

    @mirrax.function
    def step(state, x):
        traces.append(None)
        return state + all_reduce(x.sum())

    even = uneven(np.ones(4, np.float32), (2, 2))
    state = strategy.run(step, args=(jnp.float32(0), even))
    state = strategy.run(step, args=(state, uneven(np.ones(3, np.float32), (1, 2))))
    assert isinstance(state, jax.Array)
    assert state.sharding.is_fully_replicated
    runs = len(traces)
    state = strategy.run(step, args=(state, even))
    assert float(state) == 11
    assert len(traces) == runs


def test_state_keeps_its_weak_type_over_an_uneven_step():
    strategy, traces = strategy_for((1, 2)), []

    @mirrax.function
    def step(state, x):
        traces.append(None)

        def body(carry, column):
            return carry * 2, all_reduce(column.sum())

        halved = mirrax.scan(body, state["scale"] / 4, x.T)[0]
        return {"scale": halved, "steps": state["steps"] + 1}, all_reduce(x.sum())

    state = {"scale": jnp.asarray(2.0), "steps": 0}
    for sizes in ((2, 2), (1, 2), (2, 2), (1, 2)):
        state, total = strategy.run(
            step, args=(state, uneven(rows(sum(sizes), 2), sizes))
        )
        assert state["scale"].weak_type
        assert state["steps"].weak_type
        assert not total.weak_type
        runs = len(traces)
    state = strategy.run(step, args=(state, uneven(rows(4, 2), (2, 2))))[0]
    assert len(traces) == runs
    assert (float(state["scale"]), int(state["steps"])) == (2, 5)


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("SUM", 3.0), ("MEAN", 1.5), ("ONLY_FIRST_REPLICA", 1.0)],
    ids=["sum", "mean", "first"],
)
def test_writes_are_aggregated(aggregation, expected):
    strategy = strategy_for((1, 2))
    with strategy.scope():
        variable = mirrax.Variable(
            0.0, aggregation=mirrax.VariableAggregation[aggregation]
        )
    step = mirrax.function(lambda x: [variable.assign(x.sum())])
    strategy.run(step, args=(uneven(np.ones(3, np.float32), (1, 2)),))
    assert variable.numpy() == expected


def test_each_replica_has_its_own_random_numbers():
    strategy = strategy_for((1, 2))

    @mirrax.function
    def step(x):
        key = mirrax.random.replica_key(jax.random.key(0))
        return jax.random.key_data(key)[-1] + 0 * len(x)

    uneven_parts = parts(strategy, strategy.run(step, (uneven(rows(3), (1, 2)),)))
    even_parts = parts(strategy, strategy.run(step, (uneven(rows(4), (2, 2)),)))
    assert uneven_parts == even_parts
    assert uneven_parts[0] != uneven_parts[1]


def test_random_keys_can_be_uneven():
    strategy = strategy_for((2, 1))
    keys = mirrax.PerReplica(
        [jax.random.split(jax.random.key(i), 2 - i) for i in (0, 1)]
    )
    runs = []

    @mirrax.function
    def step(own):
        runs.append(None)
        everything = context().all_gather(own, axis=0)
        total = jax.vmap(jax.random.normal)(everything).sum()
        return jax.random.normal(own[-1]), jax.random.split(own[0], len(own)), total

    strategy.run(step, args=(keys,))
    normal, again, total = strategy.run(step, args=(keys,))
    assert len(runs) == 2 * 2
    expected = sum(jax.vmap(jax.random.normal)(own).sum() for own in keys.values)
    assert float(total) == pytest.approx(float(expected), rel=1e-5)
    assert normal.values == tuple(jax.random.normal(own[-1]) for own in keys.values)
    assert [part.shape for part in again.values] == [(2,), (1,)]


# Around it.


def test_keyword_arguments_and_structures_can_be_uneven():
    strategy = strategy_for((1, 2))
    step = mirrax.function(lambda tree, *, x: all_reduce(tree["y"][0].sum() + x.sum()))
    ones = uneven(np.ones(3, np.float32), (1, 2))
    result = strategy.run(step, args=({"y": [ones]},), kwargs={"x": ones})
    assert float(result) == 6


def test_merge_call_works():
    strategy = strategy_for((1, 2))

    def merge(strategy, x):
        return strategy.reduce("SUM", x, axis=None)

    step = mirrax.function(lambda x: context().merge_call(merge, args=(x.sum(),)))
    result = strategy.run(step, args=(uneven(np.ones(3, np.float32), (1, 2)),))
    assert parts(strategy, result)[0] == 3


def test_a_function_around_run_and_reduce_takes_unequal_parts():
    strategy = strategy_for((5, 5, 1, 0))
    runs = []

    @mirrax.function
    def step(x):
        def replica(y):
            runs.append(None)
            return y**2

        return strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=0)

    batch = rows(11)
    first = step(uneven(batch, (5, 5, 1, 0)))
    count = len(runs)
    second = step(uneven(2 * batch, (5, 5, 1, 0)))
    np.testing.assert_allclose(first, np.sum(batch**2), rtol=1e-5)
    np.testing.assert_allclose(second, 4 * np.sum(batch**2), rtol=1e-5)
    assert len(runs) == count


def test_numpy_parts_are_accepted():
    strategy = strategy_for((1, 2))
    batch = mirrax.PerReplica([np.ones(1, np.float32), np.ones(2, np.float32)])
    step = mirrax.function(lambda x: all_reduce(x.sum()))
    assert float(strategy.run(step, args=(batch,))) == 3


def test_a_tape_works():
    strategy = strategy_for((1, 2))
    with strategy.scope():
        weight = mirrax.Variable(3.0)

    @mirrax.function
    def step(x):
        with mirrax.GradientTape() as tape:
            loss = jnp.sum(x * weight**2)
        return all_reduce(tape.gradient(loss, weight))

    result = strategy.run(step, args=(uneven(np.ones(3, np.float32), (1, 2)),))
    assert float(result) == 18


def test_an_error_leaves_variables_as_they_were():
    model = Model(strategy_for((1, 2)))

    @mirrax.function
    def fail(x):
        model.step(x, 3.0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        model.strategy.run(fail, args=(uneven(rows(3, 3), (1, 2)),))
    np.testing.assert_array_equal(model.weights.numpy(), np.ones((3, 2)))
    assert model.seen.numpy() == 0


def test_a_value_that_somebody_holds_stays():
    model = Model(strategy_for((1, 2)))
    held = model.weights.value
    model.strategy.run(
        mirrax.function(model.step), args=(uneven(rows(3, 3), (1, 2)), 3.0)
    )
    np.testing.assert_array_equal(held, np.ones((3, 2)))


def test_calls_may_return_parameters_that_they_only_read():
    strategy = strategy_for((2, 1))
    with strategy.scope():
        weights = mirrax.Variable(np.ones(3, np.float32))

    @jax.checkpoint
    def layer(w, x):
        return w, x @ w

    @mirrax.function
    def step(x):
        same, scores = layer(weights[...], x)
        weights.assign(same)
        return all_reduce(scores.sum())

    x = rows(3, 3)
    result = strategy.run(step, (uneven(x, (2, 1)),))
    np.testing.assert_allclose(result, x.sum(), rtol=1e-6)


def test_parts_for_another_number_of_replicas_are_refused():
    value = uneven(rows(6, 3), (3, 2, 1))
    with pytest.raises(ValueError, match="a part for each replica"):
        strategy_for((3, 3)).run(mirrax.function(jnp.sum), args=(value,))


def test_values_of_64_bits_stay_what_they_are():
    strategy = strategy_for((3, 2))

    def step(x):
        with jax.enable_x64(True):
            wide = jnp.arange(3.0) * 1e-12 + x.shape[0]
            return wide * all_reduce(jnp.sum(wide)), jnp.asarray(x, "float64") / 3

    given = uneven(np.ones((5, 2), np.float32), (3, 2))
    expected = strategy.run(step, args=(given,))
    found = strategy.run(mirrax.function(step), args=(given,))
    for one, other in zip(found, expected, strict=True):
        for part, wanted in zip(one.values, other.values, strict=True):
            assert part.dtype == np.float64
            np.testing.assert_array_equal(part, wanted)
