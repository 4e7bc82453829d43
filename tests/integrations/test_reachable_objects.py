"""Which objects a function reaches without being given them."""

import functools

import jax
import pytest

import mirrax
from mirrax.integrations.reachable_objects import find_objects


class Model:
    """What is looked for."""

    def __call__(self, x=0):
        return x


class Optimizer:
    """Another kind of what is looked for."""


def find(fn):
    return find_objects(fn, (Model, Optimizer))


MODEL = Model()


def of_module(x):
    return MODEL(x)


def calls_of_module(x):
    return of_module(x) + 1


# Where it looks.


def test_function_that_names_nothing_reaches_nothing():
    assert find(lambda x: x) == []


def test_closure_is_searched():
    model, optimizer = Model(), Optimizer()

    def step(x):
        return model(x), optimizer

    assert find(step) == [model, optimizer]


def test_globals_are_searched():
    assert find(of_module) == [MODEL]


def test_defaults_are_searched():
    first, second = Model(), Model()

    def step(x, model=first, *, other=second):
        return model(x) + other(x)

    assert find(step) == [first, second]


def test_functions_that_are_called_by_name_are_searched():
    assert find(calls_of_module) == [MODEL]


def test_functions_inside_are_searched():
    def step(x):
        def loss():
            return [MODEL(y) for y in x]

        return loss()

    assert find(step) == [MODEL]


def test_partial_and_its_arguments_are_searched():
    first, second = Model(), Optimizer()

    def step(model, x, optimizer):
        return MODEL(x)

    found = find(functools.partial(step, first, optimizer=second))
    assert set(found) == {MODEL, first, second}


def test_object_whose_method_it_is_is_searched():
    class Trainer:
        def __init__(self):
            self.model = Model()
            self.rate = 0.1

        def step(self, x):
            return self.model(x) + MODEL(x)

    trainer = Trainer()
    assert set(find(trainer.step)) == {trainer.model, MODEL}


def test_object_without_attributes_whose_method_it_is_is_searched():
    class Trainer:
        __slots__ = ()

        def step(self, x):
            return MODEL(x)

    assert find(Trainer().step) == [MODEL]


def test_method_of_what_is_looked_for_reaches_it():
    model = Model()
    assert find(model.__call__) == [model]


def test_what_is_looked_for_reaches_itself():
    model = Model()
    assert find(model) == [model]


@pytest.mark.parametrize(
    "wrap",
    [jax.jit, mirrax.function, functools.lru_cache],
    ids=["jit", "function", "cache"],
)
def test_function_that_is_wrapped_is_searched(wrap):
    model = Model()
    assert find(wrap(lambda x: model(x) + 1)) == [model]


@pytest.mark.parametrize("value", [None, 1, "text", print, len, Model], ids=repr)
def test_what_names_nothing_reaches_nothing(value):
    assert find(value) == []


class Holder:
    """An object of the user's."""

    def __init__(self, held):
        self.held = held

    def step(self, x):
        return self.held


class Step(Holder):
    """One that can be called."""

    def __call__(self, x):
        return self.held


@pytest.mark.parametrize(
    "put",
    [
        lambda model: {"model": model},
        lambda model: [1, (2, model)],
        lambda model: {model},
        Holder,
        lambda model: Holder(Holder(model)),
        lambda model: Holder([model]),
        lambda model: Holder({"models": [model]}),
        Step,
        lambda model: Holder(model).step,
    ],
    ids=range(9),
)
def test_what_holds_it_is_searched(put):
    model = Model()
    held = put(model)
    assert find(lambda x: held) == [model]


def test_what_an_object_that_is_called_names_is_searched():
    class Trainer:
        def __call__(self, x):
            return MODEL(x)

    assert find(Trainer()) == [MODEL]


def test_data_are_not_searched():
    model = Model()
    rows, table = [0] * 2000 + [model], dict.fromkeys(range(2000), model)
    assert find(lambda x: (rows, table)) == []


def test_what_holds_itself_is_searched_once():
    model = Model()
    holder = Holder([model])
    holder.held.append(holder)
    assert find(lambda x: holder) == [model]


# What it gives.


def test_object_that_is_named_twice_comes_once():
    model = Model()

    def first(x):
        return model(x)

    def second(x):
        return first(x) + model(x)

    assert find(second) == [model]


def test_equal_objects_are_different_ones():
    class Replicated(Model):
        def __eq__(self, other):
            return True

        __hash__ = None

    first, second = Replicated(), Replicated()
    found = find(lambda x: first(x) + second(x))
    assert [id(model) for model in found] == [id(first), id(second)]


def test_only_the_kinds_that_are_asked_for_come():
    model, optimizer = Model(), Optimizer()
    assert find_objects(lambda: (model, optimizer), (Optimizer,)) == [optimizer]
    assert find_objects(lambda: (model, optimizer), ()) == []


def test_objects_are_not_compared_with_anything():
    class Touchy:
        def __eq__(self, other):
            raise AssertionError("It was compared.")

        __hash__ = None

    touchy, model = Touchy(), Model()
    assert find(lambda x: (touchy, model)) == [model]


# Where it ends.


def test_functions_that_call_each_other_are_searched_once():
    def even(x):
        return x == 0 or odd(x - 1)

    def odd(x):
        return x != 0 and even(x - 1) and MODEL

    assert find(even) == [MODEL]


def test_variable_that_has_no_value_yet_is_passed_over():
    def outer():
        def step(x):
            return later(x) + MODEL(x)

        found = find(step)
        later = MODEL
        return found, later

    assert outer()[0] == [MODEL]


def test_global_that_does_not_exist_is_passed_over():
    def step(x):
        return no_such_name + MODEL(x)  # noqa: F821

    assert find(step) == [MODEL]


def nested(depth, model):
    """Returns a function that reaches `model` through so many others."""

    def step(x):
        return inner(x)

    inner = model if depth == 0 else nested(depth - 1, model)
    return step


@pytest.mark.parametrize("depth", range(7))
def test_search_goes_some_calls_deep(depth):
    model = Model()
    assert find(nested(depth, model)) == [model]


def test_the_search_through_much_data_ends():
    model = Model()
    holder = Holder([[float(i) for i in range(100)] for _ in range(1000)])
    tables = [[[] for _ in range(900)] for _ in range(50)]
    assert find(lambda x: (model, holder, tables)) == [model]


def test_what_is_near_is_found_however_else_it_is_reached():
    holder = Holder([MODEL])
    far = holder
    for _ in range(6):
        far = [far]
    assert find(lambda x: (far, holder)) == [MODEL]


class Anything:
    """Answers for every attribute."""

    def __getattr__(self, name):
        return self

    def __call__(self):
        return None


class Nothing:
    """Raises for each."""

    def __getattr__(self, name):
        raise KeyError(name)

    def __call__(self):
        return None


@pytest.mark.parametrize("kind", [Anything, Nothing], ids=["anything", "nothing"])
def test_objects_that_answer_strangely_are_passed_over(kind):
    model, strange = Model(), kind()
    assert find(lambda x: (strange, model)) == [model]
