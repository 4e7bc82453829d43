"""Compiled `run`: one program for all replicas, with the meaning of eager code."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from tests.programs import engines
from tests.programs import part_arrays as parts


def context():
    return mirrax.get_replica_context()


def own_number():
    return jnp.float32(context().replica_id_in_sync_group + 1)


def distribute(strategy, make):
    return strategy.experimental_distribute_values_from_function(
        lambda value: make(value.replica_id_in_sync_group)
    )


def is_mirrored(value):
    return isinstance(value, jax.Array) and value.sharding.is_fully_replicated


# What comes back.


def test_what_differs_comes_back_per_replica(two_replicas):
    result = two_replicas.run(mirrax.function(own_number))
    assert isinstance(result, mirrax.PerReplica)
    assert parts(two_replicas, result) == [1, 2]


def test_what_was_reduced_comes_back_as_one_replicated_array(two_replicas):
    step = mirrax.function(lambda: context().all_reduce("SUM", own_number()))
    result = two_replicas.run(step)
    assert is_mirrored(result)
    assert parts(two_replicas, result) == [3, 3]


def test_each_leaf_is_looked_at_on_its_own(two_replicas):
    @mirrax.function
    def step(x):
        return {"own": x, "total": context().all_reduce("SUM", x), "none": None}

    result = two_replicas.run(step, (distribute(two_replicas, lambda i: i + 1.0),))
    assert parts(two_replicas, result["own"]) == [1, 2]
    assert is_mirrored(result["total"])
    assert result["none"] is None


def test_other_objects_come_back_as_they_are(two_replicas):
    given = object()
    assert two_replicas.run(mirrax.function(lambda: (given, "text"))) == (given, "text")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,)], ids=str)
def test_parts_of_any_shape_go_in_and_come_out(two_replicas, shape):
    value = distribute(two_replicas, lambda i: jnp.full(shape, i + 1.0))
    result = two_replicas.run(mirrax.function(lambda x: 2 * x), args=(value,))
    assert [part.shape for part in result.values] == [shape, shape]
    np.testing.assert_array_equal(result.values[1], np.full(shape, 4))


def test_a_branch_that_differs_comes_back_per_replica(two_replicas):
    @mirrax.function
    def step():
        return jax.lax.cond(own_number() > 1, lambda: 10.0, lambda: 20.0)

    assert parts(two_replicas, two_replicas.run(step)) == [20, 10]


def test_a_loop_that_ends_differently_comes_back_per_replica(four_replicas):
    @mirrax.function
    def step():
        number = own_number()
        return jax.lax.while_loop(lambda x: x < number, lambda x: x + 1, 0.0)

    assert parts(four_replicas, four_replicas.run(step)) == [1, 2, 3, 4]


def test_a_sum_in_a_scan_comes_back_replicated(two_replicas):
    @mirrax.function
    def step(x):
        def body(total, row):
            return total + context().all_reduce("SUM", row), row * 2

        return jax.lax.scan(body, 0.0, x)

    value = distribute(two_replicas, lambda i: jnp.arange(3.0) + i)
    total, rows = two_replicas.run(step, args=(value,))
    assert is_mirrored(total)
    assert float(total) == 9
    np.testing.assert_array_equal(rows.values, [[0, 2, 4], [2, 4, 6]])


# Arguments.


def test_arguments_and_keyword_arguments_can_be_nested(two_replicas):
    @mirrax.function
    def step(tree, *, scale, name):
        return {name: tree["x"][0] * scale + tree["y"]}

    value = distribute(two_replicas, lambda i: i + 1.0)
    result = two_replicas.run(
        step, args=({"x": [value], "y": 1},), kwargs={"scale": 10, "name": "z"}
    )
    assert parts(two_replicas, result["z"]) == [11, 21]


def test_a_plain_array_is_whole_on_every_replica(two_replicas):
    step = mirrax.function(lambda x: x.sum() * own_number())
    assert parts(two_replicas, two_replicas.run(step, (jnp.ones(4),))) == [4, 8]


def test_different_objects_for_each_replica_are_refused(two_replicas):
    value = mirrax.PerReplica(("left", "right"))
    with pytest.raises(TypeError, match=r"no other objects.*'left', 'right'"):
        two_replicas.run(mirrax.function(lambda x: x), args=(value,))


def test_equal_objects_for_each_replica_are_accepted(two_replicas):
    value = mirrax.PerReplica(("same", "same"))
    assert two_replicas.run(mirrax.function(lambda x: x), args=(value,)) == "same"


def test_a_replica_can_close_over_values_of_the_outer_trace(strategy):
    @mirrax.function
    def outer(x):
        doubled = 2 * x
        return strategy.run(lambda y: y + doubled, args=(1.0,))

    assert parts(strategy, outer(jnp.float32(5)))[0] == 11
    assert parts(strategy, outer(jnp.float32(7)))[0] == 15


def test_functions_can_close_over_values_of_replicas(two_replicas):
    value = two_replicas.run(mirrax.function(own_number))
    total = mirrax.function(lambda: two_replicas.reduce("SUM", value, axis=None))

    @mirrax.function
    def merged():
        return mirrax.get_replica_context().merge_call(
            lambda strategy: strategy.reduce("SUM", value, axis=None)
        )

    assert mirrax.function(lambda: value.values[1] + 1)() == 3
    assert [int(part) for part in value.values] == [1, 2]
    assert mirrax.function(lambda: value)().values == value.values
    assert total() == two_replicas.run(merged) == 3


def test_a_replica_can_close_over_arrays(two_replicas):
    array = jnp.arange(2.0)
    result = two_replicas.run(mirrax.function(lambda: array + own_number()))
    np.testing.assert_array_equal(result.values, [[1, 2], [2, 3]])


def test_the_result_of_one_run_is_the_argument_of_the_next(two_replicas):
    @mirrax.function
    def outer():
        own = two_replicas.run(own_number)
        total = two_replicas.run(lambda x: context().all_reduce("SUM", x), args=(own,))
        return two_replicas.run(lambda x, y: x * y, args=(own, total))

    assert parts(two_replicas, outer()) == [3, 6]


def test_the_result_of_a_compiled_run_is_the_argument_of_an_eager_one(two_replicas):
    own = two_replicas.run(mirrax.function(own_number))
    result = two_replicas.run(lambda x: x * 2, args=(own,))
    assert parts(two_replicas, result) == [2, 4]


# Tracing.


def test_a_step_is_traced_once_for_batches_of_one_shape(strategy):
    traces = []
    step = mirrax.function(lambda x, n: traces.append(None) or x.sum() + n)
    batches = [distribute(strategy, lambda i, j=j: jnp.full(3, i + j)) for j in (0, 1)]
    results = [strategy.run(step, args=(batch, 10)) for batch in batches]
    assert [float(parts(strategy, result)[0]) for result in results] == [10, 13]
    assert len(traces) == 1


def test_a_step_is_traced_again_for_another_shape(strategy):
    traces = []
    step = mirrax.function(lambda x: traces.append(None) or x.sum())
    [
        strategy.run(step, (distribute(strategy, lambda i, n=n: jnp.ones(n)),))
        for n in (1, 2)
    ]
    assert len(traces) == 2


def test_a_step_is_traced_once_for_each_strategy(two_replicas, four_replicas):
    traces = []
    step = mirrax.function(lambda: traces.append(None) or own_number())
    results = [s.run(step) for s in (two_replicas, four_replicas, two_replicas)]
    assert [len(result.values) for result in results] == [2, 4, 2]
    assert len(traces) == 2


@pytest.mark.parametrize("donate_argnums", [(), 0], ids=["kept", "donated"])
def test_state_goes_through_many_steps_without_a_trace(strategy, donate_argnums):
    traces = []

    @mirrax.function(donate_argnums=donate_argnums)
    def step(state, x):
        traces.append(None)
        total = context().all_reduce("SUM", x)
        return {"sum": state["sum"] + total, "steps": state["steps"] + 1}

    batch = distribute(strategy, lambda i: jnp.full(2, i + 1.0))
    state = {"sum": jnp.zeros(2), "steps": jnp.int32(0)}
    states = [state]
    [states.append(strategy.run(step, args=(states[-1], batch))) for _ in range(10)]
    total = 10 * sum(i + 1 for i in range(strategy.num_replicas_in_sync))
    np.testing.assert_array_equal(states[-1]["sum"], [total, total])
    assert int(states[-1]["steps"]) == 10
    assert [is_mirrored(leaf) for leaf in states[-1].values()] == [True, True]
    assert len(states[-1]["sum"].devices()) == strategy.num_replicas_in_sync
    assert len(traces) == 1
    assert states[5]["sum"].is_deleted() == (donate_argnums == 0)


# Variables.


@pytest.mark.parametrize(
    "value",
    [
        own_number,
        lambda: jax.lax.cond(own_number() > 1, lambda: 1.0, lambda: 2.0),
        lambda: context().all_reduce("SUM", 1.0) * own_number(),
        lambda: context().all_gather(jnp.ones(1), 0)[0] + own_number(),
    ],
    ids=["number", "branch", "product", "gather"],
)
def test_a_write_that_differs_is_refused_by_name(two_replicas, value):
    with two_replicas.scope():
        variable = mirrax.Variable(1.0, name="mine")
    step = mirrax.function(lambda: [variable.assign(value())])
    message = r"Variable 'mine:0' must be assigned the same value by every replica"
    with pytest.raises(ValueError, match=message):
        two_replicas.run(step)
    assert variable.numpy() == 1


# Meetings.


def test_a_collective_under_a_condition_that_is_equal_is_accepted(two_replicas):
    @mirrax.function
    def step(x):
        return jax.lax.cond(
            x > 1, lambda: context().all_reduce("SUM", own_number()), lambda: 0.0
        )

    assert float(two_replicas.run(step, args=(jnp.float32(2),))) == 3
    assert float(two_replicas.run(step, args=(jnp.float32(0),))) == 0


@engines
def test_merge_function_may_put_a_value_together_from_parts(two_replicas, engine):
    def merge(strategy, x):
        first, second = strategy.experimental_local_results(x)
        return mirrax.PerReplica((10 * first, 20 * second))

    step = engine(lambda: context().merge_call(merge, args=(own_number(),)))
    assert parts(two_replicas, two_replicas.run(step)) == [10, 40]


def test_merge_function_that_puts_parts_together_has_a_derivative(two_replicas):
    def merge(strategy, x):
        first, second = strategy.experimental_local_results(x)
        return mirrax.PerReplica((10 * first, 20 * second))

    @mirrax.function
    def step():
        def merged(x):
            return context().merge_call(merge, args=(x,))

        return jax.grad(merged)(own_number())

    assert parts(two_replicas, two_replicas.run(step)) == [10, 20]
    assert step.trace_count == 1


def test_mirrored_values_shown_as_per_replica_go_in_and_out(two_replicas):
    @mirrax.function
    def total(x):
        reduced = two_replicas.run(lambda x: context().all_reduce("SUM", x), args=(x,))
        return two_replicas.per_replica(reduced)

    once = total(jnp.float32(1))
    twice = total(once)
    assert isinstance(twice, mirrax.PerReplica)
    assert parts(two_replicas, twice) == [4, 4]
    add = mirrax.function(lambda x: x + 1)
    assert float(two_replicas.run(add, args=(twice,))) == 5


def test_run_works_inside_a_merge_function(two_replicas):
    def merge(strategy, x):
        return strategy.run(lambda y: y + 1, args=(x,))

    step = mirrax.function(lambda: context().merge_call(merge, args=(own_number(),)))
    assert parts(two_replicas, two_replicas.run(step)) == [2, 3]


# Both engines.


def split(strategy, rows):
    """Returns rows cut into equal parts for the replicas."""
    pieces = np.split(rows, strategy.num_replicas_in_sync)
    return distribute(strategy, lambda i: jnp.asarray(pieces[i]))


def train(strategy, engine, steps=2):
    """Trains a linear model; returns its weights and how far off each step was.

    All numbers are fractions of few binary digits, so that nothing is ever rounded and
    the order of additions does not matter.
    """
    rng = np.random.default_rng(0)
    with strategy.scope():
        weights = mirrax.Variable(rng.integers(-2, 3, (4, 2)).astype("float32"))

    def loss(x, y):
        error = x @ weights - y
        return jnp.sum(error**2) / 32, jnp.sum(error)

    @engine
    def step(x, y):
        compute = mirrax.value_and_grad(loss, weights, has_aux=True)
        (_, error), gradient = compute(x, y)
        error, gradient = context().all_reduce("SUM", (error, gradient))
        weights.assign_sub(0.25 * gradient)
        return error

    batches = rng.integers(-1, 2, (steps, 16, 6)).astype("float32")
    errors = [
        strategy.run(step, args=(split(strategy, b[:, :4]), split(strategy, b[:, 4:])))
        for b in batches
    ]
    return weights.numpy(), np.array([parts(strategy, e)[0] for e in errors])


def test_training_gives_the_same_bits_on_one_and_four_replicas_in_both_engines(
    four_replicas,
):
    results = [
        train(strategy, engine)
        for strategy in (mirrax.OneDeviceStrategy("CPU:0"), four_replicas)
        for engine in (lambda fn: fn, mirrax.function)
    ]
    assert len({weights.tobytes() for weights, _ in results}) == 1
    assert len({errors.tobytes() for _, errors in results}) == 1


def test_two_threads_run_compiled_steps_at_the_same_time(two_replicas):
    def work(value):
        with two_replicas.scope():
            total = mirrax.Variable(0.0)
        step = mirrax.function(
            lambda x: [total.assign_add(context().all_reduce("SUM", x))]
        )
        [two_replicas.run(step, args=(jnp.float32(value),)) for _ in range(50)]
        totals.append(float(total))

    totals = []
    threads = [threading.Thread(target=work, args=(value,)) for value in (1, 10)]
    [thread.start() for thread in threads]
    [thread.join(timeout=60) for thread in threads]
    assert sorted(totals) == [100, 1000]


@engines
def test_numbers_of_the_replicas_adapt_to_the_dtype_of_arrays(two_replicas, engine):
    numbers = mirrax.PerReplica((1.0, 2.0))
    step = engine(lambda number: number * jnp.float16(2))
    for _ in range(2):
        result = two_replicas.run(step, args=(numbers,))
        assert [part.dtype for part in result.values] == [jnp.float16] * 2
        assert [float(part) for part in result.values] == [2, 4]
    assert numbers.values == (1.0, 2.0)


def test_collective_under_a_varying_condition_is_refused_with_the_place(two_replicas):
    @mirrax.function
    def step(x):
        context = mirrax.get_replica_context()
        is_first = context.replica_id_in_sync_group == 0
        return jax.lax.cond(is_first, lambda: context.all_reduce("SUM", x), lambda: x)

    with pytest.raises(
        ValueError, match=r"psum at .*test_compiled_run.py:\d+ \(.*\), in a branch"
    ):
        two_replicas.run(step, args=(1.0,))


@pytest.mark.parametrize("whole", [False, True], ids=["run", "run in a function"])
def test_the_axis_of_one_replica_has_size_one(whole):
    one = mirrax.OneDeviceStrategy("CPU:0")
    with one.scope():
        weight = mirrax.Variable(2.0)

    @mirrax.function
    def step(x):
        number = jax.lax.axis_index("replica")
        total, slope = jax.value_and_grad(lambda x: jax.lax.psum(x, "replica"))(x)
        weight.assign_add(jax.lax.pmean(number + slope, "replica"))
        jax.debug.print("{}", number)
        return total, jax.lax.all_gather(weight, "replica"), x

    run = mirrax.function(lambda x: one.run(step, (x,)))
    total, gathered, same = run(3.0) if whole else one.run(step, (3.0,))
    assert (total, gathered.tolist(), same, weight) == (3, [3], 3, 3)


def test_the_axis_of_the_replicas_is_unknown_between_them(two_replicas):
    outside = mirrax.function(lambda x: jax.lax.psum(x, "replica"))
    with two_replicas.scope(), pytest.raises(NameError, match="replica"):
        outside(1.0)

    @mirrax.function
    def around(x):
        return outside(x), two_replicas.run(lambda: jax.lax.psum(1.0, "replica"))

    with pytest.raises(NameError, match="Use the axis in the function that `run` gets"):
        around(1.0)
