"""`run` picks the engine: eager, compiled, traced inside a function, or alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from tests.programs import engines


def context():
    return mirrax.get_replica_context()


@pytest.mark.parametrize("fn", [None, 3, "step"], ids=str)
def test_run_takes_a_function_only(strategy, fn):
    with pytest.raises(TypeError, match=rf"`run` takes a function.*fn={fn!r}"):
        strategy.run(fn)


def test_arguments_outside_of_a_tuple_are_refused(strategy):
    with pytest.raises(TypeError, match=r"`args` of `run` is a tuple.*args=\(x,\)"):
        strategy.run(context, jnp.ones(3), jnp.ones(3))


def test_a_plain_function_runs_as_python_once_for_each_replica(strategy):
    calls = []
    strategy.run(lambda: calls.append(context().replica_id_in_sync_group))
    assert calls == list(range(strategy.num_replicas_in_sync))


def test_a_compiled_function_is_traced_once_for_all_replicas(strategy):
    calls = []
    step = mirrax.function(lambda: calls.append(None))
    strategy.run(step)
    strategy.run(step)
    assert len(calls) == 1


def test_run_inside_a_function_is_traced_once_for_all_replicas(strategy):
    calls = []

    @mirrax.function
    def outer():
        strategy.run(lambda: calls.append(None))

    outer()
    outer()
    assert len(calls) == 1


def test_run_of_a_compiled_function_inside_a_function_is_traced_once(strategy):
    calls = []
    inner = mirrax.function(lambda x: calls.append(None) or x + 1)
    outer = mirrax.function(lambda x: strategy.run(inner, args=(x,)))
    outer(1.0)
    outer(2.0)
    assert len(calls) == 1


def test_one_replica_gives_bare_results():
    strategy = mirrax.MirroredStrategy(["CPU:3"])
    result = strategy.run(lambda: {"x": jnp.ones(())})
    assert isinstance(result["x"], jax.Array)
    assert result["x"].devices() == {jax.devices()[3]}


def test_one_compiled_replica_runs_on_its_device():
    strategy = mirrax.OneDeviceStrategy("CPU:3")
    result = strategy.run(mirrax.function(lambda x: x + 1), args=(np.float32(1),))
    assert isinstance(result, jax.Array)
    assert result.devices() == {jax.devices()[3]}


def test_one_replica_takes_values_made_for_it():
    strategy = mirrax.MirroredStrategy(["CPU:3"])
    value = strategy.experimental_distribute_values_from_function(
        lambda _: jnp.float32(2)
    )
    assert float(strategy.run(lambda x: x + 1, args=(value,))) == 3


def test_arguments_can_be_a_list(strategy):
    seen = []
    strategy.run(lambda x, y: seen.append((x, y)), args=[1, 2])
    assert set(seen) == {(1, 2)}


def test_options_are_accepted(strategy):
    assert strategy.run(lambda: 3, options=mirrax.RunOptions()) == 3


def test_run_enters_the_strategy_and_leaves_it(strategy):
    seen = []
    strategy.run(lambda: seen.append(mirrax.get_strategy()))
    assert set(seen) == {strategy}
    assert not mirrax.has_strategy()


def test_run_inside_the_scope_of_another_strategy_is_refused(two_replicas):
    other = mirrax.OneDeviceStrategy("CPU:0")
    with (
        other.scope(),
        pytest.raises(RuntimeError, match="inside the scope of another strategy"),
    ):
        two_replicas.run(lambda: None)


def test_a_compiled_function_in_an_eager_run_is_one_program(four_replicas):
    traces = []

    @mirrax.function
    def total(x):
        traces.append(None)
        return context().all_reduce("SUM", x) + context().replica_id_in_sync_group

    def step():
        number = jnp.float32(context().replica_id_in_sync_group)
        return total(number), total(number)

    first, second = four_replicas.run(step)
    assert len(traces) == 1
    assert [float(part) for part in first.values] == [6, 7, 8, 9]
    assert [float(part) for part in second.values] == [6, 7, 8, 9]


def test_a_compiled_function_in_an_eager_run_writes_variables_once(two_replicas):
    with two_replicas.scope():
        steps = mirrax.Variable(0)
    count = mirrax.function(lambda: steps.assign_add(1))
    two_replicas.run(lambda: count() and None)
    assert steps.numpy() == 1


def test_a_compiled_function_in_an_eager_run_takes_unequal_parts(two_replicas):
    total = mirrax.function(lambda x: context().all_reduce("SUM", x.sum()))

    def step():
        return total(jnp.ones(context().replica_id_in_sync_group + 1))

    result = two_replicas.run(step)
    assert [float(p) for p in two_replicas.experimental_local_results(result)] == [3, 3]


def test_run_inside_jit_computes_for_each_replica(two_replicas):
    value = jax.jit(lambda x: two_replicas.run(lambda y: y + 1, args=(x,)).values)(1.0)
    assert [float(part) for part in value] == [2, 2]


@engines
@pytest.mark.parametrize(
    "args", [jnp.ones(4), np.ones(4), 1, "ab", mirrax.PerReplica((1, 2))], ids=type
)
def test_one_argument_that_is_not_in_a_tuple_is_refused(strategy, engine, args):
    message = (
        rf"a tuple of arguments.*type {type(args).__name__}. Write args=\(value,\)"
    )
    with pytest.raises(TypeError, match=message):
        strategy.run(engine(lambda x: x), args=args)


@engines
def test_named_arguments_in_args_are_refused(strategy, engine):
    with pytest.raises(TypeError, match=r"For named arguments, write kwargs=\{"):
        strategy.run(engine(lambda x: x), args={"x": 1})


def test_keyword_arguments_that_are_no_dict_are_refused(strategy):
    with pytest.raises(TypeError, match=r"a dict of named arguments.*type list"):
        strategy.run(lambda x: x, kwargs=[1])


def test_collective_in_run_inside_jit_says_where_the_jit_belongs(two_replicas):
    @mirrax.function
    def step(x):
        return mirrax.get_replica_context().all_reduce("SUM", x)

    message = r"Put the transformation around `strategy.run` into a `@mirrax.function`"
    with pytest.raises(RuntimeError, match=message):
        jax.jit(lambda x: two_replicas.run(step, args=(x,)))(1.0)
