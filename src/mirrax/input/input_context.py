"""The argument of input functions, and the options of distributed input."""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple


@dataclasses.dataclass(frozen=True)
class InputContext:
    """Tells an input function which worker or replica it creates a dataset for.

    Args:
        num_input_pipelines: The number of datasets in all.
        input_pipeline_id: The index of this one.
        num_replicas_in_sync: The number of replicas in all.

    >>> context = InputContext(num_input_pipelines=2, input_pipeline_id=1)
    >>> dataset = mirrax.data.Dataset.range(4)
    >>> own = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    >>> [int(number) for number in own]
    [1, 3]
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Returns the batch size of one replica.

        >>> InputContext(num_replicas_in_sync=2).get_per_replica_batch_size(8)
        4
        """
        count = self.num_replicas_in_sync
        if global_batch_size % count:
            raise ValueError(
                "`global_batch_size` must be a multiple of the number of replicas. "
                f"Received: global_batch_size={global_batch_size}, "
                f"num_replicas_in_sync={count}. Use a multiple of {count}."
            )
        return global_batch_size // count


class InputReplicationMode(enum.Enum):
    """Whether an input function is called once per worker or once per replica.

    >>> [mode.name for mode in InputReplicationMode]
    ['PER_WORKER', 'PER_REPLICA']
    """

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


class InputOptions(NamedTuple):
    """Options of distributed input.

    >>> InputOptions(experimental_fetch_to_device=False).experimental_fetch_to_device
    False
    """

    experimental_fetch_to_device: bool = True
    experimental_replication_mode: InputReplicationMode = (
        InputReplicationMode.PER_WORKER
    )
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1
