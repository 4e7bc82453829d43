"""`cond`, `switch`, `while_loop` and `scan` with variables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax


def test_branch_assigns_a_variable():
    v = mirrax.Variable(1.0)

    @mirrax.function
    def fn(x):
        v.assign_add(1.0)
        mirrax.cond(x > 0, lambda: v.assign(v * 10), lambda: v.assign_sub(5.0))
        return v.value

    assert [float(fn(1.0)), float(v), float(fn(-1.0)), float(v)] == [20, 20, 16, 16]
    assert fn.trace_count == 1


def test_branches_assign_different_variables():
    v, w = mirrax.Variable(1.0), mirrax.Variable(2.0)

    @mirrax.function
    def fn(x):
        def first(y):
            v.assign(y)
            return y

        def second(y):
            w.assign(v + y)
            return y + 1

        return mirrax.cond(x > 0, first, second, x)

    assert float(fn(5.0)) == 5.0
    assert (float(v), float(w)) == (5.0, 2.0)
    assert float(fn(-1.0)) == 0.0
    assert (float(v), float(w)) == (5.0, 4.0)


def test_switch_assigns_a_variable():
    v = mirrax.Variable(0)

    @mirrax.function
    def fn(i):
        return mirrax.switch(i, [lambda: 0, lambda: v.assign_add(1).value])

    assert [int(fn(i)) for i in (0, 1, 1)] == [0, 1, 2]


def test_branch_is_traced_once():
    calls = []

    @mirrax.function
    def fn(x):
        def branch(x):
            calls.append(x)
            return mirrax.cond(x > 1, lambda: x, lambda: -x)

        return mirrax.cond(x > 0, branch, branch, x)

    fn(1.0)
    assert len(calls) == 2


def test_loop_ends_on_a_variable():
    v = mirrax.Variable(1)

    @mirrax.function
    def fn(limit):
        def body(steps):
            v.assign(2 * v)
            return steps + 1

        return mirrax.while_loop(lambda _: v < limit, body, 0)

    assert int(fn(100)) == 7
    assert int(v) == 128


def test_condition_of_a_loop_that_assigns_is_refused():
    v = mirrax.Variable(1)

    @mirrax.function
    def fn(n):
        return mirrax.while_loop(lambda i: v.assign_add(1) < i, lambda i: i, n)

    with pytest.raises(RuntimeError, match="assigned by the condition"):
        fn(3)


def test_loops_in_loops_carry_variables():
    v = mirrax.Variable(0)

    @mirrax.function
    def fn(n):
        def outer(i, _):
            def inner(j):
                v.assign_add(i * j)
                return j + 1

            mirrax.while_loop(lambda j: j < n, inner, 0)
            return i + 1, v.value

        return mirrax.scan(outer, 0, length=3)[1]

    assert fn(3).tolist() == [0, 3, 9]
    assert int(v) == 9


def test_replicas_assign_in_a_loop(strategy):
    with strategy.scope():
        total = mirrax.Variable(0.0, aggregation=mirrax.VariableAggregation.SUM)
        own = mirrax.Variable(
            0.0,
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
        )

    @mirrax.function
    def step(rows):
        def body(carry, row):
            total.assign_add(row)
            mirrax.cond(row > 1, lambda: own.assign_add(row), lambda: own.value)
            return carry, None

        mirrax.scan(body, 0, rows)

    strategy.run(step, (np.arange(3, dtype=np.float32),))
    count = strategy.num_replicas_in_sync
    assert float(total) == 3 * count
    assert float(own.read_value()) == 2 * count


def test_tape_reaches_into_branches_and_scans():
    w = mirrax.Variable(3.0)

    @mirrax.function
    def slope(x):
        with mirrax.GradientTape() as tape:
            y = mirrax.cond(x > 0, lambda: w * w * x, lambda: w * x)
            y = mirrax.scan(lambda y, _: (y * w, None), y, length=2)[0]
        return tape.gradient(y, w)

    assert [float(slope(2.0)), float(slope(-2.0))] == [216.0, -54.0]


def test_tape_inside_a_body():
    w = mirrax.Variable(3.0)

    @mirrax.function
    def fn():
        def body(carry, x):
            with mirrax.GradientTape() as tape:
                y = w * w * x
            w.assign_sub(0.1 * tape.gradient(y, w))
            return carry, None

        mirrax.scan(body, 0, jnp.arange(3.0))

    fn()
    np.testing.assert_allclose(float(w), 3.0 * 0.8 * 0.6, rtol=1e-6)


def test_derivative_in_eager_code_keeps_writes():
    w, seen = mirrax.Variable(3.0), mirrax.Variable(0.0)

    def loss(x):
        return mirrax.cond(x > 0, lambda: seen.assign(w).value * w, lambda: w.value)

    value, gradient = mirrax.value_and_grad(loss, w)(2.0)
    assert (float(value), float(gradient), float(seen)) == (9.0, 6.0, 3.0)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_loops_of_eager_code_assign_variables(num_replicas):
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(num_replicas)])
    with strategy.scope():
        v = mirrax.Variable(1.0)

    def body(carry, _):
        v.assign(v + carry)
        return carry + 1, v.value

    def loop():
        _, seen = mirrax.scan(body, 0.0, jnp.zeros(3))
        mirrax.while_loop(lambda _: v < 100, lambda c: body(2 * c, 0)[0], 5.0)
        return seen

    assert loop().tolist() == [1, 2, 4]
    assert float(v) == 176.0
    strategy.run(loop)
    assert float(v) == 179.0


def test_loops_of_eager_code_without_variables_are_those_of_xla():
    steps = []

    def body(carry, x=1):
        steps.append(carry)
        return carry + x, x

    assert int(mirrax.while_loop(lambda i: i < 99, lambda i: body(i)[0], 0)) == 99
    assert int(mirrax.scan(body, 0, jnp.arange(100))[0]) == 4950
    assert len(steps) < 9


def test_without_a_trace_they_are_those_of_jax():
    assert float(mirrax.cond(True, lambda: 1.0, lambda: 2.0)) == 1.0
    assert int(mirrax.while_loop(lambda i: i < 3, lambda i: i + 1, 0)) == 3
    assert int(mirrax.scan(lambda c, x: (c + x, None), 0, jnp.arange(4))[0]) == 6
    assert mirrax.eval_shape(jnp.sum, jnp.ones(3)).shape == ()


def test_shapes_are_found_without_assigning():
    v = mirrax.Variable(1.0)

    @mirrax.function
    def fn():
        shape = mirrax.eval_shape(lambda: v.assign(5.0).value).shape
        assert shape == ()
        return v.value

    assert float(fn()) == 1.0


def test_write_inside_jax_control_flow_names_ours():
    v = mirrax.Variable(1.0)

    @mirrax.function
    def fn(x):
        return jax.lax.cond(x > 0, lambda: v.assign(5.0).value, lambda: x)

    with pytest.raises(RuntimeError, match=r"mirrax\.cond"):
        fn(1.0)


@pytest.mark.parametrize("kind", ["cond", "switch", "while_loop", "scan"])
@pytest.mark.parametrize("aggregation", ["NONE", "MEAN", "ONLY_FIRST_REPLICA"])
def test_assignments_work_on_a_partial_batch(two_replicas, kind, aggregation):
    with two_replicas.scope():
        total = mirrax.Variable(
            0.0, aggregation=mirrax.VariableAggregation[aggregation]
        )

    @mirrax.function
    def step(x):
        rows = mirrax.get_replica_context().all_reduce("SUM", jnp.sum(x))

        def add(value=0):
            total.assign_add(rows)
            return value + 1

        if kind == "cond":
            mirrax.cond(rows > 0, add, lambda: 0)
        elif kind == "switch":
            mirrax.switch(1, [lambda: 0, add])
        elif kind == "while_loop":
            mirrax.while_loop(lambda i: i < 1, add, 0)
        else:
            mirrax.scan(lambda carry, _: (add(carry), None), 0, jnp.arange(1))

    dataset = mirrax.data.Dataset.from_tensor_slices(jnp.ones(7)).batch(4)
    for batch in two_replicas.experimental_distribute_dataset(dataset):
        two_replicas.run(step, (batch,))
    assert float(total) == 7.0


def test_eager_loop_whose_body_needs_values_runs_as_python():
    total = mirrax.Variable(0.0)

    def body(i):
        total.assign_add(float(i))
        return i + 1

    assert mirrax.while_loop(lambda i: i < 3, body, 0) == 3
    assert float(total.numpy()) == 3.0
