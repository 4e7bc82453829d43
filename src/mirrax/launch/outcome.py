"""How a job ended: its exit code, and who is to blame."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence

from mirrax.cluster.failure import Failure
from mirrax.cluster.worker.job import EXIT_CODE
from mirrax.launch.worker_plan import Plan
from mirrax.launch.worker_process import Child

_KILLED = 128 + signal.SIGKILL


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Args:
        exit_codes: Of each local worker, as a shell would tell it.
        logs: What each local worker has printed.
        exit_code: Of the whole: of the first failure, 0 if there was none.
        report: The first failure with its traceback, empty if there was none.
        first: Which local worker failed first, None if none did.
        timed_out: Whether the time was over before the workers were.
    """

    exit_codes: list[int]
    logs: list[str]
    exit_code: int
    report: str
    first: int | None
    timed_out: bool


def conclude(
    plan: Plan,
    children: Sequence[Child],
    failed: Sequence[int],
    signal_number: int | None,
    failure: Failure | None,
    timed_out: bool,
) -> Outcome:
    """Returns how a job ended whose local workers have all ended.

    Args:
        plan: Who was started.
        children: The local workers.
        failed: The positions of those that failed, in the order in which they did.
        signal_number: The signal that was passed on to them, if one was.
        failure: What the coordinator says ended the job, if it is known here.
        timed_out: Whether the time was over before the workers were.
    """
    codes = [child.exit_code or 0 for child in children]
    logs = ["\n".join(child.lines) for child in children]
    # A worker that only gave up because of another one is not the cause.
    causes = [position for position in failed if codes[position] != EXIT_CODE]
    first = next(iter(causes or failed), None)
    code = 0 if first is None else codes[first]
    report = ""
    if signal_number is not None:
        name = signal.Signals(signal_number).name
        report = f"{name} was passed on to the workers, and all have ended."
        # A code of their own tells more than that they gave up or had to be killed.
        if code in (EXIT_CODE, _KILLED):
            code = 128 + signal_number
    elif first is not None:
        if not causes and failure is not None and failure.worker in plan.local:
            # Such as one that ended with 0, too early.
            first = plan.local.index(failure.worker)
        report = _report(children[first], failure)
    return Outcome(codes, logs, code, report, first, timed_out)


def _report(child: Child, failure: Failure | None) -> str:
    report = f"{child.name} failed first: {child.describe_end()}."
    if failure is not None and child.exit_code in (0, EXIT_CODE):
        # It has no traceback, or one that only tells the same at length.
        return f"{report}\n{failure.error}: {failure.message}"
    trace = child.find_traceback()
    return f"{report}\n{trace}" if trace else report
