"""The libraries whose variables take part: who is asked, when, and for what."""

import contextlib
import sys
import types

import pytest

import mirrax
from mirrax import trees
from mirrax.context import stack
from mirrax.variables import foreign_libraries
from mirrax.variables.foreign_libraries import Library, SavedArray, Sources


@pytest.fixture(autouse=True)
def no_libraries(monkeypatch):
    """A process that knows no library, whatever was imported before."""
    monkeypatch.setattr(foreign_libraries, "_registered", {})
    monkeypatch.setattr(foreign_libraries, "_connected", [])
    monkeypatch.setattr(trees, "_leaf_types", trees._leaf_types)
    monkeypatch.setattr(trees, "_is_leaf", trees._is_leaf)


@pytest.fixture
def imported(monkeypatch):
    """Makes libraries known, as if the user had just imported them in this order."""

    def imported(*added):
        for library in added:
            name = f"library_{id(library)}"
            foreign_libraries.register_library(name, lambda library=library: library)
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        return added

    return imported


@pytest.fixture
def connect(imported):
    """Connects libraries, in this order."""

    def connect(*added):
        imported(*added)
        assert foreign_libraries.connected() == list(added)
        return added

    return connect


class Thing(list):
    """An object of a library, with variables in it."""


class Other(list):
    """An object of another library."""


class Smallest(Library):
    """A library that has only what it must have."""

    leaf_types = ()

    def routed(self):
        return contextlib.nullcontext()

    def sources(self, value):
        return None


class Noting(Library):
    """A library of one kind of objects, that notes what it is asked."""

    def __init__(self, kind=Thing, noted=None):
        self.kind = kind
        self.noted = [] if noted is None else noted

    @property
    def leaf_types(self):
        return (self.kind,)

    @contextlib.contextmanager
    def routed(self):
        self.noted.append(f"enter {self.kind.__name__}")
        try:
            yield
        finally:
            self.noted.append(f"leave {self.kind.__name__}")

    def sources(self, value):
        return Sources(list(value), tuple) if type(value) is self.kind else None

    def refusal(self, value):
        return f"No {value!r} here." if type(value) is self.kind else None

    def saved_arrays_of(self, value):
        kept = {self.kind.__name__: SavedArray(lambda: 1, print)}
        return kept if type(value) is self.kind else None

    def when_complete(self, value, then):
        self.noted.append((value, then()))


# Connecting.


def test_nothing_is_connected_before_it_is_imported():
    foreign_libraries.register_library(
        "no_such_library", lambda: pytest.fail("It was loaded.")
    )
    assert foreign_libraries.connected() == []


def test_library_is_connected_once_it_is_imported(monkeypatch):
    library, loaded = Noting(), []
    foreign_libraries.register_library("a_library", lambda: loaded.append(1) or library)
    monkeypatch.setitem(sys.modules, "a_library", types.ModuleType("a_library"))
    assert foreign_libraries.connected() == [library]
    assert foreign_libraries.connected() == [library]
    assert loaded == [1]


def test_libraries_are_connected_together(monkeypatch):
    first, second = Noting(), Noting(Other)
    foreign_libraries.register_library("first_library", lambda: first)
    foreign_libraries.register_library(
        "absent_library", lambda: pytest.fail("It was loaded.")
    )
    foreign_libraries.register_library("second_library", lambda: second)
    for name in ("first_library", "second_library"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert foreign_libraries.connected() == [first, second]


def test_objects_of_a_connected_library_are_leaves(connect):
    pair = types.SimpleNamespace
    assert not trees.is_leaf(pair())
    connect(Noting(pair))
    assert trees.is_leaf(pair())


def test_library_must_say_how_its_variables_take_part():
    with pytest.raises(TypeError, match="abstract method"):
        Library()


# Routing.


def test_nothing_is_routed_without_libraries():
    with foreign_libraries.routed() as nothing:
        assert nothing is None


def test_all_libraries_are_routed_for_the_block(connect):
    noted = []
    connect(Noting(Thing, noted), Noting(Other, noted))
    with foreign_libraries.routed():
        noted.append("inside")
    assert noted == [
        "enter Thing",
        "enter Other",
        "inside",
        "leave Other",
        "leave Thing",
    ]


def test_library_imported_in_between_is_routed_the_next_time(imported):
    with foreign_libraries.routed():
        (library,) = imported(Noting())
    assert library.noted == []
    with foreign_libraries.routed():
        assert library.noted == ["enter Thing"]


def test_error_ends_the_routing_and_gets_out(connect):
    (library,) = connect(Noting())
    with pytest.raises(KeyError, match="reason"), foreign_libraries.routed():
        raise KeyError("reason")
    assert library.noted == ["enter Thing", "leave Thing"]


# Taking part.


def replica_of(num_replicas):
    topology = types.SimpleNamespace(is_single=num_replicas == 1)
    return stack.Replica(types.SimpleNamespace(topology=topology), "context", 0)


def test_nothing_takes_part_outside():
    assert not foreign_libraries.is_routed()
    with stack.entered(stack.CrossReplica("strategy")):
        assert not foreign_libraries.is_routed()


def test_variables_take_part_in_a_trace():
    with stack.overlaid("overlay"):
        assert foreign_libraries.is_routed()


@pytest.mark.parametrize(("num_replicas", "expected"), [(1, False), (2, True)])
def test_variables_take_part_in_replicas_if_there_are_several(num_replicas, expected):
    with stack.entered(replica_of(num_replicas)):
        assert foreign_libraries.is_routed() is expected


# Arguments.


def test_refused_argument_is_found_wherever_it_is(connect):
    thing = types.SimpleNamespace()
    arguments = (None, {"a": [1, {"b": (thing,)}]})
    foreign_libraries.check_arguments(arguments)
    connect(Noting(Other), Noting(types.SimpleNamespace))
    with pytest.raises(TypeError, match=r"No namespace\(\) here."):
        foreign_libraries.check_arguments(arguments)


def test_arguments_that_no_library_refuses_are_accepted(connect):
    connect(Smallest(), Noting())
    foreign_libraries.check_arguments(([1, None, "x", {"a": 2.0}], {}))


# Fingerprints.


def test_program_depends_on_what_each_library_says(connect):
    def library(name):
        made = Smallest()
        made.fingerprint = lambda fn, leaves: (name, fn, len(leaves))
        return made

    connect(library("a"), Smallest(), library("b"))
    expected = ((0, ("a", print, 2)), (2, ("b", print, 2)))
    assert foreign_libraries.fingerprint(print, [1, 2]) == expected


# Gradients.


def test_variable_is_a_source_by_itself():
    variable = mirrax.Variable(1.0)
    sources = foreign_libraries.sources_of(variable)
    assert len(sources.variables) == 1
    assert sources.variables[0] is variable
    assert sources.assemble(["gradient"]) == "gradient"


def test_object_of_a_library_is_the_source_that_it_says(connect):
    connect(Smallest(), Noting(Other), Noting(Thing))
    sources = foreign_libraries.sources_of(Thing([1, 2]))
    assert sources.variables == [1, 2]
    assert sources.assemble(["a", "b"]) == ("a", "b")


@pytest.mark.parametrize("value", [None, 1.0, "x", Thing()], ids=repr)
def test_other_values_are_no_sources(connect, value):
    connect(Smallest(), Noting(Other))
    assert foreign_libraries.sources_of(value) is None


def test_sources_in_a_structure_are_its_leaves(connect):
    connect(Noting())
    thing, variable = Thing([1, 2]), mirrax.Variable(1.0)
    leaves, structure = foreign_libraries.flatten_sources(
        {"a": [thing, None], "b": variable}
    )
    assert leaves[0] is thing
    assert leaves[1] is variable
    assert structure.unflatten([1, 2]) == {"a": [1, None], "b": 2}


def test_source_is_a_leaf_though_it_is_a_structure_for_jax(connect):
    """As a state of Flax."""

    class Pairs(Noting):
        leaf_types = ()

        def sources(self, value):
            return Sources(value, tuple) if isinstance(value, tuple) else None

    connect(Pairs())
    assert foreign_libraries.flatten_sources([(1, 2), [(3,)]])[0] == [(1, 2), (3,)]


def test_distributed_value_in_a_structure_is_one_leaf():
    value = mirrax.PerReplica((1.0, 2.0))
    leaves, _ = foreign_libraries.flatten_sources([value])
    assert len(leaves) == 1
    assert leaves[0] is value


@pytest.mark.parametrize(
    "ask",
    [
        lambda thing: foreign_libraries.sources_of(thing) is not None,
        lambda thing: foreign_libraries.saved_arrays_of(thing) is not None,
        lambda thing: foreign_libraries.flatten_sources([thing])[0] == [thing],
    ],
    ids=["sources", "kept", "flatten"],
)
def test_who_asks_about_an_object_connects_its_library(imported, ask):
    imported(Noting())
    assert ask(Thing([1]))


def test_gradients_are_dealt_out_to_their_sources():
    sources = [Sources([1, 2], tuple), Sources([], tuple), Sources([3], list)]
    assert foreign_libraries.assemble(sources, ["a", "b", "c"]) == [
        ("a", "b"),
        (),
        ["c"],
    ]


def test_gradients_of_nothing_are_none():
    assert foreign_libraries.assemble([], []) == []


# Checkpoints.


def test_what_is_kept_of_an_object_is_what_its_library_says(connect):
    connect(Smallest(), Noting(Other), Noting(Thing))
    assert list(foreign_libraries.saved_arrays_of(Thing())) == ["Thing"]
    assert list(foreign_libraries.saved_arrays_of(Other())) == ["Other"]
    assert foreign_libraries.saved_arrays_of([1]) is None


def test_every_library_may_wait_until_an_object_is_complete(connect):
    _, first, second = connect(Smallest(), Noting(Thing), Noting(Other))
    foreign_libraries.when_complete("model", lambda: True)
    assert first.noted == second.noted == [("model", True)]
