"""What a program knows of its variables and programs that use it do not show."""

import jax.numpy as jnp
import pytest

import mirrax
from mirrax.run.compiled.tracing import trace
from mirrax.run.compiled.variable_io import VariableIO
from mirrax.variables import aliasing


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


def test_variables_in_the_row_of_a_larger_program_are_not_exchanged(three):
    variable_io(add_one(*three)).arrays()
    held = variable_io(add_one(three[0]))
    assert held.exchange(lambda *_: [], []) is None
    assert held.arrays()[0] == [three[0].stored]


def test_arrays_that_are_handed_through_are_lent(three):
    first, second, _ = three
    held = variable_io(lambda: [first.value, second.value * 2])
    held.mark_forwarded()
    assert (first.is_aliased, second.is_aliased) == (True, False)
