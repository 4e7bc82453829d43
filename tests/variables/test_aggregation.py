"""What the writes of several replicas to one variable amount to."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.collectives.all_reduce import XlaAllReduce
from mirrax.collectives.program_order import program_log_of
from mirrax.collectives.reduce import Collective
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.options import VariableAggregation
from mirrax.trees import IdentityKey
from mirrax.values.per_replica import PerReplica
from mirrax.variables.aggregation import (
    MergeFunction,
    aggregate,
    require_equal,
)
from tests.peers import FakeJob, meet

NONE, SUM, MEAN, FIRST = VariableAggregation
aggregations = pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)


@pytest.fixture(autouse=True)
def new_trails():
    """The jobs of tests know nothing of the programs of others."""
    program_log_of.cache_clear()
    yield
    program_log_of.cache_clear()


@dataclasses.dataclass
class Written:
    """A variable that all replicas write together."""

    aggregation: VariableAggregation
    job: FakeJob | None = None
    num_replicas: int = 2
    name: str = "v:0"
    shared_name: str = "v:0"

    @property
    def collective(self):
        devices = tuple(jax.devices("cpu")[: self.num_replicas])
        return Collective(Topology(devices, job=self.job), XlaAllReduce())

    @property
    def topology(self):
        return self.collective.topology


# Values of several workers.


@aggregations
def test_workers_are_not_asked_in_a_trace(aggregation):
    job = FakeJob()
    with stack.overlaid("overlay"):
        found = aggregate(Written(aggregation, job), np.float32(2), 4)
    assert found == (8 if aggregation is SUM else 2)
    assert job.topics == []


@pytest.mark.parametrize(
    ("aggregation", "expected"), [(SUM, 3.0), (MEAN, 1.5)], ids=["sum", "mean"]
)
def test_values_of_all_replicas_of_workers_are_combined(aggregation, expected):
    job = FakeJob(num_workers=1)
    value = PerReplica((jnp.float32(1), jnp.float32(2)))
    assert float(aggregate(Written(aggregation, job), value, 2)) == expected
    assert job.guarded[0].startswith("enter reduce")


def test_one_value_of_a_worker_counts_for_each_of_its_replicas():
    job = FakeJob(num_workers=1)
    assert float(aggregate(Written(SUM, job), jnp.float32(2), 2)) == 4


def writing(aggregation, value):
    return lambda job: aggregate(Written(aggregation, job), value, 4)


def test_every_worker_gets_what_the_first_replica_of_the_first_writes():
    values = [PerReplica((1.0, 2.0)), PerReplica((3.0, 4.0))]
    found = meet(*(writing(FIRST, value) for value in values))
    assert [float(value) for value in found] == [1.0, 1.0]


def test_equal_values_of_workers_are_that_value():
    value = PerReplica((np.float32(7), np.float32(7)))
    found = meet(writing(NONE, value), writing(NONE, value))
    assert [float(value) for value in found] == [7, 7]
    assert all(isinstance(value, np.ndarray) for value in found)


def test_equal_keys_of_workers_stay_keys():
    key = jax.random.key(1)
    found = meet(writing(NONE, key), writing(NONE, key))
    assert [value.dtype for value in found] == [key.dtype] * 2


def test_unequal_values_of_workers_are_refused_on_each():
    errors = meet(writing(NONE, np.float32(1)), writing(NONE, np.float32(2)))
    assert [type(error) for error in errors] == [ValueError, ValueError]
    assert "Received: 1.0 on worker 0, and another value" in str(errors[0])
    assert "Received: 2.0 on worker 1, and another value" in str(errors[1])


def test_unequal_values_of_one_worker_are_refused_before_it_asks():
    job = FakeJob()
    with pytest.raises(ValueError, match=r"replica 0 assigns 1.0, replica 1 assigns 2"):
        aggregate(Written(NONE, job), PerReplica((1.0, 2.0)), 4)
    assert job.topics == []


# The merge function of a write.


def test_writes_are_equal_only_of_one_variable_and_one_change():
    first, second = IdentityKey(Written(SUM)), IdentityKey(Written(SUM))
    merge = MergeFunction(len, (first,), max)
    assert merge == MergeFunction(len, (IdentityKey(first.value),), max)
    assert merge != MergeFunction(len, (second,), max)
    assert merge != MergeFunction(len, (first,), min)


# Equality.


NAN = np.array([1.0, np.nan])


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        (np.float32(1), np.float32(1), True),
        (np.float32(1), np.float32(2), False),
        (np.array([1, 2]), np.array([1, 3]), False),
        (NAN, NAN.copy(), True),
        (NAN, np.array([1.0, 1.0]), False),
        (NAN, NAN[::-1], False),
        (np.zeros((0, 2)), np.zeros((0, 2)), True),
        (np.array([True]), np.array([False]), False),
        (np.array([1 + 1j, np.nan]), np.array([1 + 1j, np.nan]), True),
        (np.array(["a"]), np.array(["a"]), True),
        (np.float32(0.0), np.float32(-0.0), True),
        (NAN.astype(jnp.bfloat16), NAN.astype(jnp.bfloat16), True),
    ],
    ids=[
        "equal",
        "unequal",
        "one of many",
        "nan",
        "nan and number",
        "nan elsewhere",
        "empty",
        "bool",
        "complex",
        "text",
        "zeros",
        "bfloat16",
    ],
)
def test_equality_is_that_of_numbers_where_nan_equals_nan(first, other, expected):
    refused = pytest.raises(ValueError, match="the same value")
    with contextlib.nullcontext() if expected else refused:
        require_equal("v:0", [first, other])


def test_copies_of_equal_values_are_accepted():
    require_equal("v:0", [1.0, np.float64(1), jnp.float32(1)])
    require_equal("v:0", [jax.random.key(3), jax.random.key(3)])
    require_equal("v:0", [2.5])


def test_first_copy_that_differs_is_named():
    with pytest.raises(ValueError, match=r"0 assigns 1, replica 2 assigns 5\. Combine"):
        require_equal("v:0", [np.int32(1), np.int32(1), np.int32(5), np.int32(6)])
