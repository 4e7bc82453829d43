"""Digests of batches, by which workers find that they read different data."""

from __future__ import annotations

from typing import Any, NoReturn

import google_crc32c
import jax
import numpy as np
from typing_extensions import override

from mirrax.collectives.program_order import ComparedLog, program_log_of
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch
from mirrax.trees import Tree

# Shuffled data differ in nearly all rows, so the ends of large arrays are enough.
_MAX_BYTES = 1 << 18


class BatchLog(ComparedLog):
    """The digests of the batches of a dataset, which all workers must read alike."""

    @override
    def raise_difference(self, job: Any, other: int) -> NoReturn:
        number, first, second = self.first_difference(job, "recent batches", other)
        raise ProgramMismatch(
            "All workers must read the same batches of a distributed dataset; each "
            f"takes its rows. Received: batch {number} has the checksum {first} on "
            f"{job.workers[0].name} and {second} on {job.workers[other].name}, so some "
            "rows may be used twice and others never. Seed what shuffles or augments "
            "the data; or let each worker read its own, with "
            "`strategy.distribute_datasets_from_function`.",
            worker=other,
        )


def batch_log(topology: Topology) -> BatchLog:
    """Returns a log for a dataset, which is compared together with the programs."""
    log = BatchLog()
    program_log_of(topology).compare_along(log)
    return log


def digest_of(batch: Tree) -> str:
    """Returns a digest of a batch.

    >>> digest_of({"x": np.zeros(3)}) == digest_of({"x": np.zeros(3)})
    True
    >>> digest_of({"x": np.zeros(3)}) == digest_of({"x": np.ones(3)})
    False
    """
    checksum = 0
    for leaf in jax.tree.leaves(batch):
        for data in _bytes_of(leaf):
            checksum = google_crc32c.extend(checksum, data)
    return f"{checksum:08x}"


def _bytes_of(leaf: Any) -> list[bytes]:
    array = np.asarray(leaf)
    if array.dtype == object:
        return [str(text).encode() for text in array.ravel().tolist()]
    if array.nbytes <= 2 * _MAX_BYTES:
        return [array.tobytes()]
    count = max(1, _MAX_BYTES // max(1, array[:1].nbytes))
    return [array[:count].tobytes(), array[-count:].tobytes()]
