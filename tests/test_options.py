"""Choices: the enum or its name, and nothing else."""

import dataclasses

import numpy as np
import pytest

from mirrax import (
    CollectiveCommunication,
    CommunicationOptions,
    ReduceOp,
    RunOptions,
    VariableAggregation,
    VariableSynchronization,
)
from mirrax.options import parse_enum, parse_reduce_op


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (ReduceOp.SUM, ReduceOp.SUM),
        (ReduceOp.MEAN, ReduceOp.MEAN),
        ("SUM", ReduceOp.SUM),
        ("sum", ReduceOp.SUM),
        ("Mean", ReduceOp.MEAN),
        ("mean", ReduceOp.MEAN),
    ],
    ids=str,
)
def test_reduce_op_is_the_enum_or_its_name(op, expected):
    assert parse_reduce_op(op) is expected


def test_run_options_can_be_unpacked_and_replaced():
    is_dynamic, *others = RunOptions()
    assert (is_dynamic, others) == (True, [False, None])
    changed = RunOptions()._replace(experimental_xla_options=1)
    assert changed == RunOptions(experimental_xla_options=1)


@pytest.mark.parametrize("op", ["max", "", None, 1, "SUM "], ids=repr)
def test_another_reduce_op_is_refused(op):
    with pytest.raises(
        ValueError, match=r"one of SUM, MEAN.*`ReduceOp`.*Received: "
    ) as e:
        parse_reduce_op(op)
    assert repr(op) in str(e.value)


@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_an_aggregation_is_no_reduce_op(aggregation):
    with pytest.raises(AssertionError, match="takes a ReduceOp, not a VariableAggr"):
        parse_reduce_op(aggregation)


def test_reduce_ops_have_tensorflows_values():
    assert [op.value for op in ReduceOp] == ["SUM", "MEAN"]


def test_aggregations_have_tensorflows_values():
    values = {choice.name: choice.value for choice in VariableAggregation}
    assert values == {"NONE": 0, "SUM": 1, "MEAN": 2, "ONLY_FIRST_REPLICA": 3}


def test_synchronizations_have_tensorflows_values():
    values = {choice.name: choice.value for choice in VariableSynchronization}
    assert values == {"AUTO": 0, "NONE": 1, "ON_WRITE": 2, "ON_READ": 3}


def test_parse_enum_names_the_choices():
    with pytest.raises(ValueError, match="Expected one of AUTO, RING, NCCL"):
        parse_enum(CollectiveCommunication, "MPI")


def test_communication_options_leave_the_choice_to_jax():
    options = CommunicationOptions()
    assert options.bytes_per_pack == 0
    assert options.timeout_seconds is None
    assert options.implementation is CollectiveCommunication.AUTO


def test_communication_options_take_the_name_of_an_implementation():
    options = CommunicationOptions(implementation="ring")
    assert options.implementation is CollectiveCommunication.RING


def test_communication_options_refuse_negative_packs():
    with pytest.raises(ValueError, match="Received: bytes_per_pack=-1"):
        CommunicationOptions(bytes_per_pack=-1)


def test_communication_options_refuse_an_unknown_implementation():
    with pytest.raises(ValueError, match="Received: 'MPI'"):
        CommunicationOptions(implementation="MPI")


def test_communication_options_cannot_be_changed():
    options = CommunicationOptions()
    with pytest.raises(dataclasses.FrozenInstanceError, match="bytes_per_pack"):
        options.bytes_per_pack = 3


def test_equal_communication_options_are_one_key():
    assert len({CommunicationOptions(8), CommunicationOptions(8)}) == 1


def test_run_options_have_tensorflows_defaults():
    options = RunOptions()
    assert options.experimental_enable_dynamic_batch_size
    assert not options.experimental_bucketizing_dynamic_shape
    assert options.experimental_xla_options is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes_per_pack", "many"),
        ("bytes_per_pack", 1.5),
        ("bytes_per_pack", True),
        ("timeout_seconds", -1),
        ("timeout_seconds", 0),
        ("timeout_seconds", "soon"),
    ],
    ids=repr,
)
def test_hints_that_mean_nothing_are_refused(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be .*Received: {name}="):
        CommunicationOptions(**{name: value})


@pytest.mark.parametrize("seconds", [2, 2.0, np.float32(2)], ids=repr)
def test_any_number_of_seconds_will_do(seconds):
    assert CommunicationOptions(timeout_seconds=seconds).timeout_seconds == 2


@pytest.mark.parametrize("size", [1024, np.int64(1024), 1.024e3], ids=repr)
def test_any_number_of_bytes_will_do(size):
    assert CommunicationOptions(bytes_per_pack=size).bytes_per_pack == 1024


def test_reduce_op_of_an_aggregation():
    aggregations = [VariableAggregation.SUM, VariableAggregation.MEAN]
    found = list(map(ReduceOp.from_variable_aggregation, aggregations))
    assert found == [ReduceOp.SUM, ReduceOp.MEAN]


@pytest.mark.parametrize("given", ["NONE", "ONLY_FIRST_REPLICA"])
def test_reduce_op_of_another_aggregation_is_refused(given):
    with pytest.raises(ValueError, match=r"Could not convert from .*" + given):
        ReduceOp.from_variable_aggregation(VariableAggregation[given])
