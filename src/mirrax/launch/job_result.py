"""The result of one attempt to run a job: exit code, first failure, its cause."""

from __future__ import annotations

import dataclasses
import math
import signal
import textwrap
from collections.abc import Sequence

from mirrax.cluster.failure import Failure
from mirrax.cluster.job_options import EXIT_CODE
from mirrax.cluster.step_record import AttemptSteps
from mirrax.errors import ProgramMismatch, WorkerFailed
from mirrax.launch.worker_plan import LaunchPlan
from mirrax.launch.worker_process import WorkerProcess, describe_code

_KILLED = 128 + signal.SIGKILL
# Enough for an error of Mirrax, which ends with the fix.
_MAX_TEXT = 500
_USAGE = "exit code 2"
STOPPED = "LauncherStopped"
"""The kind of a cause: a user has stopped the launcher of another machine."""

# The same program with the same arguments fails again.
_INCURABLE = frozenset(
    {
        "CheckpointMismatchError",
        "ConfigurationError",
        "DuplicateDevice",
        "ImportError",
        "IndentationError",
        "ModuleNotFoundError",
        "ProgramMismatch",
        STOPPED,
        "SyntaxError",
        "TabError",
        _USAGE,
    }
)


# How often an error may come without progress: twice, unless others may cause it. The
# kernel kills what takes all memory, at the same step again; people and schedulers kill
# at any step. A machine that is gone takes no part in the next attempt.
_MAX_REPEATS = {"SIGKILL": 3, "LauncherLeft": math.inf, "LauncherLost": math.inf}


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why an attempt failed.

    Args:
        who: The name of the worker that failed first.
        kind: The class of its error, the signal that killed it, or its exit code.
        text: One line: the error with its message, or how it ended.
        is_consequence: Whether it only stopped because of a worker elsewhere.

    >>> Cause("worker 1", "SIGKILL", "killed by SIGKILL").is_curable
    True
    >>> Cause("worker 1", "SyntaxError", "SyntaxError: invalid syntax").is_curable
    False
    """

    who: str
    kind: str
    text: str
    is_consequence: bool = False

    @property
    def is_curable(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind not in _INCURABLE

    @property
    def max_repeats(self) -> float:
        """How often it may come without progress until a restart is of no use."""
        return _MAX_REPEATS.get(self.kind, 2)

    def __str__(self) -> str:
        return f"{self.who}: {self.text.removesuffix('.')}"


@dataclasses.dataclass(frozen=True)
class JobResult:
    """The result of a job.

    Args:
        exit_code: The exit code of the first failure, 0 without one.
        exit_codes, logs: Those of the local workers.
        first: The local worker that failed first, if any.
        cause: Why the job failed; None if it did not, or a signal ended it.
        is_preempted: Whether all workers saved the same step and ended on request.
    """

    exit_code: int
    report: str = ""
    exit_codes: Sequence[int] = ()
    logs: Sequence[str] = ()
    first: int | None = None
    timed_out: bool = False
    cause: Cause | None = None
    is_preempted: bool = False


def make_result(
    plan: LaunchPlan,
    processes: Sequence[WorkerProcess],
    failed: Sequence[int],
    signal_number: int | None,
    failure: Failure | None,
    timed_out: bool,
    steps: AttemptSteps,
    coordinator_code: int | None,
) -> JobResult:
    """Returns the result of a job whose local workers have all ended.

    Args:
        failed: The positions of failed processes, in the order of failure.
        coordinator_code: The exit code of the coordinator, if it ended here by itself.
    """
    codes = [process.exit_code or 0 for process in processes]
    logs = ["\n".join(process.output.lines) for process in processes]
    ended = JobResult(0, exit_codes=codes, logs=logs, timed_out=timed_out)
    if steps.is_preempted and len(set(codes)) == 1:
        saved = "" if steps.done is None else f", and have saved step {steps.done}"
        report = f"All workers were asked to end{saved}."
        return dataclasses.replace(
            ended, exit_code=codes[0], report=report, is_preempted=True
        )
    # One that stopped because of another one, or had to be killed, is not the cause.
    causes = [
        position
        for position in failed
        if codes[position] != EXIT_CODE and not processes[position].was_running
    ]
    first = next(iter(causes or failed), None)
    if signal_number is not None:
        return _ended_by_signal(ended, first, signal_number)
    if first is None:
        return ended
    if failure is None and coordinator_code:
        how = describe_code(coordinator_code)
        report = f"The coordinator failed first: {how}."
        cause = Cause("coordinator", _kind_of(how), how)
        return dataclasses.replace(
            ended, exit_code=EXIT_CODE, report=report, cause=cause
        )
    return _failed(ended, plan, processes, first, bool(causes), failure)


def stop_without_workers(signal_number: int, requeue_code: int) -> JobResult:
    """Returns the result of a job that a signal ended while no worker was running.

    After SIGTERM it goes on from what its workers have saved, as a preempted one does.
    """
    is_preempted = signal_number == signal.SIGTERM
    code = requeue_code if is_preempted else 128 + signal_number
    name = signal.Signals(signal_number).name
    report = f"{name} ended the job while no worker was running."
    return JobResult(code, report, is_preempted=is_preempted)


def _ended_by_signal(ended: JobResult, first: int | None, number: int) -> JobResult:
    code = 0 if first is None else ended.exit_codes[first]
    # A worker's own exit code says more than that it stopped or was killed.
    if code in (EXIT_CODE, _KILLED):
        code = 128 + number
    name = signal.Signals(number).name
    report = f"{name} was passed on to the workers, and all have ended."
    return dataclasses.replace(ended, exit_code=code, report=report, first=first)


def _failed(
    ended: JobResult,
    plan: LaunchPlan,
    processes: Sequence[WorkerProcess],
    first: int,
    is_cause: bool,
    failure: Failure | None,
) -> JobResult:
    """Returns the result of a job in which the worker at `first` failed first.

    Args:
        is_cause: Whether it failed by itself, not because of another worker.
    """
    code = ended.exit_codes[first]
    is_named = failure is not None and failure.worker in plan.local
    if failure is not None and is_named and (not is_cause or _is_mismatch(failure)):
        # Such as one that ended with 0, too early.
        first = plan.local.index(failure.worker or 0)
    cause, report = _explain(processes[first], failure, is_named)
    if not (is_cause or is_named):
        cause = dataclasses.replace(cause, is_consequence=True)
    if processes[first].was_running:
        # It hung, or missed the failure of another one: another attempt may succeed.
        code = EXIT_CODE
    return dataclasses.replace(
        ended, exit_code=code, report=report, first=first, cause=cause
    )


def _explain(
    process: WorkerProcess, failure: Failure | None, is_named: bool
) -> tuple[Cause, str]:
    """Returns why a worker failed, and a report with its traceback.

    Args:
        is_named: Whether the failure is that of a worker here.
    """
    has_hung = process.was_running and is_named
    how = (
        "hung, and was killed by the launcher" if has_hung else process.describe_exit()
    )
    error, trace = process.output.find_error()
    if failure is not None and _repeats(process, failure):
        trace = f"{failure.error}: {failure.message}"
        cause = Cause(process.name, failure.error, trace.partition(". ")[0])
    elif error:
        kind = error.partition(":")[0].rpartition(".")[2]
        cause = Cause(process.name, kind, textwrap.shorten(error, _MAX_TEXT))
    else:
        cause = Cause(process.name, _kind_of(how), how)
        if failure is not None and failure.error == WorkerFailed.__name__:
            trace = failure.message
    # One that the trace does not begin with.
    shown = how if trace.startswith(error) else f"{error} ({how})"
    report = f"{process.name} failed first: {shown}."
    return cause, f"{report}\n{trace}" if trace else report


def _kind_of(how: str) -> str:
    return how.removeprefix("killed by ")


def _repeats(process: WorkerProcess, failure: Failure) -> bool:
    """Returns whether the process tells nothing that the failure does not tell."""
    is_silent = process.was_running or process.exit_code in (0, EXIT_CODE)
    return is_silent or _is_mismatch(failure)


def _is_mismatch(failure: Failure) -> bool:
    return failure.error == ProgramMismatch.__name__
