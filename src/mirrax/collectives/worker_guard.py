"""Runs programs over several workers: typed errors, and checks of their order."""

from __future__ import annotations

import collections
import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax._jax.config import without_nan_rerun
from mirrax.devices.peers import exchange_json
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch


def replica_program(
    topology: Topology,
    name: str,
    body: Callable[..., Any],
    in_specs: Any,
    out_specs: Any,
) -> Any:
    """Returns `body`, what one replica does, as a compiled program over all of them."""
    mapped = jax.shard_map(
        body,
        mesh=topology.mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        check_vma=False,
    )
    return jax.jit(without_nan_rerun(mapped, name))


def guarded(
    topology: Topology, phase: str, program: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns `program`, made to raise if another worker dies, fails or is stuck.

    With several workers it waits for its results, so that the error is raised at the
    call.
    """
    job = topology.job
    if job is None:
        return program
    log = program_log_of(topology)

    def run(*inputs: Any) -> Any:
        log.add(phase)
        with job.guard(phase):
            return jax.block_until_ready(program(*inputs))

    return run


_INTERVAL = 64
_NUM_RECENT = 2 * _INTERVAL
_NUM_DATASETS = 8


class Log:
    """A sequence that is the same on all workers, as a checksum."""

    def __init__(self) -> None:
        self.count = 0
        self.checksum = 0
        self._recent: collections.deque[str] = collections.deque(maxlen=_NUM_RECENT)

    def append(self, entry: str) -> None:
        self.count += 1
        self.checksum = zlib.crc32(f"{entry}\n".encode(), self.checksum)
        self._recent.append(entry)

    @property
    def is_due(self) -> bool:
        """Whether to compare it: after 1, 2, 4, ... entries, then at intervals."""
        return self.count % min(_INTERVAL, 1 << (self.count.bit_length() - 1)) == 0

    def first_difference(
        self, job: Any, topic: str, other: int
    ) -> tuple[int, str, str]:
        """Returns where worker 0 and `other` first differ, and the two entries."""
        recent = exchange_json(job, topic, list(self._recent))
        pairs = list(zip(recent[0], recent[other], strict=True))
        index = next((i for i, (a, b) in enumerate(pairs) if a != b), 0)
        return self.count - len(pairs) + index + 1, *pairs[index]


class ProgramLog:
    """The collective programs that this worker has run, and the batches it has read."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._programs = Log()
        self._batches: dict[str, Log] = {}
        self._num_datasets = 0

    def add(self, name: str) -> None:
        """Logs a run of the program `name`; sometimes compares the workers' logs."""
        self._programs.append(name)
        if self._programs.is_due:
            self._compare()

    def add_dataset(self) -> Log:
        """Returns a log for the batches of a dataset that all workers read.

        They are compared together with the programs. Every worker calls this.
        """
        self._num_datasets += 1
        self._batches[str(self._num_datasets)] = log = Log()
        # An old dataset is not read any more, or was compared often.
        self._batches.pop(str(self._num_datasets - _NUM_DATASETS), None)
        return log

    def _compare(self) -> None:
        job = self._topology.job
        assert job is not None
        batches = {name: (b.count, b.checksum) for name, b in self._batches.items()}
        topic = f"order of programs, after {self._programs.count}"
        answers = exchange_json(job, topic, [self._programs.checksum, batches])
        other = _differing([programs for programs, _ in answers])
        if other is not None:
            self._raise_other_program(job, other)
        for name, log in self._batches.items():
            found = [batches.get(name, [0, 0]) for _, batches in answers]
            counts, checksums = zip(*found, strict=True)
            other = _differing(checksums)
            # One worker may read more, for example to look at a batch.
            if other is not None and _differing(counts) is None:
                _raise_other_batch(job, log, other)

    def _raise_other_program(self, job: Any, other: int) -> None:
        number, first, second = self._programs.first_difference(
            job, "recent programs", other
        )
        raise ProgramMismatch(
            "All workers must run the same programs in the same order. Received: as "
            f"number {number} {job.workers[0].name} ran {first} and "
            f"{job.workers[other].name} ran {second}; their results "
            "since then are wrong. Do not make `run`, or a read that combines "
            "replicas, depend on the worker.",
            worker=other,
        )


def _differing(values: Sequence[Any]) -> int | None:
    """Returns the first worker whose value is not that of the first one."""
    return next((i for i, value in enumerate(values) if value != values[0]), None)


def _raise_other_batch(job: Any, log: Log, other: int) -> None:
    number, first, second = log.first_difference(job, "recent batches", other)
    raise ProgramMismatch(
        "All workers must read the same batches of a distributed dataset; each takes "
        f"its rows. Received: batch {number} has the checksum {first} on "
        f"{job.workers[0].name} and {second} on {job.workers[other].name}, so some "
        "rows may be used twice and others never. Seed what shuffles or augments the "
        "data; or let each worker read its own, with "
        "`strategy.distribute_datasets_from_function`.",
        worker=other,
    )


@functools.lru_cache(maxsize=8)
def program_log_of(topology: Topology) -> ProgramLog:
    """Returns the log of the programs over these devices."""
    return ProgramLog(topology)
