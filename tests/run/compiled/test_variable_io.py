"""The variables of one program: how their arrays get in, and the new ones out."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.run.compiled.tracing import trace
from mirrax.run.compiled.variable_io import VariableIO
from mirrax.values.layouts import replicate
from mirrax.variables import aliasing
from mirrax.variables.foreign_variable import Outdated
from tests.programs import create
from tests.variables.library import Box


@pytest.fixture(autouse=True)
def locked():
    """Whoever uses variable_io holds the lock."""
    with aliasing.lock:
        yield


def variable_io(fn, topology=None, may_overwrite=True):
    """Returns the variables of a function that returns a list of arrays."""
    traced = trace(lambda: (fn() or [], None), [], inside_replica=False)
    return VariableIO(traced, topology, may_overwrite)


def add_one(*variables):
    def fn():
        for variable in variables:
            variable.assign_add(jnp.ones(variable.shape))

    return fn


def names(variables):
    return [variable.name for variable in variables]


@pytest.fixture
def three():
    return [mirrax.Variable(float(n), name="abc"[n]) for n in range(3)]


def mixed(three):
    """Returns a function that sets the third and changes the first by the second."""
    changed, read, written = three

    def fn():
        written.assign(7.0)
        changed.assign_add(read.value)

    return fn


# Which variables there are.


def test_variables_are_changed_read_or_written(three):
    held = variable_io(mixed(three))
    assert names(held.changed) == ["c:0", "a:0"]
    assert names(held.read_only) == ["b:0"]
    assert names(held.written) == ["c:0", "a:0"]


def test_a_program_that_may_not_overwrite_changes_nothing_in_place(three):
    held = variable_io(mixed(three), may_overwrite=False)
    assert held.changed == []
    assert names(held.read_only) == ["c:0", "b:0", "a:0"]
    assert names(held.written) == ["c:0", "a:0"]


def test_a_program_without_variables_holds_none():
    held = variable_io(lambda: [jnp.ones(2)])
    assert held.arrays() == ([], [])
    assert held.store([1, 2], num_rest=2) == [1, 2]
    assert (held.has_foreign, held.are_simple) == (False, False)


def test_variables_that_are_only_changed_are_simple(three):
    first, second, third = three
    assert variable_io(add_one(first)).are_simple
    assert variable_io(add_one(first, second)).are_simple
    assert variable_io(mixed(three)).are_simple
    assert not variable_io(mixed(three), may_overwrite=False).are_simple
    assert not variable_io(lambda: [third.value * 2]).are_simple

    def hand_through():
        before = first.value
        first.assign(before + 1)
        return [before]

    assert not variable_io(hand_through).are_simple


# Arrays in and out.


def test_arrays_come_as_they_are_stored(three):
    changed, read_only = variable_io(mixed(three)).arrays()
    assert [id(array) for array in (*changed, *read_only)] == [
        id(variable.stored) for variable in (three[2], three[0], three[1])
    ]


def test_a_value_that_somebody_holds_is_copied_before_it_is_overwritten(three):
    first, second, _ = three
    held = variable_io(mixed(three))
    views = first.value, second.value
    before = first.stored, second.stored
    (_, changed), (read,) = held.arrays()
    assert changed is not before[0]
    assert read is before[1]
    assert (float(changed), float(views[0]), first.is_aliased) == (0, 0, False)


def test_a_value_that_is_held_later_is_copied_too(three):
    held = variable_io(add_one(three[0]))
    held.arrays()
    before = three[0].stored
    assert held.arrays()[0] == [before]
    view = three[0].value
    (changed,), _ = held.arrays()
    assert changed is not before
    assert float(view) == 0


def test_a_variable_whose_value_is_gone_is_named(three):
    held = variable_io(add_one(three[0]))
    three[0].value.delete()
    with pytest.raises(RuntimeError, match=r"donated to an earlier call.*'a:0'"):
        held.arrays()


def test_new_arrays_are_stored_and_the_rest_is_returned(three):
    held = variable_io(mixed(three))
    held.arrays()
    new = jnp.float32(5), jnp.float32(6)
    assert held.store([*new, "result", "other"], num_rest=2) == ["result", "other"]
    assert (three[2].stored, three[0].stored) == new
    assert float(three[1].numpy()) == 1


def test_variables_that_another_program_has_moved_are_found(three):
    first, second, _ = three
    held = variable_io(add_one(first))
    held.arrays()
    variable_io(add_one(first, second)).arrays()
    assert held.arrays()[0] == [first.stored]
    variable_io(add_one(*three)).arrays()
    held.store([jnp.float32(9)], num_rest=0)
    assert [float(v.numpy()) for v in three] == [9, 1, 2]


# In one step.


def test_a_row_goes_into_the_program_and_takes_what_comes_out(three):
    first, second, third = three

    def fn():
        first.assign_add(third.value)
        second.assign_add(third.value)

    held = variable_io(fn)
    given = []

    def run(row, read_only, donated, kept):
        given.append((list(row), read_only, donated, kept))
        return [jnp.float32(8), jnp.float32(9), "result"]

    before = [first.stored, second.stored], [third.stored], ["d"], ["k"]
    assert held.exchange(run, ["d"], ["k"]) == ["result"]
    assert given == [before]
    assert {float(first.numpy()), float(second.numpy())} == {8, 9}
    by_name = dict(zip(names(held.changed), (8, 9), strict=True))
    assert float(first.numpy()) == by_name["a:0"]
    held.exchange(run, [], [])
    assert given[1][0] == [8, 9]


def test_a_program_without_results_gives_none(three):
    held = variable_io(add_one(three[0]))
    assert held.exchange(lambda row, *_: [row[0] + 5], [], []) == []
    assert held.exchange(lambda row, *_: [row[0] + 5], [], []) == []
    assert float(three[0].numpy()) == 10


def test_a_value_that_somebody_holds_stays_when_a_row_is_exchanged(three):
    held = variable_io(add_one(three[0]))
    overwrite = jax.jit(lambda row, *_: [row[0] + 5], donate_argnums=0)
    held.exchange(overwrite, [], [])
    view = three[0].value
    held.exchange(overwrite, [], [])
    assert (float(view), float(three[0].numpy())) == (5, 10)


def test_a_program_that_raises_leaves_the_row_as_it_was(three):
    held = variable_io(add_one(three[0], three[1]))

    def run(*_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        held.exchange(run, [], [])
    assert [float(v.numpy()) for v in three] == [0, 1, 2]


def test_variables_in_the_row_of_a_larger_program_are_not_exchanged(three):
    variable_io(add_one(*three)).arrays()
    held = variable_io(add_one(three[0]))
    assert held.exchange(lambda *_: [], [], []) is None
    assert held.arrays()[0] == [three[0].stored]


# What users may hold of results.


def test_arrays_that_are_handed_through_are_lent(three):
    first, second, _ = three
    held = variable_io(lambda: [first.value, second.value * 2])
    held.mark_forwarded()
    assert (first.is_aliased, second.is_aliased) == (True, False)


def test_all_arrays_can_be_lent(three):
    variable_io(mixed(three)).mark_all()
    assert [variable.is_aliased for variable in three] == [True, True, True]


# Several devices, and other libraries.


def test_a_plain_variable_stays_on_one_device(two_replicas):
    plain, mirrored = mirrax.Variable(1.0), create(two_replicas, 2.0)
    topology = two_replicas.topology
    held = variable_io(add_one(plain, mirrored), topology)
    assert held.changed == [mirrored]
    assert held.written == [mirrored, plain]
    held.arrays()
    held.store([replicate(float(n), topology) for n in (5, 6)], num_rest=0)
    assert (float(mirrored.numpy()), float(plain.numpy())) == (5, 6)
    assert mirrored.stored.sharding == topology.replicated
    assert plain.stored.devices() == {topology.devices[0]}
    assert not held.are_simple


def test_a_variable_of_another_library_is_fetched_and_handed_on():
    box = Box(1.0)
    held = variable_io(add_one(box.own))
    assert (held.has_foreign, held.are_simple) == (True, False)
    changed, (array,) = held.arrays()
    # Nobody knows who holds it, so it is not overwritten.
    assert (changed, float(array)) == ([], 1)
    assert held.store([jnp.float32(4), "rest"], num_rest=1) == ["rest"]
    assert float(box.held) == 4


def test_a_variable_of_another_library_that_has_changed_its_shape_is_outdated():
    box = Box(jnp.ones(2))
    held = variable_io(add_one(box.own))
    box.held = jnp.ones(3)
    with pytest.raises(Outdated):
        held.arrays()
