"""From the arguments of a call to the program for calls of that kind."""

import jax.numpy as jnp
import pytest

import mirrax
from mirrax import trees
from mirrax.run.arguments import slots_of
from mirrax.run.building import Builder, Given, OnlyPython
from mirrax.run.donation import Donation
from mirrax.run.signatures import Signature


def given(*args, **kwargs):
    leaves, structure = trees.flatten((args, kwargs))
    return Given(leaves, structure, slots_of(leaves, False, None))


def builder(fn, python_decisions=False):
    traces = []
    signature, donation = Signature("mine", fn, None), Donation("mine", ())
    built = Builder(
        "mine",
        lambda: fn,
        signature,
        donation,
        python_decisions,
        False,
        lambda: traces.append(1),
    )
    return built, traces


def test_arrays_and_numbers_are_inputs_and_other_objects_are_not():
    arguments = given(jnp.ones(2), "text", y=[3.0, True])
    assert [str(array) for array in arguments.arrays] == ["[1. 1.]", "3.0"]
    assert arguments.of_dynamic("abcd") == ["a", "c"]
    assert arguments.filled([10, 20]) == ((10, "text"), {"y": [20, True]})


def test_a_program_is_built_with_one_trace():
    built, traces = builder(lambda x, how: x * 2 if how == "double" else x)
    arguments = given(jnp.arange(3), "double")
    program = built.build("key", arguments)
    assert program(arguments.arrays).tolist() == [0, 2, 4]
    assert len(traces) == 1


def test_what_only_python_can_do_is_said():
    def decide(x):
        return x if x > 0 else -x

    assert builder(decide, True)[0].build("key", given(1.0)) is OnlyPython.DECIDING
    with pytest.raises(TypeError, match="boolean"):
        builder(decide)[0].build("key", given(1.0))

    def iterate(x):
        return [x + element for element in mirrax.data.Dataset.range(2)]

    assert builder(iterate)[0].build("key", given(1)) is OnlyPython.ITERATING
