"""`function`: traced once for each kind of call, compiled, and let go of in the end."""

import dataclasses
import functools
import gc
import re
import threading
import time
import weakref

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run.compiled.function import Function

programs_module = __import__(
    "mirrax.run.compiled.program_cache", fromlist=["MAX_PROGRAMS"]
)


class Traced:
    """A function that counts how often its Python runs."""

    def __init__(self, fn=lambda *args, **kwargs: None):
        self.count = 0
        self._fn = fn
        self.function = mirrax.function(self._call)

    def _call(self, *args, **kwargs):
        self.count += 1
        return self._fn(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)


# When Python runs again.


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (jnp.zeros(3), jnp.ones(3)),
        (np.zeros(3, np.float32), np.ones(3, np.float32)),
        (np.zeros(3, np.float32), jnp.ones(3)),
        (1, 2),
        (1.5, -2.5),
        (1j, 2j),
        (np.float32(1), np.float32(2)),
        ({"x": (1, jnp.zeros(2))}, {"x": (2, jnp.ones(2))}),
        ("same", "same"),
        (True, True),
        (None, None),
    ],
    ids=[
        "array",
        "numpy",
        "numpy_then_jax",
        "int",
        "float",
        "complex",
        "numpy_scalar",
        "tree",
        "str",
        "bool",
        "none",
    ],
)
def test_the_same_kind_of_argument_is_traced_once(first, second):
    traced = Traced()
    traced(first)
    traced(second)
    assert traced.count == 1
    assert traced.function.trace_count == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (jnp.zeros(3), jnp.zeros(4)),
        (jnp.zeros(3), jnp.zeros(3, int)),
        (jnp.zeros(3), [jnp.zeros(3)]),
        ((1, 2), [1, 2]),
        (1, 1.0),
        (1, True),
        (0, False),
        (True, False),
        ("left", "right"),
        (None, 1),
        (len, sum),
        (3, int),
        (jnp.zeros(3), None),
    ],
    ids=[
        "shape",
        "dtype",
        "structure",
        "container",
        "int_float",
        "int_true",
        "int_false",
        "bool",
        "str",
        "none",
        "callable",
        "type",
        "array_none",
    ],
)
def test_another_kind_of_argument_is_traced_again(first, second):
    traced = Traced()
    traced(first)
    traced(second)
    assert traced.count == 2
    assert traced.function.trace_count == 2


def test_a_number_and_its_type_are_two_kinds_of_argument():
    named = mirrax.function(lambda x: x.__name__ if isinstance(x, type) else x + 1)
    assert (int(named(3)), named(int)) == (4, "int")


def test_numbers_are_inputs_of_the_program():
    double = Traced(lambda x: 2 * x)
    assert [float(double(x)) for x in (1.0, 2.5, -4.0)] == [2, 5, -8]
    assert double.count == 1


def test_booleans_and_strings_are_part_of_the_program():
    @mirrax.function
    def choose(x, negate, name):
        return {name: -x if negate else x}

    assert choose(1.0, True, "a") == {"a": -1}
    assert choose(1.0, False, "b") == {"b": 1}


def test_keyword_arguments_are_arguments():
    traced = Traced(lambda x, *, y: x - y)
    assert float(traced(1.0, y=2.0)) == -1
    assert float(traced(y=1.0, x=5.0)) == 4
    assert float(traced(x=3.0, y=1.0)) == 2
    assert traced.count == 2


def test_a_setting_of_jax_is_traced_again():
    traced = Traced(lambda x: x @ x)
    traced(jnp.eye(2))
    with jax.default_matmul_precision("highest"):
        traced(jnp.eye(2))
    traced(jnp.eye(2))
    assert traced.count == 2


def test_a_changed_variable_is_not_traced_again():
    variable = mirrax.Variable(1.0)
    traced = Traced(lambda: variable * 2)
    traced()
    variable.assign(5.0)
    assert float(traced()) == 10
    assert traced.count == 1


def test_a_variable_as_argument_is_part_of_the_program():
    first, second = mirrax.Variable(1.0), mirrax.Variable(2.0)
    traced = Traced(lambda v: [v.assign_add(1.0)])
    traced(first)
    traced(second)
    traced(first)
    assert (first.numpy(), second.numpy()) == (3, 3)
    assert traced.count == 2


def test_an_argument_that_cannot_be_hashed_is_refused():
    with pytest.raises(TypeError, match=r"arrays, numbers and hashable objects"):
        mirrax.function(lambda x: None)({1, 2})


def test_keys_that_cannot_be_ordered_are_refused_after_other_calls():
    fn = mirrax.function(lambda tree: tree)
    fn({"a": jnp.ones(2)})
    with pytest.raises(ValueError, match="sorting pytree dictionary keys"):
        fn({"a": jnp.ones(2), 1: jnp.ones(2)})


def test_only_functions_are_compiled():
    with pytest.raises(TypeError, match=r"`mirrax.function` takes a function.*3"):
        mirrax.function(3)


@pytest.mark.parametrize("function", [None, lambda x: x], ids=["decorator", "call"])
def test_options_of_jit_are_refused_with_what_to_do(function):
    expected = "Received: static_argnums. Strings, booleans .*`functools.partial`"
    with pytest.raises(TypeError, match=expected):
        mirrax.function(function, static_argnums=1)


def test_a_number_in_a_partial_function_is_static():
    double = mirrax.function(functools.partial(lambda x, n: [x] * n, n=2))
    assert double(1.0) == [1.0, 1.0]


def test_a_compiled_function_is_compiled_once():
    compiled = mirrax.function(lambda: None)
    assert mirrax.function(compiled) is compiled


def test_options_come_before_the_function():
    @mirrax.function(donate_argnums=0)
    def double(x):
        """Doubles."""
        return 2 * x

    assert float(double(jnp.float32(3))) == 6
    assert (double.__name__, double.__doc__) == ("double", "Doubles.")


# The programs that are kept.


def test_the_program_used_longest_ago_is_dropped(monkeypatch):
    monkeypatch.setattr(programs_module, "MAX_PROGRAMS", 2)
    seen = []
    traced = mirrax.function(seen.append)
    traced("a")
    traced("b")
    traced("a")
    traced("c")
    traced("a")
    traced("b")
    assert seen == ["a", "b", "c", "b"]


def add_one(variable):
    variable.assign_add(jnp.ones(2))


def collected(reference):
    gc.collect()
    return reference() is None


def test_a_strategy_is_let_go_of_with_the_function():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    step = mirrax.function(lambda x: x + 1)
    strategy.run(step, args=(jnp.ones(2),))
    reference = weakref.ref(strategy)
    del strategy, step
    assert collected(reference)


def test_a_strategy_is_let_go_of_with_the_function_around_run():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    step = mirrax.function(
        lambda x, strategy=strategy: strategy.run(lambda y: y + 1, args=(x,))
    )
    step(jnp.ones(2))
    reference = weakref.ref(strategy)
    del strategy, step
    assert collected(reference)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_a_variable_is_let_go_of_with_the_function(num_replicas):
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(num_replicas)])
    with strategy.scope():
        variable = mirrax.Variable(jnp.ones(2))

    step = mirrax.function(functools.partial(add_one, variable))
    strategy.run(step)
    reference = weakref.ref(variable)
    del variable, step
    assert collected(reference)


def test_what_a_function_closes_over_is_let_go_of_with_it():
    class Model:
        scale = 2.0

    model = Model()
    step = mirrax.function(lambda x, model=model: x * model.scale)
    step(1.0)
    reference = weakref.ref(model)
    del model, step
    assert collected(reference)


def test_arguments_are_not_kept():
    array = jnp.ones(3)
    step = mirrax.function(lambda x: x + 1)
    step(array)
    reference = weakref.ref(array)
    del array
    assert collected(reference)


def test_a_batch_is_not_kept(two_replicas):
    batch = mirrax.PerReplica(
        [jax.device_put(jnp.ones(3), d) for d in two_replicas.topology.devices]
    )
    step = mirrax.function(lambda x: x + 1)
    two_replicas.run(step, args=(batch,))
    reference = weakref.ref(batch.values[0])
    del batch
    assert collected(reference)


# Methods, nesting, transformations.


def test_a_method_can_be_compiled():
    class Model:
        def __init__(self, scale):
            self.scale = mirrax.Variable(scale)
            self.traces = 0

        @mirrax.function
        def apply(self, x, *, shift=0.0):
            self.traces += 1
            return self.scale * x + shift

    small, large = Model(2.0), Model(10.0)
    assert [float(small.apply(3.0)), float(large.apply(3.0))] == [6, 30]
    assert float(small.apply(4.0, shift=1.0)) == 9
    assert float(small.apply(5.0)) == 10
    assert (small.traces, large.traces) == (2, 1)


def test_a_method_can_be_given_to_run(two_replicas):
    class Model:
        @mirrax.function
        def apply(self, x):
            return mirrax.get_replica_context().all_reduce("SUM", x)

    assert float(two_replicas.run(Model().apply, args=(jnp.float32(3),))) == 6


def test_a_function_reached_through_the_class_is_itself():
    class Model:
        @mirrax.function
        def apply(self):
            return None

    assert isinstance(Model.apply, Function)


def test_a_function_inside_a_function_becomes_part_of_it():
    inner = Traced(lambda x: x + 1)
    outer = Traced(lambda x: inner(inner(x)))
    assert float(outer(1.0)) == 3
    assert float(outer(2.0)) == 4
    assert (outer.count, inner.count) == (1, 2)
    assert inner.function.trace_count == 0


def test_an_inner_function_writes_variables_of_the_outer_program():
    variable = mirrax.Variable(0.0)
    add = mirrax.function(lambda x: [variable.assign_add(x)])

    @mirrax.function
    def twice(x):
        add(x)
        add(x)
        return variable * 10

    assert float(twice(1.0)) == 20
    assert variable.numpy() == 2


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda fn: jax.grad(fn)(3.0), 6),
        (lambda fn: jax.jit(fn)(3.0), 9),
        (lambda fn: jax.vmap(fn)(jnp.array([1.0, 3.0]))[1], 9),
        (lambda fn: jax.lax.map(fn, jnp.array([1.0, 3.0]))[1], 9),
    ],
    ids=["grad", "jit", "vmap", "map"],
)
def test_jax_can_transform_a_function(transform, expected):
    assert float(transform(mirrax.function(lambda x: x * x))) == expected


def test_jax_can_differentiate_a_function_that_reads_variables(strategy):
    with strategy.scope():
        variable = mirrax.Variable(5.0)
    scale = mirrax.function(lambda x: x * variable)
    assert float(jax.grad(scale)(3.0)) == 5


def test_a_variable_inside_jit_is_refused():
    variable = mirrax.Variable(5.0, name="mine")
    scale = mirrax.function(lambda x: x * variable)
    with pytest.raises(RuntimeError, match=r"'mine:0' was read inside jax.jit"):
        jax.jit(scale)(3.0)


# Errors.


def test_an_error_leaves_variables_as_they_were():
    variable = mirrax.Variable(1.0)

    @mirrax.function
    def fail():
        variable.assign(5.0)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert variable.numpy() == 1
    variable.assign_add(1.0)
    assert variable.numpy() == 2


def test_an_error_comes_alone():
    @mirrax.function
    def fail():
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine") as caught:
        fail()
    assert caught.value.__context__ is None


def test_a_function_that_failed_is_traced_again():
    outcomes = iter([KeyError("mine"), None])

    @mirrax.function
    def fail_once():
        error = next(outcomes)
        if error:
            raise error
        return 3

    with pytest.raises(KeyError, match="mine"):
        fail_once()
    assert fail_once() == 3


def test_many_traces_are_logged_with_their_number_and_time(caplog):
    traced = mirrax.function(lambda name: None)
    [traced(str(i)) for i in range(19)]
    first, second = (record.getMessage() for record in caplog.records)
    assert re.search(r"is compiled for 5 kinds of .* took \d+\.\d s before", first)
    assert "is compiled for 10 kinds of arguments" in second


# Giving arguments away.


def test_a_donated_argument_is_given_away_and_only_that_one():
    add = mirrax.function(lambda x, y: x + y, donate_argnums=0)
    given, kept = jnp.ones(4), jnp.ones(4)
    add(given, kept)
    assert (given.is_deleted(), kept.is_deleted()) == (True, False)


def test_nothing_is_given_away_unasked(strategy):
    array = jax.device_put(jnp.ones(4), strategy.topology.replicated)
    step = mirrax.function(lambda x: x + 1)
    strategy.run(step, args=(array,))
    step(jnp.ones(4))
    assert not array.is_deleted()


def test_structures_can_be_donated():
    step = mirrax.function(
        lambda tree, x: ({k: v + x for k, v in tree.items()}), donate_argnums=(0,)
    )
    tree, x = {"a": jnp.ones(2), "b": jnp.ones(3)}, jnp.float32(1)
    step(tree, x)
    assert [v.is_deleted() for v in tree.values()] == [True, True]
    assert not x.is_deleted()


@pytest.mark.parametrize("num_replicas", [1, 4])
def test_state_can_be_donated_to_run(num_replicas):
    strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(num_replicas)])
    step = mirrax.function(lambda state, x: state + x, donate_argnums=0)
    first = jax.device_put(jnp.ones(4), strategy.topology.replicated)
    second = strategy.run(step, args=(first, 1.0))
    third = strategy.run(step, args=(second, 1.0))
    assert (first.is_deleted(), second.is_deleted()) == (True, True)
    np.testing.assert_array_equal(third, [3] * 4)


@dataclasses.dataclass
class Scaler:
    """Has no hash, as every dataclass that can be compared and changed."""

    factor: float

    @mirrax.function
    def scale(self, x):
        return self.factor * x


def test_method_of_an_object_without_hash(strategy):
    double, triple = Scaler(2.0), Scaler(3.0)
    assert double.scale(jnp.ones(1)) == 2
    assert triple.scale(jnp.ones(1)) == 3
    assert strategy.run(double.scale, args=(jnp.ones(1),)) == 2


def test_method_given_to_run_is_one_program(two_replicas):
    class Model:
        @mirrax.function
        def step(self, x):
            return jax.lax.axis_index("replica") + x

    result = two_replicas.run(Model().step, args=(1,))
    assert [int(part) for part in result.values] == [1, 2]


def test_partial_function_given_to_run_is_one_program(two_replicas):
    step = mirrax.function(lambda a, b, c: (a, b, c, jax.lax.axis_index("replica")))
    partial = functools.partial(functools.partial(step, 1), c=3)
    *given, index = two_replicas.run(partial, args=(2,))
    assert [int(x) for x in given] == [1, 2, 3]
    assert [int(part) for part in index.values] == [0, 1]


class Compared:
    """Hashes by identity, and compares by what it holds, as arrays of others do."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __eq__(self, other):
        return self.values == other.values

    __hash__ = object.__hash__


def test_objects_that_hash_differently_have_programs_of_their_own():
    add = mirrax.function(lambda x, given: x + float(given.values.sum()))
    first = Compared(1.0)
    add(1.0, first)
    first.values = np.asarray(5.0)
    assert float(add(1.0, Compared(5.0))) == 6
    assert float(add(1.0, Compared([1.0, 2.0]))) == 4
    assert float(add(1.0, Compared([3.0, 4.0]))) == 8


def test_scalars_of_numpy_and_jax_share_a_program():
    double = Traced(lambda x: 2 * x)
    double(jnp.float32(1))
    double(np.float32(1))
    assert double.count == 1


class SlowlyCompared:
    """Lets other threads run while it is compared."""

    def __hash__(self):
        return 1

    def __eq__(self, other):
        time.sleep(0.0005)
        return True


def test_threads_get_programs_of_their_own():
    function = mirrax.function(lambda x, given: (x * 2, x.shape[0]))
    wrong = []

    def work(size):
        for _ in range(100):
            _, found = function(jnp.ones(size), SlowlyCompared())
            if int(found) != size:
                wrong.append((size, int(found)))

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@mirrax.function
def increase_all(_parts):
    for variable in created:
        variable.assign_add(jnp.ones(2))


created = []


@pytest.mark.parametrize("sizes", [(2, 2), (2, 1)], ids=["even", "uneven"])
def test_a_function_keeps_no_strategy_alive_that_it_ran_on(sizes):
    def train():
        strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            created.append(mirrax.Variable(jnp.ones(2)))
        parts = mirrax.PerReplica([np.ones(size) for size in sizes])
        strategy.run(increase_all, args=(parts,))
        return weakref.ref(strategy), weakref.ref(created.pop())

    references = [train() for _ in range(2)]
    gc.collect()
    assert [reference() for pair in references for reference in pair] == [None] * 4


def test_what_was_compiled_goes_at_once_with_the_function(two_replicas):
    """Without waiting for Python to look for cycles: arrays can be large."""
    with two_replicas.scope():
        variable = mirrax.Variable(jnp.ones(2))
    step = mirrax.function(functools.partial(add_one, variable))
    two_replicas.run(step)
    reference = weakref.ref(variable)
    gc.disable()
    try:
        del variable, step
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("given", [[1.0, 2.0], (1.0, 2.0)], ids=["list", "tuple"])
def test_a_list_for_an_array_becomes_one(strategy, given):
    spec = mirrax.TensorSpec([None])
    double = mirrax.function(lambda x: x * 2, input_signature=[spec])
    assert double(given).tolist() == [2, 4]
    assert double(x=given).tolist() == [2, 4]
    assert strategy.run(double, args=(given,)).tolist() == [2, 4]


def test_a_list_in_a_nested_argument_becomes_an_array():
    spec = mirrax.TensorSpec([2])
    last = mirrax.function(
        lambda tree: tree["x"][0].shape, input_signature=[{"x": [spec]}]
    )
    assert last({"x": [[1.0, 2.0]]}) == (2,)


@pytest.mark.parametrize("signature", [3, [3], "float32", [float]], ids=repr)
def test_a_signature_of_something_else_is_refused(signature):
    with pytest.raises(TypeError, match="is a list with a description for each"):
        mirrax.function(lambda x: x, input_signature=signature)


def test_a_program_between_calls_of_other_kinds_is_kept(monkeypatch):
    monkeypatch.setattr(programs_module, "MAX_PROGRAMS", 3)
    same = mirrax.function(lambda x: x)
    array = jnp.ones(1)
    for size in range(2, 6):
        same({"key": jnp.ones(size)})
        same(array)
    same(jnp.ones(9))
    count = same.trace_count
    same(array)
    assert same.trace_count == count


def test_pickled_function_leaves_its_programs_behind(two_replicas):
    double = mirrax.function(lambda x: 2 * x, donate_argnums=0)
    two_replicas.run(double, args=(jnp.ones(3),))
    loaded = cloudpickle.loads(cloudpickle.dumps(double))
    assert (loaded.trace_count, float(loaded(1.0)), loaded.trace_count) == (0, 2.0, 1)


def test_repr_says_the_name_and_how_often_it_was_traced():
    @mirrax.function
    def double(x):
        return 2 * x

    double(1.0)
    assert repr(double) == "<mirrax.function double, trace_count=1>"
