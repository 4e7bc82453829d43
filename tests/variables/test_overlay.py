"""Variables while a program is traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import VariableAggregation
from tests.programs import create, parts

ON_READ_SUM = {
    "synchronization": mirrax.VariableSynchronization.ON_READ,
    "aggregation": VariableAggregation.SUM,
}


def test_reads_and_writes_keep_their_order(strategy):
    v = create(strategy, 1.0)

    @mirrax.function
    def step():
        before = v.value + 0
        v.assign(before * 10)
        middle = v.value + 0
        v.assign_add(1.0)
        return before, middle, v.value + 0

    assert [float(x) for x in step()] == [1.0, 10.0, 11.0]
    assert v.numpy() == 11.0


def test_function_sees_the_value_of_now_on_each_call(strategy):
    v = create(strategy, 1.0)
    double = mirrax.function(lambda: 2 * v)
    assert double() == 2.0
    v.assign(5.0)
    assert double() == 10.0
    assert double.trace_count == 1


def test_failed_trace_writes_nothing(strategy):
    v = create(strategy, 1.0)

    @mirrax.function
    def step():
        v.assign(5.0)
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        step()
    assert v.numpy() == 1.0


def test_swap_of_two_variables_is_exact(strategy):
    v, w = create(strategy, [1.0, 2.0]), create(strategy, [3.0, 4.0])

    @mirrax.function
    def swap():
        old = v.value
        v.assign(w.value)
        w.assign(old)

    swap()
    assert v.numpy().tolist() == [3.0, 4.0]
    assert w.numpy().tolist() == [1.0, 2.0]


def test_variable_that_is_assigned_to_another_stays_apart(strategy):
    v, w = create(strategy, [1.0, 2.0]), create(strategy, [0.0, 0.0])
    mirrax.function(lambda: w.assign(v.value))()
    mirrax.function(lambda: v.assign_add([1.0, 1.0]))()
    assert w.numpy().tolist() == [1.0, 2.0]
    assert v.numpy().tolist() == [2.0, 3.0]


def test_returned_value_stays_valid_after_the_next_step(strategy):
    v = create(strategy, [1.0, 2.0])
    step = mirrax.function(lambda: [v.assign_add([1.0, 1.0])] and v.value)
    first = step()
    step()
    assert first.tolist() == [2.0, 3.0]


def test_values_returned_by_a_reading_function_stay_valid(strategy):
    v = create(strategy, [1.0, 2.0])
    read = mirrax.function(lambda: v.value)
    add = mirrax.function(lambda: v.assign_add([1.0, 1.0]))
    values = []
    for _ in range(3):
        values.append(read())
        add()
    assert [x.tolist() for x in values] == [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]


def test_argument_that_is_assigned_stays_valid_after_the_next_step(strategy):
    mine = jnp.array([1.0, 2.0])
    v = create(strategy, [0.0, 0.0])
    mirrax.function(v.assign)(mine)
    mirrax.function(lambda: v.assign_add([1.0, 1.0]))()
    assert mine.tolist() == [1.0, 2.0]


def test_two_variables_assigned_one_value_stay_apart(strategy):
    v, w = create(strategy, [0.0, 0.0]), create(strategy, [0.0, 0.0])
    mirrax.function(lambda x: (v.assign(x), w.assign(x)))(jnp.array([1.0, 2.0]))
    mirrax.function(lambda: (v.assign_add([1.0, 1.0]), w.assign_sub([1.0, 1.0])))()
    assert v.numpy().tolist() == [2.0, 3.0]
    assert w.numpy().tolist() == [0.0, 1.0]


def test_donated_value_leaves_the_variable_as_it_was(strategy):
    v = create(strategy, [1.0, 2.0])
    mirrax.function(lambda x: x + 1, donate_argnums=0)(v.value)
    assert v.numpy().tolist() == [1.0, 2.0]


INSIDE = {
    "jit": lambda read: jax.jit(lambda x: x + read())(1.0),
    "scan": lambda read: jax.lax.scan(
        lambda carry, _: (carry + read(), None), jnp.float32(1), None, length=1
    )[0],
    "cond": lambda read: jax.lax.cond(
        jnp.bool_(True), lambda x: x + read(), lambda x: x, jnp.float32(1)
    ),
    "grad": lambda read: jax.grad(lambda x: x**2 / 2 + x * read())(1.0),
    "vmap": lambda read: jax.vmap(lambda x: x + read())(jnp.ones(1))[0],
}


@pytest.mark.parametrize("transform", INSIDE)
def test_first_read_may_be_inside_a_transformation(strategy, transform):
    v = create(strategy, 4.0)
    step = mirrax.function(lambda: INSIDE[transform](lambda: v.value))
    assert step() == 5.0
    v.assign(6.0)
    assert step() == 7.0


@pytest.mark.parametrize("transform", INSIDE)
def test_write_inside_a_transformation_is_refused(strategy, transform):
    v = create(strategy, 4.0)

    def write_and_read():
        v.assign(5.0)
        return v.value

    message = (
        r"'Variable:0' was assigned inside a JAX transformation .*Return the new value|"
        r"cannot leave"
    )
    with pytest.raises(RuntimeError, match=message):
        mirrax.function(lambda: INSIDE[transform](write_and_read))()
    assert v.numpy() == 4.0


def test_write_inside_a_transformation_is_refused_in_compiled_run(two_replicas):
    v = create(two_replicas, 4.0, aggregation=VariableAggregation.SUM)

    @mirrax.function
    def step():
        jax.jit(lambda x: [v.assign(x)] and x)(1.0)

    with pytest.raises(RuntimeError, match="was assigned inside a JAX transformation"):
        two_replicas.run(step)
    assert parts(two_replicas, v) == [4.0, 4.0]


def test_variables_that_are_not_used_are_no_inputs(two_replicas):
    used, unused = create(two_replicas, [1.0, 2.0]), create(two_replicas, [3.0, 4.0])
    stored = unused.stored
    two_replicas.run(mirrax.function(lambda: used.assign_add(jnp.ones(2))))
    assert unused.stored is stored


def test_functions_share_the_variables_of_the_program(strategy):
    v = create(strategy, 1.0)
    inner = mirrax.function(lambda: v.assign_add(1.0))

    @mirrax.function
    def outer():
        inner()
        inner()
        return v.value * 10

    assert outer() == 30.0
    assert v.numpy() == 3.0


@pytest.mark.parametrize(
    "kind",
    [ON_READ_SUM, {}, {"sharded": True}],
    ids=["on read", "mirrored", "sharded"],
)
@pytest.mark.parametrize("value", [4.0, [4.0, 2.0]], ids=["scalar", "vector"])
def test_a_write_at_compile_time_changes_the_stored_value(strategy, kind, value):
    with strategy.scope():
        v = mirrax.Variable(np.zeros(np.shape(value), np.float32), **kind)

    @mirrax.function
    def write():
        with jax.ensure_compile_time_eval():
            v.assign(value)
            v.assign(v.read_value() + 1.0)

    for _ in range(2):
        write()
    assert v.numpy().tolist() == (np.asarray(value) + 1.0).tolist()


def test_a_read_at_compile_time_gives_the_stored_value(strategy):
    with strategy.scope():
        first = mirrax.Variable(3.0)
    made = []

    @mirrax.function
    def step():
        if not made:
            with jax.ensure_compile_time_eval():
                made.append(mirrax.Variable(2 * first.read_value()))
                made.append(mirrax.Variable(made[0]))
        return made[1] + first

    for _ in range(2):
        assert float(strategy.experimental_local_results(strategy.run(step))[0]) == 9
