"""The result of a job: its exit code, and which worker failed first."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence

from mirrax.cluster.failure import Failure
from mirrax.cluster.worker.job import EXIT_CODE
from mirrax.launch.worker_plan import LaunchPlan
from mirrax.launch.worker_process import WorkerProcess

_KILLED = 128 + signal.SIGKILL


@dataclasses.dataclass(frozen=True)
class JobResult:
    """The result of a job.

    Args:
        exit_codes: The exit code of each local worker, as a shell shows it.
        logs: The output of each local worker.
        exit_code: The exit code of the first failure, 0 without one.
        report: The first failure with its traceback, empty without one.
        first: The local worker that failed first, if any.
        timed_out: Whether the timeout expired first.
    """

    exit_codes: list[int]
    logs: list[str]
    exit_code: int
    report: str
    first: int | None
    timed_out: bool


def make_result(
    plan: LaunchPlan,
    processes: Sequence[WorkerProcess],
    failed: Sequence[int],
    signal_number: int | None,
    failure: Failure | None,
    timed_out: bool,
) -> JobResult:
    """Returns the result of a job whose local workers have all ended.

    Args:
        plan: The launched workers.
        processes: The local workers.
        failed: The positions of failed processes, in the order of failure.
        signal_number: The signal forwarded to them, if any.
        failure: The coordinator's failure, if known here.
        timed_out: Whether the timeout expired first.
    """
    codes = [process.exit_code or 0 for process in processes]
    logs = ["\n".join(process.lines) for process in processes]
    # A worker that stopped because of another one is not the cause.
    causes = [position for position in failed if codes[position] != EXIT_CODE]
    first = next(iter(causes or failed), None)
    code = 0 if first is None else codes[first]
    report = ""
    if signal_number is not None:
        name = signal.Signals(signal_number).name
        report = f"{name} was passed on to the workers, and all have ended."
        # A worker's own exit code says more than that it stopped or was killed.
        if code in (EXIT_CODE, _KILLED):
            code = 128 + signal_number
    elif first is not None:
        if not causes and failure is not None and failure.worker in plan.local:
            # Such as one that ended with 0, too early.
            first = plan.local.index(failure.worker)
        report = _report(processes[first], failure)
    return JobResult(codes, logs, code, report, first, timed_out)


def _report(process: WorkerProcess, failure: Failure | None) -> str:
    report = f"{process.name} failed first: {process.describe_exit()}."
    if failure is not None and process.exit_code in (0, EXIT_CODE):
        # It has no traceback, or one that repeats the failure at length.
        return f"{report}\n{failure.error}: {failure.message}"
    trace = process.find_traceback()
    return f"{report}\n{trace}" if trace else report
