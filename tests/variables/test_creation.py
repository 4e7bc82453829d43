"""Creating variables: in functions, in replicas, and through creators."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import VariableAggregation
from mirrax.variables import MirroredVariable, variable_creator_scope
from tests.programs import create, engines, parts, replica_id

SUM = VariableAggregation.SUM


def test_arguments_can_be_positional(strategy):
    with strategy.scope():
        v = mirrax.Variable(1, False, "count", np.float32, SUM)
    assert (v.trainable, v.name, v.aggregation) == (False, "count:0", SUM)
    assert v.dtype == np.float32


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1.0, True), {"trainable": False}), ((1.0, None, None, None, SUM, None, 7), {})],
    ids=["twice", "too_many"],
)
def test_arguments_are_given_once(strategy, args, kwargs):
    with strategy.scope(), pytest.raises(TypeError, match=r"each once. Received: "):
        mirrax.Variable(*args, **kwargs)


def test_unknown_argument_is_refused(strategy):
    with pytest.raises(TypeError, match="colour"):
        create(strategy, 1.0, colour="red")


@pytest.mark.parametrize(
    "initial_value",
    [1.0, np.float32(1), jnp.float32(1), lambda: 1.0, mirrax.Variable],
    ids=["number", "numpy", "array", "callable", "variable"],
)
def test_initial_value_is_a_number_an_array_or_a_callable(strategy, initial_value):
    given = mirrax.Variable(1.0) if initial_value is mirrax.Variable else initial_value
    v = create(strategy, given)
    assert parts(strategy, v) == [1.0] * strategy.num_replicas_in_sync


@pytest.mark.parametrize("make", [np.ones, jnp.ones], ids=["numpy", "jax"])
def test_creation_compiles_nothing(strategy, make):
    values = [make((size, 3), np.float32) for size in range(11, 15)]
    compiled = []

    def listen(event, _, **__):
        compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        with strategy.scope():
            variables = [mirrax.Variable(value) for value in values]
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []
    variables[0].assign(np.zeros((11, 3), np.float32))
    assert values[0].sum() == 33


def test_callable_initial_value_is_called_once(strategy):
    calls = []

    def initial_value():
        calls.append(1)
        return jnp.float32(len(calls))

    v = create(strategy, initial_value)
    assert len(calls) == 1
    assert parts(strategy, v) == [1.0] * strategy.num_replicas_in_sync


# Inside `run`.


def test_variable_created_in_run_is_one_for_all_replicas(strategy):
    made = []

    def step():
        made.append(mirrax.Variable(1.0, aggregation=SUM))
        made[-1].assign_add(jnp.float32(replica_id()))

    strategy.run(step)
    count = strategy.num_replicas_in_sync
    assert len(made) == count
    assert all(v is made[0] for v in made)
    assert made[0].numpy() == 1.0 + sum(range(count))
    assert strategy.extended.variable_created_in_scope(made[0])


def test_variable_created_in_run_is_returned_as_itself(two_replicas):
    v = two_replicas.run(lambda: mirrax.Variable(1.0))
    assert type(v) is MirroredVariable
    assert parts(two_replicas, v) == [1.0, 1.0]


def test_each_eager_run_creates_another_variable(two_replicas):
    first = two_replicas.run(mirrax.Variable, args=(1.0,))
    second = two_replicas.run(mirrax.Variable, args=(2.0,))
    assert first is not second
    assert parts(two_replicas, first) == [1.0, 1.0]
    assert parts(two_replicas, second) == [2.0, 2.0]


def test_callable_initial_value_in_run_is_called_once(strategy):
    calls = []

    def initial_value():
        calls.append(1)
        return jnp.float32(1)

    strategy.run(lambda: mirrax.Variable(initial_value))
    assert len(calls) == 1


def test_variable_created_in_run_takes_the_first_replicas_value(two_replicas):
    v = two_replicas.run(lambda: mirrax.Variable(jnp.float32(replica_id() + 5)))
    assert parts(two_replicas, v) == [5.0, 5.0]


def test_error_of_the_initial_value_in_run_reaches_the_caller(two_replicas):
    def initial_value():
        raise KeyError("no weights")

    with pytest.raises(KeyError, match="no weights"):
        two_replicas.run(lambda: mirrax.Variable(initial_value))


# Inside a function.


INITIAL_VALUES = pytest.mark.parametrize(
    "initial_value",
    [[1.0, 2.0], np.array([1.0, 2.0], np.float32), lambda: jnp.array([1.0, 2.0])],
    ids=["list", "numpy", "callable"],
)


@INITIAL_VALUES
def test_variable_created_in_a_function_is_created_once(strategy, initial_value):
    made = []

    @mirrax.function
    def step(x):
        if not made:
            made.append(create(strategy, initial_value))
        made[0].assign_add(x)
        return made[0].value * 10

    assert step(jnp.ones(2)).tolist() == [20.0, 30.0]
    assert step(jnp.ones(2)).tolist() == [30.0, 40.0]
    assert len(made) == 1
    assert parts(strategy, made[0])[-1] == [3.0, 4.0]


@INITIAL_VALUES
def test_variable_created_in_a_compiled_run_is_created_once(strategy, initial_value):
    made = []

    @mirrax.function
    def step():
        if not made:
            made.append(mirrax.Variable(initial_value, aggregation=SUM))
        made[0].assign_add(jnp.ones(2))

    strategy.run(step)
    strategy.run(step)
    count = strategy.num_replicas_in_sync
    assert len(made) == 1
    assert made[0].numpy().tolist() == [1.0 + 2 * count, 2.0 + 2 * count]


def test_variable_created_in_a_run_inside_a_function(strategy):
    made = []

    @mirrax.function
    def step():
        def replica_step():
            if not made:
                made.append(mirrax.Variable(1.0, aggregation=SUM))
            made[0].assign_add(1.0)

        strategy.run(replica_step)

    step()
    step()
    assert made[0].numpy() == 1.0 + 2 * strategy.num_replicas_in_sync


def test_callable_initial_value_in_a_function_is_called_once(strategy):
    calls = []

    def initial_value():
        calls.append(1)
        return jnp.float32(1)

    made = []

    @mirrax.function
    def step():
        if not made:
            made.append(create(strategy, initial_value))
        return made[0].value + 0

    step()
    step()
    assert len(calls) == 1


def test_random_initial_value_in_a_function_is_a_value(strategy):
    def initial_value():
        return jax.random.normal(jax.random.key(0), (3,))

    v = mirrax.function(lambda: create(strategy, initial_value))()
    assert v.numpy().tolist() == initial_value().tolist()


# Through creators.


def test_creator_inside_the_scope_sees_the_distributed_variable(two_replicas):
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(next_creator(**kwargs))
        return seen[-1]

    with two_replicas.scope(), variable_creator_scope(creator):
        v = mirrax.Variable(1.0)
    assert len(seen) == 1
    assert seen[0] is v
    assert type(v) is MirroredVariable


def test_creator_around_the_scope_sees_every_copy(two_replicas):
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(next_creator(**kwargs))
        return seen[-1]

    with variable_creator_scope(creator), two_replicas.scope():
        v = mirrax.Variable(1.0)
    assert [type(copy) for copy in seen] == [mirrax.Variable] * 2
    assert [copy.name for copy in seen] == ["Variable:0", "Variable/replica_1:0"]
    assert type(v) is MirroredVariable


def test_creator_inside_the_scope_can_change_arguments(strategy):
    def creator(next_creator, **kwargs):
        return next_creator(**dict(kwargs, name="changed", trainable=False))

    with strategy.scope(), variable_creator_scope(creator):
        v = mirrax.Variable(1.0, name="given")
    assert (v.name, v.trainable) == ("changed:0", False)


def test_creator_around_the_scope_can_change_the_value(strategy):
    def creator(next_creator, **kwargs):
        return next_creator(**dict(kwargs, initial_value=7.0))

    with variable_creator_scope(creator), strategy.scope():
        v = mirrax.Variable(1.0)
    assert parts(strategy, v) == [7.0] * strategy.num_replicas_in_sync


def test_creator_around_the_scope_can_change_what_is_trainable(strategy):
    def creator(next_creator, **kwargs):
        return next_creator(**dict(kwargs, trainable=False))

    with variable_creator_scope(creator), strategy.scope():
        v = mirrax.Variable(1.0)
    assert not v.trainable


def test_creator_outside_every_scope_takes_part():
    def creator(next_creator, **kwargs):
        return next_creator(**dict(kwargs, name="changed"))

    with variable_creator_scope(creator):
        v = mirrax.Variable(1.0)
    assert v.name == "changed:0"


def test_innermost_creator_is_called_first(strategy):
    order = []

    def creator(name):
        def create_it(next_creator, **kwargs):
            order.append(name)
            return next_creator(**kwargs)

        return create_it

    outer, inner = (
        variable_creator_scope(creator(name)) for name in ("outer", "inner")
    )
    with strategy.scope(), outer, inner:
        mirrax.Variable(1.0)
    assert order == ["inner", "outer"]


def test_creator_can_give_a_variable_of_its_own(strategy):
    shared = create(strategy, 1.0)
    with strategy.scope(), variable_creator_scope(lambda following, **kwargs: shared):
        assert mirrax.Variable(2.0) is shared


def test_creator_sees_the_arguments_by_name(strategy):
    seen = {}

    def creator(next_creator, **kwargs):
        seen.update(kwargs)
        return next_creator(**kwargs)

    with strategy.scope(), variable_creator_scope(creator):
        mirrax.Variable(1.0, False, name="alpha")
    assert seen["initial_value"] == 1.0
    assert seen["trainable"] is False
    assert seen["name"] == "alpha"


@engines
def test_creator_takes_part_in_run_once(strategy, engine):
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(kwargs["name"])
        return next_creator(**kwargs)

    with strategy.scope(), variable_creator_scope(creator):
        strategy.run(engine(lambda: mirrax.Variable(1.0, name="inside")))
    assert seen == ["inside"]


def test_creator_inside_a_replica_is_called_once(strategy):
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(kwargs["name"])
        return next_creator(**kwargs)

    def step():
        with variable_creator_scope(creator):
            return mirrax.Variable(1.0, name="inside")

    strategy.run(step)
    assert seen == ["inside"]


def test_creator_is_gone_after_its_scope(strategy):
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(kwargs)
        return next_creator(**kwargs)

    with pytest.raises(KeyError), variable_creator_scope(creator):
        raise KeyError
    create(strategy, 1.0)
    assert seen == []


def test_creator_holds_for_its_thread_only():
    seen = []

    def creator(next_creator, **kwargs):
        seen.append(kwargs)
        return next_creator(**kwargs)

    with variable_creator_scope(creator):
        thread = threading.Thread(target=mirrax.Variable, args=(1.0,))
        thread.start()
        thread.join()
    assert seen == []


def test_creator_must_be_callable():
    with pytest.raises(TypeError, match=r"callable as creator.*Received: 'text'"):
        variable_creator_scope("text").__enter__()
