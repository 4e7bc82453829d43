"""What an input function is told."""

import pytest

from mirrax.input.input_context import InputContext, InputOptions, InputReplicationMode


def test_the_batch_size_of_a_replica_divides():
    assert InputContext(num_replicas_in_sync=4).get_per_replica_batch_size(8) == 2


def test_a_batch_size_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="global_batch_size=7, num_replicas_in_sync=2"):
        InputContext(num_replicas_in_sync=2).get_per_replica_batch_size(7)


def test_functions_are_called_per_worker():
    mode = InputOptions().experimental_replication_mode
    assert mode is InputReplicationMode.PER_WORKER


def test_input_options_can_be_unpacked_and_replaced():
    on_device, *_, buffer_size = InputOptions()
    assert (on_device, buffer_size) == (True, 1)
    changed = InputOptions()._replace(experimental_fetch_to_device=False)
    assert changed == InputOptions(experimental_fetch_to_device=False)
