"""Collectives over several workers: waits that end, and where each worker is."""

from __future__ import annotations

import collections
import functools
import json
import zlib
from collections.abc import Callable
from typing import Any

import jax

from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch


def guarded(
    topology: Topology, phase: str, program: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns `program`, which raises if another worker dies, fails or is stuck.

    With several workers it waits for its results, because only then an error of a
    worker comes out in the place where it can be explained.
    """
    job = topology.job
    if job is None:
        return program
    trail = trail_of(topology)

    def run(*inputs: Any) -> Any:
        trail.add(phase)
        with job.guard(phase):
            return jax.block_until_ready(program(*inputs))

    return run


_INTERVAL = 64
_NUM_RECENT = 2 * _INTERVAL


class Trail:
    """The programs that this worker has run together with the others."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._count = 0
        self._checksum = 0
        self._recent: collections.deque[str] = collections.deque(maxlen=_NUM_RECENT)

    def add(self, name: str) -> None:
        """Notes that the program `name` is run; compares notes from time to time."""
        self._count += 1
        self._checksum = zlib.crc32(f"{name}\n".encode(), self._checksum)
        self._recent.append(name)
        # After 1, 2, 4, ... and then at equal distances.
        if self._count % min(_INTERVAL, 1 << (self._count.bit_length() - 1)) == 0:
            self._compare()

    def _compare(self) -> None:
        job = self._topology.job
        assert job is not None
        topic = f"order of programs, after {self._count}"
        checksums = job.exchange(topic, str(self._checksum).encode())
        if len(set(checksums)) == 1:
            return
        notes = json.dumps(list(self._recent)).encode()
        recent = [json.loads(a) for a in job.exchange("recent programs", notes)]
        other = next(i for i, c in enumerate(checksums) if c != checksums[0])
        pairs = list(zip(recent[0], recent[other], strict=True))
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
        number = self._count - len(pairs) + place + 1
        raise ProgramMismatch(
            "All workers must run the same programs in the same order. Received: as "
            f"number {number} {job.workers[0].name} ran {recent[0][place]} and "
            f"{job.workers[other].name} ran {recent[other][place]}; what they computed "
            "since is wrong. Let nothing that runs on replicas, and no read that "
            "combines their values, depend on the worker.",
            worker=other,
        )


@functools.lru_cache(maxsize=8)
def trail_of(topology: Topology) -> Trail:
    """Returns the trail of the programs over these devices."""
    return Trail(topology)
