"""Runs a job, and starts it again after a failure that another attempt may cure."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mirrax.cluster.job_options import EXIT_CODE, read_options
from mirrax.cluster.step_record import AttemptSteps
from mirrax.launch.job_result import Cause, JobResult, stop_without_workers
from mirrax.launch.machines import Launchers
from mirrax.launch.supervisor import Supervisor

_MAX_DELAY_SECONDS = 60.0
_POLL_SECONDS = 0.05
_CACHE = "JAX_COMPILATION_CACHE_DIR"
# By default JAX caches only programs that compile for longer than a second.
_CACHE_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}

# An attempt of a program that reports no steps has advanced if it lasted this long. By
# default a worker that never joins, or hangs in the first step, is found earlier.
_PROGRESS_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class FailedAttempt:
    """An attempt that failed: why, which steps it did, and how long it lasted."""

    cause: Cause
    steps: AttemptSteps
    seconds: float = 0.0

    @property
    def has_advanced(self) -> bool:
        """Whether another attempt after this one is no mere repetition."""
        if self.steps.done is None:
            return self.seconds > _PROGRESS_SECONDS
        return self.steps.has_advanced


def run_job(
    launchers: Launchers,
    command: Sequence[str],
    folder: pathlib.Path,
    *,
    max_restarts: int = 0,
    environment: Mapping[str, str] | None = None,
    show: Callable[[str], None] = print,
    timeout: float | None = None,
    signals: Sequence[int] = (),
    **options: Any,
) -> JobResult:
    """Runs a job to its end, with restarts; returns the result of the last attempt.

    Args:
        folder: A folder for files of the job; removed if this process dies.
        timeout: Seconds for all attempts together.
        signals: The signals received so far; one ends the job.
        options: More arguments for each `Supervisor`.
    """
    end = math.inf if timeout is None else time.monotonic() + timeout
    failed: list[FailedAttempt] = []
    failed_at = 0.0
    variables = _worker_variables(environment, folder, max_restarts)
    requeue_code = read_options(variables).requeue_code
    for attempt in itertools.count():
        plan = launchers.start_attempt(signals)
        if signals:
            result = stop_without_workers(signals[0], requeue_code)
            break
        if isinstance(plan, JobResult):
            result = plan
            break
        supervisor = Supervisor(
            plan,
            command,
            folder,
            environment=variables,
            show=show,
            attempt=attempt,
            signals=signals,
            ended_elsewhere=launchers.ended_workers,
            report_exit=launchers.report_exit,
            **options,
        )
        watch = _watch_restart(supervisor, failed, failed_at, show)
        start = time.monotonic()
        own = supervisor.run(end - start, functools.partial(next, watch, None))
        whole = launchers.collect(own, signals)
        failed_at = supervisor.failed_at or time.monotonic()
        if whole is None:
            # The leader decides whether there is another attempt.
            continue
        result = whole
        if signals:
            steps = [supervisor.steps, *(each.steps for each in failed)]
            result = _requeue(result, steps, requeue_code)
        if result.cause is None or result.timed_out or not max_restarts or signals:
            break
        seconds = time.monotonic() - start
        failed.append(FailedAttempt(result.cause, supervisor.steps, seconds))
        done = supervisor.steps.done
        what = f"{result.cause}{'' if done is None else f', after step {done}'}"
        reason = find_reason_to_stop(failed, max_restarts)
        if reason:
            show(f"mirrax launch: {what}. Not started again: {reason}.")
            result = _forbid_requeue(result, requeue_code)
            break
        delay = choose_delay(failed)
        wait = f" in {delay:g} s" if delay else ""
        show(f"mirrax launch: {what}. Restart {len(failed)} of {max_restarts}{wait}.")
        until = min(time.monotonic() + delay, end)
        while time.monotonic() < until and not signals:
            time.sleep(_POLL_SECONDS)
        if time.monotonic() > end:
            break
    launchers.finish(result.exit_code)
    return result


def find_reason_to_stop(failed: Sequence[FailedAttempt], max_restarts: int) -> str:
    """Returns why the job is not started again; "" if it is."""
    last = failed[-1]
    if not last.cause.is_curable:
        return "the same program fails again"
    pairs = itertools.pairwise(reversed(failed))
    times = 1 + len(list(itertools.takewhile(_is_repetition, pairs)))
    if times >= last.cause.max_repeats:
        often = "twice" if times == 2 else f"{times} times"
        return f"the same error came {often} without a step of progress"
    if len(failed) > max_restarts:
        return f"all {max_restarts} restarts are used (--max-restarts)"
    return ""


def choose_delay(failed: Sequence[FailedAttempt]) -> float:
    """Returns the seconds to wait: none after progress, then 1, 2, 4, ... up to 60."""
    idle = itertools.takewhile(lambda each: not each.has_advanced, reversed(failed))
    num_idle = len(list(idle))
    return min(_MAX_DELAY_SECONDS, 2.0 ** (num_idle - 1)) if num_idle else 0.0


def _worker_variables(
    environment: Mapping[str, str] | None, folder: pathlib.Path, max_restarts: int
) -> dict[str, str]:
    """Returns the variables of the workers, with a cache of compiled programs."""
    variables = dict(os.environ if environment is None else environment)
    if max_restarts and not variables.get(_CACHE):
        variables |= {_CACHE: f"{folder}/compilation-cache", **_CACHE_ALL}
    return variables


def _forbid_requeue(result: JobResult, requeue_code: int) -> JobResult:
    """Returns the result with 1 in place of a code that asks for another attempt."""
    if result.exit_code not in (EXIT_CODE, requeue_code):
        return result
    return dataclasses.replace(result, exit_code=1)


def _requeue(
    result: JobResult, attempts: Sequence[AttemptSteps], requeue_code: int
) -> JobResult:
    """Returns the result of a job that SIGTERM ended, which may go on from a step.

    For example, a worker was killed while it saved.
    """
    is_resumable = any(steps.done is not None for steps in attempts)
    if not is_resumable or result.exit_code != 128 + signal.SIGTERM:
        return result
    return dataclasses.replace(result, exit_code=requeue_code)


def _is_repetition(pair: tuple[FailedAttempt, FailedAttempt]) -> bool:
    last, before = pair
    if before.cause.kind != last.cause.kind:
        return False
    if not last.has_advanced:
        return True
    return last.steps.done is not None and last.steps.done == before.steps.done


def _watch_restart(
    supervisor: Supervisor,
    failed: Sequence[FailedAttempt],
    failed_at: float,
    show: Callable[[str], None],
) -> Iterator[None]:
    """Reports the first step after a restart; advanced repeatedly until then."""
    if not failed:
        return
    while not (steps := supervisor.steps).has_advanced:
        yield
    seconds = time.monotonic() - failed_at
    reached = failed[-1].steps.done
    lost = "" if reached is None else f" (steps lost: {reached - (steps.first or 0)})"
    show(
        f"mirrax launch: Restart {len(failed)} resumed after step {steps.first}{lost}, "
        f"{seconds:.1f} s after the failure was noticed."
    )
