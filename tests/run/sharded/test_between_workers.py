"""Sharded state between CPU workers: which messages are sent, and the same bits."""

import hashlib
import re

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.collectives import spmd, worker_costs
from mirrax.collectives.worker_all_reduce import WorkerAllReduce
from mirrax.testing import launch_processes
from tests.programs import mirrored, replica_id

SHAPE = (8, 301)


def make_step(strategy):
    """Returns a step that divides a gradient by its norm."""
    start = np.random.default_rng(0).normal(size=SHAPE).astype("f")
    with strategy.scope():
        weight = mirrax.Variable(start)

    @mirrax.function
    def step():
        gradient = weight.value * (replica_id() + 1.3)
        gradient = mirrax.get_replica_context().all_reduce("SUM", gradient)
        norm = jnp.sqrt(jnp.sum(gradient**2))
        weight.assign_sub(gradient / norm)
        return norm

    return weight, step


def digest_of_steps(strategy):
    weight, step = make_step(strategy)
    norms = [float(strategy.run(step)) for _ in range(3)]
    return norms, hashlib.sha256(weight.numpy().tobytes()).hexdigest()


@pytest.fixture
def between_workers(monkeypatch):
    """Lets this process do what CPU workers do with values that are not small."""
    monkeypatch.setattr(spmd, "is_between_cpus", lambda: True)
    monkeypatch.setattr(worker_costs, "PACKED_BYTES", 0)


def messages(strategy):
    """Returns the collectives of the step."""
    _, step = make_step(strategy)
    strategy.run(step)
    (function,) = strategy.functions.values()
    (program,) = function.programs
    text = program.analyzed()[1].as_text()
    names = "all-to-all|all-reduce|all-gather|reduce-scatter"
    return sorted(re.findall(rf"= [^=]*\b({names})(?:-start)?\(", text))


@pytest.mark.parametrize("num_replicas", [2, 4])
@pytest.mark.parametrize("in_full", [True, False], ids=["in_full", "in_pieces"])
def test_neither_all_reduce_nor_reduce_scatter_of_gloo_is_used(
    between_workers, monkeypatch, num_replicas, in_full
):
    if not in_full:
        monkeypatch.setattr(worker_costs, "SUM_IN_FULL_BYTES", 1000)
    strategy = mirrored(num_replicas, shard_state=1, cross_device_ops=WorkerAllReduce())
    # Of the weight; of the gradient, in pieces and never gathered; of the norm.
    assert messages(strategy) == ["all-to-all"] * 3


def test_steps_have_the_bits_of_one_process(monkeypatch, request):
    expected = digest_of_steps(mirrored(4, shard_state=1))
    request.getfixturevalue("between_workers")
    strategy = mirrored(4, shard_state=1, cross_device_ops=WorkerAllReduce())
    assert digest_of_steps(strategy) == expected


def steps_on_workers():
    """Runs on the workers."""
    return digest_of_steps(mirrax.MultiWorkerMirroredStrategy(shard_state=1))


@pytest.mark.slow
def test_workers_give_the_bits_of_one_process():
    alone = launch_processes(steps_on_workers, 1, devices=4)
    assert launch_processes(steps_on_workers, 2, devices=2) == alone * 2
    assert launch_processes(steps_on_workers, 4, devices=1) == alone * 4
