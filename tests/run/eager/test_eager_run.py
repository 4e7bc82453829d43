"""Eager `run`: replicas take turns, meet at collectives, and fail as one."""

import contextlib
import gc
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.context import stack
from mirrax.errors import ReplicaError
from tests.programs import replica_id

REFUSED = r"is called inside a JAX transformation.*`@mirrax.function`"


def merge_call(fn, *args, **kwargs):
    return mirrax.get_replica_context().merge_call(fn, args, kwargs)


def all_reduce(value, op="SUM"):
    return mirrax.get_replica_context().all_reduce(op, value)


def meet():
    """Lets the replicas wait for each other."""
    merge_call(lambda _: None)


# The order of side effects.


def test_replicas_take_turns_up_to_each_meeting(two_replicas):
    events = []

    def step():
        events.append(f"a{replica_id()}")
        merge_call(lambda _: events.append("merge"))
        events.append(f"b{replica_id()}")
        merge_call(lambda _: events.append("merge"))
        events.append(f"c{replica_id()}")

    two_replicas.run(step)
    assert events == ["a0", "a1", "merge", "b0", "b1", "merge", "c0", "c1"]


def test_all_reduce_is_a_meeting(four_replicas):
    events = []

    def step():
        events.append(f"a{replica_id()}")
        all_reduce(1.0)
        events.append(f"b{replica_id()}")

    four_replicas.run(step)
    assert events == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"]


def test_python_runs_once_for_each_replica_in_every_run(four_replicas):
    calls = []
    four_replicas.run(lambda: calls.append(replica_id()))
    four_replicas.run(lambda: calls.append(replica_id()))
    assert calls == [0, 1, 2, 3] * 2


# Where code runs.


def test_each_replica_computes_on_its_own_device_after_a_meeting(two_replicas):
    def step():
        meet()
        return jnp.zeros(2)

    result = two_replicas.run(step)
    assert [part.devices() for part in result.values] == [
        {device} for device in two_replicas.topology.devices
    ]


def test_the_sum_lies_on_the_device_of_each_replica(two_replicas):
    result = two_replicas.run(lambda: all_reduce(jnp.ones(2)))
    assert [part.devices() for part in result.values] == [
        {device} for device in two_replicas.topology.devices
    ]


def test_results_of_two_replicas_can_be_added(two_replicas):
    left, right = two_replicas.run(lambda: all_reduce(jnp.ones(2))).values
    np.testing.assert_array_equal(left + right, [4, 4])


def test_the_default_device_is_what_it_was(two_replicas):
    with jax.default_device(jax.devices()[5]):
        two_replicas.run(meet)
        assert jnp.zeros(()).devices() == {jax.devices()[5]}
    assert jax.config.jax_default_device is None


def test_a_merge_function_sees_the_callers_default_device(two_replicas):
    with jax.default_device(jax.devices()[5]):
        found = two_replicas.run(lambda: merge_call(lambda _: jnp.zeros(()).devices()))
    assert found == {jax.devices()[5]}


# JAX's settings, which belong to a thread and not to a replica.


def test_a_setting_held_across_a_meeting_stays_with_its_replica(two_replicas):
    precisions = []

    def step():
        with jax.default_matmul_precision("highest" if replica_id() else "float32"):
            meet()
            precisions.append(jax.config.jax_default_matmul_precision)
        precisions.append(jax.config.jax_default_matmul_precision)

    two_replicas.run(step)
    assert precisions == ["float32", None, "highest", None]
    assert jax.config.jax_default_matmul_precision is None


def test_a_setting_held_by_one_replica_does_not_reach_the_others(two_replicas):
    precisions = {}

    def step():
        with contextlib.ExitStack() as settings:
            if replica_id() == 0:
                settings.enter_context(jax.default_matmul_precision("highest"))
            meet()
            precisions[replica_id()] = jax.config.jax_default_matmul_precision

    two_replicas.run(step)
    assert precisions == {0: "highest", 1: None}


def test_a_setting_held_across_a_meeting_does_not_reach_the_merge_function(
    two_replicas,
):
    def step():
        with jax.default_matmul_precision("highest"):
            return merge_call(lambda _: str(jax.config.jax_default_matmul_precision))

    assert two_replicas.run(step) == "None"


def test_the_callers_settings_hold_in_every_replica(two_replicas):
    precisions = []

    def step():
        precisions.append(jax.config.jax_default_matmul_precision)
        meet()
        precisions.append(jax.config.jax_default_matmul_precision)

    with jax.default_matmul_precision("highest"):
        two_replicas.run(step)
        assert jax.config.jax_default_matmul_precision == "highest"
    assert precisions == ["highest"] * 4


def test_the_callers_settings_hold_beside_those_a_replica_holds(two_replicas):
    precisions = []

    def step():
        with jax.numpy_dtype_promotion("strict"):
            meet()
        precisions.append(jax.config.jax_default_matmul_precision)

    with jax.default_matmul_precision("highest"):
        two_replicas.run(step)
        precisions.append(jax.config.jax_default_matmul_precision)
    assert precisions == ["highest"] * 3


def test_a_default_device_held_across_a_meeting_stays(two_replicas):
    other = jax.devices()[5]

    def step():
        with jax.default_device(other):
            meet()
            inside = jnp.zeros(())
        return inside, jnp.zeros(())

    inside, outside = two_replicas.run(step)
    assert [part.devices() for part in inside.values] == [{other}, {other}]
    assert [part.devices() for part in outside.values] == [
        {device} for device in two_replicas.topology.devices
    ]
    assert jax.config.jax_default_device is None


def test_a_setting_held_by_a_replica_that_fails_does_not_leak(two_replicas):
    def step():
        with jax.default_matmul_precision("highest"):
            meet()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step)
    assert jax.config.jax_default_matmul_precision is None
    assert jax.config.jax_default_device is None


# Arguments and results.


@pytest.mark.parametrize("num_replicas", [2, 4])
def test_per_replica_arguments_are_split_inside_structures(num_replicas):
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(num_replicas)])
    value = mirrax.PerReplica([jnp.float32(i) for i in range(num_replicas)])
    seen = []
    strategy.run(
        lambda tree, *, scale: seen.append((float(tree["x"][0]) * scale, tree["y"])),
        args=({"x": [value], "y": "same"},),
        kwargs={"scale": 2},
    )
    assert seen == [(2.0 * i, "same") for i in range(num_replicas)]


def test_a_plain_argument_reaches_every_replica_as_it_is(two_replicas):
    given, seen = object(), []
    two_replicas.run(seen.append, args=(given,))
    assert seen == [given, given]


def test_a_replicated_array_reaches_each_replica_on_its_device(two_replicas):
    array = jax.device_put(jnp.arange(2.0), two_replicas.topology.replicated)
    seen = []
    two_replicas.run(lambda x: seen.append(x.devices()), args=(array,))
    assert seen == [{device} for device in two_replicas.topology.devices]


def test_equal_numbers_come_back_bare(two_replicas):
    assert two_replicas.run(lambda: 0.25 + 0.5) == 0.75


def test_equal_arrays_come_back_per_replica(two_replicas):
    result = two_replicas.run(lambda: jnp.ones(()))
    assert isinstance(result, mirrax.PerReplica)


def test_different_objects_come_back_per_replica(two_replicas):
    result = two_replicas.run(lambda: f"replica {replica_id()}")
    assert result.values == ("replica 0", "replica 1")


def test_results_are_merged_leaf_by_leaf(two_replicas):
    result = two_replicas.run(lambda: {"id": replica_id(), "pair": (1, "x")})
    assert result["id"].values == (0, 1)
    assert result["pair"] == (1, "x")


def test_none_beside_a_value_comes_back_per_replica(two_replicas):
    result = two_replicas.run(lambda: jnp.float32(3) if replica_id() else None)
    assert result.values[0] is None
    assert result.values[1] == 3


def test_different_structures_are_refused(two_replicas):
    with pytest.raises(AssertionError, match=r"same structure.*replica 0.*replica 1"):
        two_replicas.run(lambda: (1, 2) if replica_id() else [1, 2])


# Errors.


def fail_on(number, before=meet):
    def step():
        before()
        if replica_id() == number:
            raise KeyError("mine")
        meet()

    return step


@pytest.mark.parametrize("number", [0, 1, 3])
def test_an_error_keeps_its_type_and_says_where(four_replicas, number):
    with pytest.raises(KeyError, match="mine") as caught:
        four_replicas.run(fail_on(number))
    (note,) = caught.value.__notes__
    line = fail_on.__code__.co_firstlineno + 4
    assert f"raised in replica {number} of 4, running fail_on.<locals>.step" in note
    assert f"{__file__}:{line};" in note


def test_the_error_of_the_first_replica_comes_out(two_replicas):
    def step():
        raise KeyError(f"from {replica_id()}")

    with pytest.raises(KeyError, match="from 0"):
        two_replicas.run(step)


def test_finally_blocks_of_the_other_replicas_run(four_replicas):
    cleaned = []

    def step():
        try:
            fail_on(2)()
        finally:
            cleaned.append(replica_id())

    with pytest.raises(KeyError, match="mine"):
        four_replicas.run(step)
    assert sorted(cleaned) == [0, 1, 2, 3]


def test_code_after_a_meeting_does_not_run_when_another_replica_failed(two_replicas):
    reached = []

    def step():
        fail_on(1)()
        reached.append(replica_id())

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step)
    assert reached == []


def test_except_exception_does_not_swallow_the_cancellation(two_replicas):
    swallowed = []

    def step():
        if replica_id() == 1:
            raise KeyError("mine")
        try:
            meet()
        except Exception as error:
            swallowed.append(error)

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step)
    assert swallowed == []


def test_a_replica_that_swallows_everything_is_cancelled_still(two_replicas):
    ended = []

    def step():
        if replica_id() == 1:
            raise KeyError("mine")
        with contextlib.suppress(BaseException):
            meet()
        with contextlib.suppress(BaseException):
            meet()
        ended.append(replica_id())

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step)
    assert ended == [0]


def test_an_error_during_cancellation_does_not_hide_the_first(two_replicas):
    def step():
        if replica_id() == 1:
            raise KeyError("mine")
        try:
            meet()
        finally:
            raise OSError("while cleaning up")

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step)


def test_an_interrupt_cancels_the_other_replicas(two_replicas):
    cleaned = []

    def step():
        try:
            meet()
            raise KeyboardInterrupt
        finally:
            cleaned.append(replica_id())

    with pytest.raises(KeyboardInterrupt):
        two_replicas.run(step)
    assert cleaned == [0, 1]


def test_an_error_before_the_meeting_does_not_hang(two_replicas):
    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(fail_on(0, before=lambda: None))


def test_the_next_run_works_after_an_error(two_replicas):
    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(fail_on(1))
    result = two_replicas.run(lambda: all_reduce(jnp.float32(replica_id() + 1)))
    assert [float(part) for part in result.values] == [3, 3]


def test_the_context_is_back_after_an_error(two_replicas):
    with two_replicas.scope():
        before = stack.frame()
        with pytest.raises(KeyError, match="mine"):
            two_replicas.run(fail_on(1))
        assert stack.frame() is before
        assert mirrax.in_cross_replica_context()
    assert stack.frame() is None


def test_a_replica_that_returns_early_is_named(two_replicas):
    def step():
        if replica_id() == 0:
            return
        mirrax.get_replica_context().all_reduce("SUM", 1.0)

    line = step.__code__.co_firstlineno + 3
    message = (
        rf"replica\(s\) \[1\] wait in all_reduce at .*test_eager_run.py:{line}, .*"
        r"replica\(s\) \[0\] ended without calling it"
    )
    with pytest.raises(ReplicaError, match=message):
        two_replicas.run(step)


def test_replicas_that_call_different_collectives_are_named(two_replicas):
    def step():
        return all_reduce(1.0) if replica_id() else meet()

    message = (
        r"replica 0 calls merge_call of \S+ at .*test_eager_run.py:\d+; "
        r"replica 1 calls all_reduce SUM of \S+ at .*test_eager_run.py:\d+"
    )
    with pytest.raises(ReplicaError, match=message):
        two_replicas.run(step)


def test_assigning_different_variables_is_refused(two_replicas):
    with two_replicas.scope():
        left, right = mirrax.Variable(0.0), mirrax.Variable(0.0)

    def step():
        (right if replica_id() else left).assign(2.0)

    with pytest.raises(ReplicaError, match="the same collective calls"):
        two_replicas.run(step)
    assert (left.numpy(), right.numpy()) == (0, 0)


def test_collectives_work_after_different_shapes_were_refused(two_replicas):
    with pytest.raises(mirrax.errors.InvalidArgumentError, match="same shape"):
        two_replicas.run(lambda: all_reduce(jnp.ones(replica_id() + 1)))
    result = two_replicas.run(lambda: all_reduce(jnp.float32(2)))
    assert [float(part) for part in result.values] == [4, 4]


def test_an_error_in_a_merge_function_comes_out_and_cancels(two_replicas):
    cleaned = []

    def step():
        try:
            merge_call(lambda _: {}["mine"])
        finally:
            cleaned.append(replica_id())

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step)
    assert sorted(cleaned) == [0, 1]
    assert stack.frame() is None


def test_run_works_inside_a_merge_function(two_replicas):
    def merge(strategy, values):
        return strategy.run(lambda x: all_reduce(x) + replica_id(), args=(values,))

    result = two_replicas.run(lambda: merge_call(merge, jnp.float32(replica_id() + 1)))
    assert [float(part) for part in result.values] == [3, 4]


def test_an_error_in_a_run_inside_a_merge_function_leaves_both(two_replicas):
    cleaned = []

    def step():
        try:
            merge_call(lambda strategy: strategy.run(fail_on(1)))
        finally:
            cleaned.append(replica_id())

    with pytest.raises(KeyError, match="mine"):
        two_replicas.run(step)
    assert sorted(cleaned) == [0, 1]


@pytest.mark.parametrize(
    "transform",
    [
        lambda fn: jax.jit(fn)(1.0),
        lambda fn: jax.vmap(fn)(jnp.ones(2)),
        lambda fn: jax.lax.scan(lambda c, x: (fn(c), x), 1.0, jnp.ones(2)),
        lambda fn: jax.lax.cond(True, fn, lambda x: x, 1.0),
        lambda fn: jax.lax.fori_loop(0, 2, lambda _, x: fn(x), 1.0),
        lambda fn: jax.jit(jax.grad(fn))(1.0),
    ],
    ids=["jit", "vmap", "scan", "cond", "fori_loop", "jit_grad"],
)
@pytest.mark.parametrize(
    "collective",
    [
        all_reduce,
        lambda x: mirrax.get_replica_context().all_gather(jnp.atleast_1d(x), 0)[0],
        lambda x: merge_call(lambda strategy, y: strategy.reduce("SUM", y, None), x),
    ],
    ids=["all_reduce", "all_gather", "merge_call"],
)
def test_a_collective_inside_a_transformation_is_refused(
    two_replicas, transform, collective
):
    with pytest.raises(RuntimeError, match=REFUSED):
        two_replicas.run(lambda: transform(collective))
    assert two_replicas.run(lambda: float(all_reduce(1.0))) == 2


def test_merge_call_inside_grad_is_refused(two_replicas):
    def step():
        return jax.grad(lambda x: merge_call(lambda _, y: y, x))(1.0)

    with pytest.raises(RuntimeError, match=REFUSED):
        two_replicas.run(step)


def derivative_of(strategy, step, parts=None):
    def total(weight):
        losses = strategy.run(step, args=(weight, parts))
        return strategy.reduce("SUM", losses, axis=None)

    return float(jax.grad(total)(3.0))


def test_replicas_inside_a_derivative_can_meet(two_replicas):
    def step(weight, _):
        square = weight * weight
        meet()
        # Both replicas are still part of the derivative.
        return square * weight * all_reduce(1.0)

    assert derivative_of(two_replicas, step) == 2 * 2 * 27


def test_a_collective_of_what_is_differentiated_outside_of_run_is_refused(two_replicas):
    with pytest.raises(RuntimeError, match="Put the transformation around"):
        derivative_of(two_replicas, lambda weight, _: all_reduce(weight))
    assert two_replicas.run(lambda: float(all_reduce(1.0))) == 2


def test_a_derivative_of_parts_that_are_kept_on_their_devices_names_the_fix(
    two_replicas,
):
    pieces = [jax.device_put(2.0, device) for device in two_replicas.topology.devices]
    with pytest.raises(ValueError, match="Take the derivative inside"):
        derivative_of(two_replicas, lambda w, x: w * x, mirrax.PerReplica(pieces))


# Threads.


@pytest.mark.parametrize(
    "devices", [("CPU:2", "CPU:3"), ("CPU:0", "CPU:1")], ids=["other", "same"]
)
def test_two_threads_run_two_strategies_at_the_same_time(two_replicas, devices):
    both_run = threading.Barrier(2, timeout=120)
    results = {}

    def work(name, strategy, value):
        def step():
            merge_call(lambda _: both_run.wait())
            return float(all_reduce(jnp.float32(value)))

        results[name] = [strategy.run(step) for _ in range(5)]
        results[name, "after"] = mirrax.has_strategy()

    threads = [
        threading.Thread(target=work, args=("first", two_replicas, 1)),
        threading.Thread(
            target=work, args=("second", mirrax.MirroredStrategy(devices), 10)
        ),
    ]
    [thread.start() for thread in threads]
    [thread.join(timeout=60) for thread in threads]
    assert results == {
        "first": [2.0] * 5,
        "second": [20.0] * 5,
        ("first", "after"): False,
        ("second", "after"): False,
    }


def test_a_scope_in_one_thread_does_not_reach_another(two_replicas):
    found = []
    thread = threading.Thread(target=lambda: found.append(mirrax.has_strategy()))
    with two_replicas.scope():
        thread.start()
        thread.join()
    assert found == [False]


def test_what_replicas_compute_goes_without_the_cycle_collector(two_replicas):
    kept = []

    def step():
        large = jnp.ones(1000) * 2
        kept.append(weakref.ref(large))
        return all_reduce(large.sum())

    gc.disable()
    try:
        two_replicas.run(step)
        assert [reference() for reference in kept] == [None, None]
    finally:
        gc.enable()


def test_each_replica_can_have_a_random_key(two_replicas):
    keys = two_replicas.experimental_distribute_values_from_function(
        lambda context: jax.random.key(context.replica_id_in_sync_group)
    )
    assert [jnp.issubdtype(k.dtype, jax.dtypes.prng_key) for k in keys.values] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (({"loss": 1.0}, {"accuracy": 1.0}), r"replica 1 calls .*'accuracy'"),
        (([1.0], {"loss": 1.0}), r"SUM of PyTreeDef\(\[\*\]\)"),
    ],
    ids=["keys", "kinds"],
)
def test_values_that_are_nested_differently_are_not_added_up(
    two_replicas, values, shown
):
    def step():
        context = mirrax.get_replica_context()
        return context.all_reduce("SUM", values[context.replica_id_in_sync_group])

    with pytest.raises(ReplicaError, match=shown):
        two_replicas.run(step)


def test_a_sum_beside_a_mean_is_told_apart(two_replicas):
    def step():
        context = mirrax.get_replica_context()
        op = "MEAN" if context.replica_id_in_sync_group else "SUM"
        return context.all_reduce(op, 1.0)

    with pytest.raises(
        ReplicaError, match=r"calls all_reduce SUM.*calls all_reduce MEAN"
    ):
        two_replicas.run(step)


def test_a_function_defined_in_a_replica_runs_there(two_replicas):
    with two_replicas.scope():
        total = mirrax.Variable(0.0, aggregation=mirrax.VariableAggregation.SUM)

    def step(x):
        @mirrax.function
        def inner(y):
            total.assign_add(y)
            return mirrax.get_replica_context().all_reduce("SUM", x * y)

        return inner(x)

    parts = mirrax.PerReplica((jnp.float32(1), jnp.float32(2)))
    assert [float(part) for part in two_replicas.run(step, (parts,)).values] == [5, 5]
    assert float(total) == 3


def test_a_function_kept_from_a_replica_is_compiled_by_the_next_run(two_replicas):
    kept = []

    def step(x):
        if not kept:
            kept.append(mirrax.function(lambda y: y * 2))
        return kept[0](x)

    parts = mirrax.PerReplica((jnp.float32(1), jnp.float32(2)))
    for count in range(2):
        assert [float(p) for p in two_replicas.run(step, (parts,)).values] == [2, 4]
        assert kept[0].trace_count == count
