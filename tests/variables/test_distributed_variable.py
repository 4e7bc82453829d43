"""Copies of variables: to be looked at, not to be written."""

import re

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import VariableAggregation, VariableSynchronization
from tests.programs import create, device_of

KINDS = pytest.mark.parametrize(
    "synchronization",
    [VariableSynchronization.ON_WRITE, VariableSynchronization.ON_READ],
    ids=["mirrored", "sync_on_read"],
)


def create_copies(strategy, synchronization, **kwargs):
    v = create(
        strategy,
        [1.0, 2.0],
        synchronization=synchronization,
        aggregation=VariableAggregation.SUM,
        **kwargs,
    )
    return v, strategy.experimental_local_results(v)


@KINDS
@pytest.mark.parametrize(
    "show", [repr, lambda v: v._repr_html_()], ids=["repr", "html"]
)
def test_showing_a_variable_does_not_share_its_arrays(
    two_replicas, synchronization, show
):
    v, _ = create_copies(two_replicas, synchronization)
    two_replicas.run(mirrax.function(lambda: v.assign_add(jnp.zeros(2))))
    assert not v.is_aliased
    assert len(re.findall(r"\[1\.,? 2\.\]", show(v))) == 2
    assert not v.is_aliased


@KINDS
def test_copies_have_names_and_devices_of_their_own(two_replicas, synchronization):
    _, copies = create_copies(two_replicas, synchronization, name="alpha")
    assert [copy.name for copy in copies] == ["alpha:0", "alpha/replica_1:0"]
    assert [copy.device for copy in copies] == [
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "/job:localhost/replica:0/task:0/device:CPU:1",
    ]


@KINDS
def test_copies_are_as_trainable_as_the_variable(two_replicas, synchronization):
    _, copies = create_copies(two_replicas, synchronization, trainable=True)
    assert [copy.trainable for copy in copies] == [True, True]


@KINDS
def test_copies_have_the_values_on_their_devices(two_replicas, synchronization):
    _, copies = create_copies(two_replicas, synchronization)
    assert [copy.numpy().tolist() for copy in copies] == [[1.0, 2.0]] * 2
    assert [copy.read_value().tolist() for copy in copies] == [[1.0, 2.0]] * 2
    devices = [device_of(copy.value) for copy in copies]
    assert devices == list(two_replicas.topology.devices)


@KINDS
def test_copies_follow_the_variable(two_replicas, synchronization):
    v, copies = create_copies(two_replicas, synchronization)
    two_replicas.run(mirrax.function(lambda: v.assign(jnp.array([2.0, 4.0]))))
    is_on_read = synchronization is VariableSynchronization.ON_READ
    expected = [2.0, 4.0] if is_on_read else [4.0, 8.0]
    assert copies[1].numpy().tolist() == expected


@KINDS
def test_copies_can_be_mixed(two_replicas, synchronization):
    _, (first, second) = create_copies(two_replicas, synchronization)
    assert (first + second).tolist() == [2.0, 4.0]


@KINDS
@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_copies_are_read_only(two_replicas, synchronization, method):
    _, copies = create_copies(two_replicas, synchronization, name="alpha")
    message = (
        "'alpha/replica_1:0' is one copy of a variable, and copies must stay equal, so "
        "they cannot be assigned one by one. Assign to 'alpha:0'"
    )
    with pytest.raises(RuntimeError, match=message):
        getattr(copies[1], method)([3.0, 4.0])
    assert copies[1].numpy().tolist() == [1.0, 2.0]


@KINDS
def test_copies_are_shown_as_variables(two_replicas, synchronization):
    _, copies = create_copies(two_replicas, synchronization)
    assert repr(copies[1]) == (
        "<mirrax.Variable 'Variable/replica_1:0' shape=(2,) dtype=float32, "
        "numpy=array([1., 2.], dtype=float32)>"
    )


@KINDS
def test_copies_can_be_given_to_jax(two_replicas, synchronization):
    _, copies = create_copies(two_replicas, synchronization)
    assert jax.jit(lambda x: 2 * x)(copies[1]).tolist() == [2.0, 4.0]
    assert jax.tree.map(lambda x: x + 1, [copies[0]])[0].tolist() == [2.0, 3.0]


def test_copies_of_a_mirrored_variable_on_one_replica():
    strategy = mirrax.MirroredStrategy(["CPU:1"])
    v = create(strategy, 1.0)
    (copy,) = strategy.experimental_local_results(v)
    assert copy.device == "/job:localhost/replica:0/task:0/device:CPU:1"
    assert strategy.extended.value_container(copy) is v


def test_variable_of_one_device_is_its_own_copy():
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    v = create(strategy, 1.0)
    (copy,) = strategy.experimental_local_results(v)
    assert copy is v


@KINDS
def test_copies_tell_how_they_are_combined(two_replicas, synchronization):
    _, copies = create_copies(two_replicas, synchronization)
    assert copies[1].aggregation is VariableAggregation.SUM
    assert copies[1].synchronization is synchronization


def test_variable_is_on_the_device_of_the_copy_that_is_updated(two_replicas):
    v, copies = create_copies(two_replicas, VariableSynchronization.ON_WRITE)
    seen = []
    two_replicas.extended.update(v, lambda var: seen.append(var.device))
    assert seen == [copy.device for copy in copies]
