"""Which feed a worker gets, where its values go, and how workers shuffle alike."""

import json
import threading

import jax
import numpy as np
import pytest

from mirrax.data import AutoShardPolicy, Dataset
from mirrax.devices.peers import NoPeers
from mirrax.input.distribute import with_common_seeds
from mirrax.input.input_context import InputOptions
from tests.data.plans import values
from tests.input.several import with_policy
from tests.peers import FakeJob

ON_HOST = InputOptions(experimental_fetch_to_device=False)


def others_with(seeds):
    """Returns a job whose first worker has these seeds."""
    return FakeJob(lambda topic, payload: [json.dumps(seeds).encode(), payload])


def test_values_stay_on_the_host_if_asked_to(strategy):
    dataset = Dataset.from_tensor_slices({"x": np.arange(8)}).batch(4)
    for data in (dataset, dataset.map(lambda element: element)):
        for element in strategy.experimental_distribute_dataset(data, ON_HOST):
            parts = strategy.experimental_local_results(element["x"])
            assert {type(part) for part in parts} == {np.ndarray}


def test_values_go_to_devices_without_being_asked(strategy):
    element = next(
        iter(strategy.experimental_distribute_dataset(Dataset.range(8).batch(4)))
    )
    parts = strategy.experimental_local_results(element)
    assert all(isinstance(part, jax.Array) for part in parts)


def test_values_of_input_functions_stay_on_the_host_if_asked_to(two_replicas):
    distributed = two_replicas.distribute_datasets_from_function(
        lambda context: Dataset.range(8).batch(4), ON_HOST
    )
    assert {type(part) for part in next(iter(distributed)).values} == {np.ndarray}


def test_values_on_the_host_can_be_run_with(two_replicas):
    dataset = Dataset.from_tensor_slices(np.ones((4, 2), np.float32)).batch(4)
    (element,) = two_replicas.experimental_distribute_dataset(dataset, ON_HOST)
    total = two_replicas.run(lambda x: x.sum(), args=(element,))
    assert float(two_replicas.reduce("SUM", total, axis=None)) == 8


@pytest.mark.parametrize(("size", "most"), [(1, 2), (4, 8)])
def test_as_many_elements_are_made_ready_as_asked_for(two_replicas, size, most):
    read, has_read = [], threading.Event()
    options = InputOptions(experimental_per_replica_buffer_size=size)

    def generate():
        for i in range(100):
            read.append(i)
            if len(read) == 1 + most + 1:
                has_read.set()
            yield np.zeros(2)

    iterator = iter(two_replicas.experimental_distribute_dataset(generate, options))
    next(iterator)
    assert has_read.wait(120)
    assert len(read) == 1 + most + 1


def test_every_worker_shuffles_as_the_first_does():
    dataset = Dataset.range(20).shuffle(20).map(lambda x: x).shuffle(5)
    first = Dataset.range(20).shuffle(20, seed=3).map(lambda x: x).shuffle(5, seed=4)
    assert values(with_common_seeds(dataset, others_with([3, 4]))) == values(first)


def test_workers_that_read_everything_keep_their_own_order():
    dataset = with_policy(Dataset.range(20).shuffle(20), AutoShardPolicy.OFF)
    assert with_common_seeds(dataset, others_with([3])) is dataset


def test_who_is_alone_keeps_the_seeds():
    dataset = Dataset.range(20).shuffle(20)
    assert with_common_seeds(dataset, NoPeers()) is dataset
