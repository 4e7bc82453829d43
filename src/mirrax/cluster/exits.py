"""How a worker ends: the others are told, nobody waits, the exit code is right."""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
from types import TracebackType
from typing import Any

from mirrax.cluster.coordinator import Coordinator
from mirrax.cluster.job import EXIT_CODE, Job
from mirrax.errors import JobError
from mirrax.jax_internals import forget_distributed

# JAX may wait for its devices at the end, and those for a worker that is gone.
_MAX_END_SECONDS = 10
# Kept until the very end: the devices still use what JAX itself must forget.
_clients: list[Any] = []


def install(job: Job, hosted: Coordinator | None) -> None:
    """Makes the end of this process the end of its part in the job.

    Args:
        hosted: The coordinator, if it belongs to this process.
    """
    previous = sys.excepthook

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        explained = job.explain(error)
        job.fail(explained)
        previous(type(explained), explained, trace)
        if isinstance(explained, JobError):
            sys.exit(EXIT_CODE)

    sys.excepthook = report
    atexit.register(_end, job, hosted)


def _end(job: Job, hosted: Coordinator | None) -> None:
    has_failed = job.has_failed
    if has_failed:
        # Or JAX waits at its end for what it computes together with the others.
        job.break_off()
    job.leave()
    # Or JAX's own end waits until all workers have come to theirs.
    _clients.append(forget_distributed())
    if hosted is not None and not has_failed:
        hosted.wait()
    if has_failed:
        silence = open(os.devnull, "w")  # noqa: SIM115
        faulthandler.dump_traceback_later(_MAX_END_SECONDS, exit=True, file=silence)
