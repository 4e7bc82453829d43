"""What the error of a call says about the variables that it has cost."""

import jax.numpy as jnp

import mirrax
from mirrax.run.compiled.program import explain


def explained(*changed):
    error = ValueError("mine")
    explain(error, changed)
    return getattr(error, "__notes__", [])


def test_an_error_that_cost_nothing_says_nothing():
    assert explained() == []
    assert explained(mirrax.Variable(1.0), mirrax.Variable(jnp.ones(2))) == []


def test_lost_variables_are_named_and_no_others(two_replicas):
    with two_replicas.scope():
        mirrored = mirrax.Variable(jnp.ones(2), name="mirrored")
    kept, lost = mirrax.Variable(1.0, name="kept"), mirrax.Variable(2.0, name="lost")
    mirrored.stored.delete()
    lost.stored.delete()
    (note,) = explained(mirrored, kept, lost)
    assert "the values of 'mirrored:0', 'lost:0' are lost" in note
    assert "Restore a checkpoint, or `assign` new values" in note


def test_a_variable_is_found_again_once_it_is_assigned():
    variable = mirrax.Variable(1.0)
    variable.stored.delete()
    variable.assign(2.0)
    assert explained(variable) == []
