"""Functions given to `run` by a function that cannot be traced."""

import collections
import functools
import types

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run import function_identity

NUMBER = 1.0
DATASET = mirrax.data.Dataset.from_tensor_slices(np.zeros(1, np.float32))


class Adder:
    """Adds what it has; every way of reaching it is tested."""

    of_class = 1.0

    def __init__(self):
        self.number = 1.0
        self.array = np.ones((), np.float32)
        self.history = []

    @property
    def hidden(self):
        return self.number

    def add_number(self, x):
        return x + self.number

    def add_array(self, x):
        return x + self.array

    def add_hidden(self, x):
        return x + self.hidden

    def add_by_name(self, x):
        return x + getattr(self, "num" + "ber")

    def add_of_class(self, x):
        return x + self.of_class

    def __call__(self, x):
        return x + self.number

    def __getitem__(self, _):
        return self.number


class SlottedAdder:
    __slots__ = ("number",)

    def add(self, x):
        return x + self.number


def add_global(x):
    return x + NUMBER


def changes():
    """Yields a name, what changes something, and what gives the function to run."""
    adder = Adder()
    array, numbers, named = np.ones((), np.float32), [1.0], {"key": {"inner": 1.0}}
    many = np.array([1.0, None], object)
    queue = collections.deque([1.0])
    space = types.SimpleNamespace(number=1.0)
    slotted = SlottedAdder()
    compiled = mirrax.function(lambda x: x + numbers[0])

    def fill(value):
        array[...] = value

    def set_first(value):
        numbers[0] = value

    def set_global(value):
        globals()["NUMBER"] = value

    def set_default(value):
        by_default.__defaults__ = (value,)

    def set_keyword(value):
        by_keyword.__kwdefaults__["number"] = value

    def by_default(x, number=1.0):
        return x + number

    def by_keyword(x, *, number=1.0):
        return x + number

    def array_by_default(x, *, held=array):
        return x + held

    def helper(x):
        return x + array

    set_number = functools.partial(setattr, adder, "number")
    yield "attribute", set_number, lambda: adder.add_number
    yield "array_in_attribute", adder.array.fill, lambda: adder.add_array
    yield "property", set_number, lambda: adder.add_hidden
    yield "getattr", set_number, lambda: adder.add_by_name
    yield "class", lambda v: setattr(Adder, "of_class", v), lambda: adder.add_of_class
    yield "callable_object", set_number, lambda: adder
    yield "operator", set_number, lambda: lambda x: x + adder[0]
    yield "slot", lambda v: setattr(slotted, "number", v), lambda: slotted.add
    yield "partial", set_number, lambda: functools.partial(Adder.add_number, adder)
    yield "partial_array", fill, lambda: functools.partial(jnp.add, np.array(array))
    yield "cell", fill, lambda: lambda x: x + array
    yield "nested", fill, lambda: lambda x: 1 * helper(x)
    yield "default", set_default, lambda: by_default
    yield "keyword", set_keyword, lambda: by_keyword
    yield "array_by_default", fill, lambda: array_by_default
    yield "global", set_global, lambda: add_global
    yield "list", set_first, lambda: lambda x: x + numbers[0]
    yield "function", set_first, lambda: lambda x: 1 * compiled(x)
    yield (
        "dict",
        lambda v: named["key"].update(inner=v),
        lambda: lambda x: x + named["key"]["inner"],
    )
    yield (
        "deque",
        lambda v: queue.__setitem__(0, v),
        lambda: lambda x: x + queue[0],
    )
    yield "objects", lambda v: many.put(0, v), lambda: lambda x: x + many[0]
    yield (
        "namespace",
        lambda v: setattr(space, "number", v),
        lambda: lambda x: x + space.number,
    )


CHANGES = {name: (change, given) for name, change, given in changes()}


@pytest.mark.parametrize("name", CHANGES)
def test_change_is_seen_by_the_next_run(two_replicas, name):
    change, given = CHANGES[name]
    results = []

    @mirrax.function
    def steps():
        for _ in DATASET:
            for value in (1.0, 2.0, 3.0):
                change(value)
                result = two_replicas.run(given(), (np.float32(0),))
                results.append(float(two_replicas.reduce("MEAN", result, axis=None)))

    steps()
    steps()
    assert results == [1.0, 2.0, 3.0] * 2


def drive(strategy, give, args=lambda _: (np.float32(1),), count=3):
    """Returns what an untraced function gets from `run`, called again and again."""

    @mirrax.function
    def steps():
        results = []
        for _ in DATASET:
            for number in range(count):
                result = strategy.run(give(number), args(number))
                results.append(strategy.reduce("MEAN", result, axis=None))
        return results

    return [float(x) for x in (*steps(), *steps())]


def test_function_that_is_defined_anew_is_traced_once(two_replicas):
    traces = []

    def give(_):
        scale = 2.0

        def helper(x):
            return x * scale

        def step(x):
            traces.append(0)
            return helper(x)

        return step

    # The list is in reach, and grows only while the function is traced.
    assert drive(two_replicas, give) == [2.0] * 6
    assert len(traces) == 1


def test_attribute_that_the_code_does_not_name_is_no_new_trace(two_replicas):
    adder = Adder()
    traces = []

    def step(x):
        traces.append(0)
        return adder.add_number(x)

    def give(number):
        adder.history.append(number)
        return step

    assert drive(two_replicas, give) == [2.0] * 6
    assert len(traces) == 1


def test_variable_that_is_made_at_the_first_trace_is_no_new_trace(two_replicas):
    adder = Adder()
    adder.number = None
    traces = []

    def step(x):
        traces.append(0)
        if adder.number is None:
            adder.number = mirrax.Variable(1.0)
        return adder.number * x

    assert drive(two_replicas, lambda _: step) == [1.0] * 6
    assert len(traces) == 1


def test_counter_in_the_function_is_no_new_trace_for_known_shapes(two_replicas):
    adder = Adder()
    traces = []

    def step(x):
        traces.append(0)
        adder.number += 1
        return jnp.sum(x)

    def args(number):
        return (np.ones(1 + number % 2, np.float32),)

    assert drive(two_replicas, lambda _: step, args, 4) == [1.0, 2.0] * 4
    assert len(traces) == 2


def test_new_shape_sees_what_the_function_of_this_call_closes_over(two_replicas):
    sizes = iter([1, 1, 2, 2])

    @mirrax.function
    def steps():
        results = []
        for _ in DATASET:
            size = next(sizes), next(sizes)
            for number in (1.0, 5.0):
                x = np.ones(size[0], np.float32)
                result = two_replicas.run(lambda x: jnp.max(x * number), (x,))  # noqa: B023
                results.append(float(two_replicas.reduce("MEAN", result, axis=None)))
        return results

    assert steps() == [1.0, 5.0]
    assert steps() == [1.0, 5.0]


def test_identity_is_unknown_where_too_much_is_in_reach():
    many = list(range(20_000))
    assert function_identity.identity(lambda: many[0]) is None


def test_identity_survives_objects_that_hold_each_other():
    first, second = Adder(), Adder()
    first.number, second.number = second, first
    assert function_identity.identity(first) == function_identity.identity(first)


def test_identity_tells_equal_numbers_of_different_types_apart():
    def returning(value):
        return lambda: value

    keys = {
        function_identity.identity(returning(value))
        for value in (1, 1.0, True, 0.0, -0.0)
    }
    assert len(keys) == 5


class Setting:
    weight = 1.0


class Loss:
    def __init__(self):
        self.weight = Setting.weight


def weight_of_a_new_loss():
    return Loss().weight


def test_identity_changes_with_what_a_constructor_reads(monkeypatch):
    before = function_identity.identity(weight_of_a_new_loss)
    assert function_identity.identity(weight_of_a_new_loss) == before
    monkeypatch.setattr(Setting, "weight", 2.0)
    assert function_identity.identity(weight_of_a_new_loss) != before
