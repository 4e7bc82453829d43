"""Errors of XLA about full memory say what takes it, and what helps."""

import pathlib
import re
import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.integrations.keras.step_memory import CompiledStep
from mirrax.run.compiled.program import explain
from mirrax.testing import launch_processes
from mirrax.variables import validation
from tests.programs import create, mirrored

FULL = "RESOURCE_EXHAUSTED: Out of memory allocating 8192 bytes."


def notes_of(*state):
    error = RuntimeError(FULL)
    explain(error, *state)
    (note,) = error.__notes__
    return note


def test_largest_variables_and_the_argument_are_named():
    strategy = mirrored(2)
    large = create(strategy, np.ones((32, 64), "f"), name="table")
    small = create(strategy, 1.0, name="scale")
    note = notes_of([small, large])
    assert "state takes 8.2 kB; the largest: 'table:0' 8.2 kB, 'scale:0' 4 B" in note
    assert "shard_state=True" in note


def test_sharded_state_is_not_to_be_sharded():
    variable = create(mirrored(2, shard_state=1), np.ones((32, 64), "f"))
    assert "shard_state" not in notes_of([variable])


def test_donated_state_is_named():
    state = jax.device_put(jnp.ones((32, 64)), mirrored(2).topology.replicated)
    note = notes_of([], [state])
    assert "an argument of shape (32, 64) 8.2 kB. `strategy.shard(state)`" in note


def test_without_state_less_temporary_memory_helps():
    assert notes_of([]).startswith("[mirrax] A smaller batch")


def test_steps_of_keras_say_so():
    def fail(state, data):
        raise jax.errors.JaxRuntimeError(FULL)

    state = jax.device_put(jnp.ones((32, 64)), mirrored(2).topology.replicated)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        CompiledStep(fail, "model.train_step")([state], None)
    assert "shard_state=True" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("options", "gets_advice"),
    [({}, True), ({"shard_state": True}, False)],
    ids=["mirrored", "sharded"],
)
def test_advice_when_the_first_copy_has_no_room(monkeypatch, options, gets_advice):
    def fail(*_):
        raise jax.errors.JaxRuntimeError(FULL)

    monkeypatch.setattr(validation, "new_array", fail)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        create(mirrored(2, **options), np.ones(4))
    notes = getattr(caught.value, "__notes__", [])
    assert any("shard_state=True" in note for note in notes) == gets_advice


def limit_memory(num_bytes):
    """Lets this process take at most so many bytes more than it has."""
    status = pathlib.Path("/proc/self/status").read_text()
    in_use = 1024 * int(re.search(r"VmData:\s+(\d+)", status)[1])
    resource.setrlimit(resource.RLIMIT_DATA, (in_use + num_bytes,) * 2)


def fill_memory():
    """Returns the notes of errors when a variable is created, and when one is read."""
    strategy = mirrored(2)
    weight = create(strategy, np.ones((512, 512), "f"), name="weight")
    table = np.ones((16, 2**20), "f")

    @mirrax.function
    def step():
        many = jnp.cumsum(jnp.tile(weight.value.ravel(), 400))
        weight.assign(weight * many[-1])

    strategy.run(mirrax.function(lambda: weight.assign_add(jnp.ones((512, 512)))))
    weight.numpy()
    limit_memory(100_000_000)
    found = []
    for operation in (
        lambda: create(strategy, table, name="table"),
        lambda: (strategy.run(step), weight.numpy()),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match="Out of memory") as caught:
            operation()
        found.append(caught.value.__notes__)
    return found


@pytest.mark.slow
def test_creation_and_reads_in_full_memory_give_advice():
    ((creation, read),) = launch_processes(fill_memory, 1, devices=2)
    assert "'table:0' 67.1 MB" in creation[0]
    assert "shard_state=True" in creation[0]
    assert "'weight:0' 1.0 MB" in read[0]
    assert "values of 'weight:0' are lost" in read[1]
