"""Workers that take their data in step, however much each of them has."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.devices.peers import NoPeers
from mirrax.devices.topology import Topology
from mirrax.input.prefetched_steps import Step
from mirrax.input.synchronized_steps import StepSynchronizer, empty_parts
from mirrax.values.layouts import Parts
from mirrax.values.per_replica import PerReplica
from mirrax.values.tensor_spec import TensorSpec
from tests.peers import FakeJob, meet


def batch(*sizes, dtype=np.float32):
    """Returns a batch of which each replica has so many rows."""
    topology = Topology(tuple(jax.devices("cpu")[: len(sizes)]))
    return PerReplica(Parts(tuple(np.ones(n, dtype) for n in sizes), topology))


def no_rows():
    return batch(0)


def steps_of(*batches):
    """Returns a worker that takes these batches, and then what comes."""

    def work(job):
        synchronizer = StepSynchronizer(job, no_rows)
        own = itertools.chain(map(Step, batches), itertools.repeat(None))
        return list(iter(lambda: synchronizer(next(own)), None))

    return work


def sizes_in(steps):
    """Returns the rows of this worker, and those of all, at each step."""
    return [
        (
            [len(part) for part in batch.values],
            [shape[0] for shape, _ in batch.layout.shapes],
        )
        for batch, _ in steps
    ]


# Who ends, and when.


def test_who_has_no_more_gets_empty_batches_until_all_are_done():
    short, long = meet(steps_of(batch(4)), steps_of(batch(3), batch(2), batch(1)))
    assert sizes_in(short) == [([4], [4, 3]), ([0], [0, 2]), ([0], [0, 1])]
    assert sizes_in(long) == [([3], [4, 3]), ([2], [0, 2]), ([1], [0, 1])]


def test_workers_without_data_end_at_once():
    assert meet(steps_of(), steps_of(), steps_of()) == [[], [], []]


def test_worker_without_any_data_takes_part():
    found = meet(steps_of(), steps_of(batch(2)), steps_of())
    assert [sizes_in(steps) for steps in found] == [
        [([0], [0, 2, 0])],
        [([2], [0, 2, 0])],
        [([0], [0, 2, 0])],
    ]


def test_who_is_alone_goes_on_to_the_end():
    synchronizer = StepSynchronizer(
        NoPeers(), lambda: pytest.fail("Nothing must be made.")
    )
    assert sizes_in([synchronizer(Step(batch(2, 1)))]) == [([2, 1], [2, 1])]
    assert synchronizer(None) is None


def test_workers_tell_each_other_once_a_step():
    job = FakeJob()
    StepSynchronizer(job, no_rows)(Step(batch(2)))
    assert job.topics == ["the next step of a dataset"]


# What is known of the parts afterwards.


def kinds_after(element):
    """Returns the kinds of all leaves, where another worker has the same."""
    job = FakeJob()
    after, _ = StepSynchronizer(job, no_rows)(Step(element))
    return jax.tree.map(
        lambda leaf: leaf.layout.shapes,
        after,
        is_leaf=lambda leaf: isinstance(leaf, PerReplica),
    )


def test_parts_stay_as_they_are():
    element = batch(2, 1)
    held = element.layout.parts
    after, _ = StepSynchronizer(FakeJob(), no_rows)(Step(element))
    assert after is element
    assert after.layout.parts is held
    assert after.layout.topology.num_replicas == 2


def test_shapes_and_dtypes_come_in_the_order_of_workers_and_replicas():
    expected = (((2,), "int8"), ((1,), "int8"), ((2,), "int8"), ((1,), "int8"))
    assert kinds_after(batch(2, 1, dtype=np.int8)) == expected


def test_nested_elements_are_known_leaf_by_leaf():
    element = {"a": batch(2), "b": (None, [batch(3, dtype=np.int32)])}
    kinds = kinds_after(element)
    assert kinds["a"] == (((2,), "float32"),) * 2
    assert kinds["b"] == (None, [(((3,), "int32"),) * 2])


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (jnp.ones((2, 3), jnp.bfloat16), ((2, 3), "bfloat16")),
        (np.array([b"a", b"b"], object), ((2,), "object")),
        (b"text", ((), "object")),
    ],
    ids=["array", "texts", "text"],
)
def test_parts_may_be_arrays_and_texts(part, kind):
    assert kinds_after(PerReplica((part,))) == (kind, kind)


def test_empty_parts_have_no_rows_and_the_right_shape():
    spec = {"x": TensorSpec((None, 3), np.float32), "y": TensorSpec((8,), np.int32)}
    parts = empty_parts(spec, 2)
    assert [part["x"].shape for part in parts] == [(0, 3)] * 2
    assert parts[0]["y"].dtype == np.int32


def test_empty_parts_need_a_shape():
    with pytest.raises(ValueError, match="known rank"):
        empty_parts(TensorSpec(None, np.float32), 2)
