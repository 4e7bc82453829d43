"""Shows the progress and speed of a training loop, and where its time goes."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import numbers
import shutil
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import IO, Any, Generic, TypeVar

import jax

from mirrax.summary import recording
from mirrax.summary.writers import SummaryWriter, create_file_writer
from mirrax.train.resumable import ResumableSteps
from mirrax.train.worker_sync import current_peers

T = TypeVar("T")

_BAR_WIDTH = 20
_BAR_SECONDS = 0.2
_LINE_SECONDS = 10.0
_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


@dataclasses.dataclass(frozen=True)
class ProgressReport:
    """What `Progress` shows: rates since the last report; at the end, of the loop.

    Args:
        step: The number of steps that are done.
        total: The number of all steps, if it is known.
        steps_per_second: The rate of steps.
        examples_per_second: The rate of examples, if the size of batches is known.
        shares: The share of the time that was spent on "input" (waiting for the next
            element, checkpoints of `resumable` included), on "Python" (computing in
            the loop's own thread), on "compile" (in XLA's compiler), and on "devices"
            (waiting for results: computing, and communication with other workers).
        metrics: What `show` was given last.
        seconds: The time since the loop began.
        seconds_left: The time to the end of the loop, if it can be estimated.

    >>> print(ProgressReport(5, 10, 2.0, 64.0, {"input": 0.25}, {"loss": 0.5}, 3, 2.5))
    5/10  0:00:02 left  2.0 steps/s  64 examples/s  loss 0.5  (input 25%)
    """

    step: int
    total: int | None
    steps_per_second: float
    examples_per_second: float | None
    shares: Mapping[str, float]
    metrics: Mapping[str, float]
    seconds: float = 0.0
    seconds_left: float | None = None

    def __str__(self) -> str:
        parts = [f"{self.step}" if self.total is None else f"{self.step}/{self.total}"]
        if self.seconds_left is not None:
            parts.append(f"{_clock(self.seconds_left)} left")
        elif self.seconds:
            parts.append(f"in {_clock(self.seconds)}")
        parts.append(f"{self.steps_per_second:,.1f} steps/s")
        if self.examples_per_second is not None:
            parts.append(f"{self.examples_per_second:,.0f} examples/s")
        parts += [f"{name} {value:.4g}" for name, value in self.metrics.items()]
        shares = ", ".join(
            f"{name} {share:.0%}"
            for name, share in self.shares.items()
            if name != "compile" or share >= 0.005
        )
        return "  ".join([*parts, f"({shares})"] if shares else parts)


class Progress(Generic[T]):
    """Iterates over steps, and shows a bar, or lines where there is no terminal.

    Only the first worker shows something. `show` keeps arrays without waiting for
    them, and reads the last ones when it prints: so devices are not slowed down.

    Args:
        steps: What to iterate over: batches, or steps of `resumable`, which count from
            where they resume.
        total: The number of all steps, if it is known.
        batch_size: The number of examples of a step.
        logdir: Where to write a file for TensorBoard with what is shown.
        interval: Seconds between reports: 0.2 on a terminal, else 10.
        file: Where to write; the standard error stream by default.

    >>> batches = mirrax.data.Dataset.range(6).batch(2)
    >>> progress = Progress(batches, total=3, batch_size=2)
    >>> for batch in progress:
    ...     progress.show(loss=batch.sum())
    >>> print(progress.last_report)
    3/3  in 0:...  ... steps/s  ... examples/s  loss 9  (input ...%, ... devices ...%)
    """

    def __init__(
        self,
        steps: Iterable[T],
        total: int | None = None,
        *,
        batch_size: int | None = None,
        logdir: str | None = None,
        interval: float | None = None,
        file: IO[str] | None = None,
    ) -> None:
        self._steps = steps
        self._total = total
        self._batch_size = batch_size
        self._logdir = logdir
        self._file = sys.stderr if file is None else file
        self._is_terminal = self._file.isatty()
        default = _BAR_SECONDS if self._is_terminal else _LINE_SECONDS
        self._interval = default if interval is None else interval
        self._metrics: dict[str, Any] = {}
        _listen_to_compiler()
        self._meter = _Meter()
        self._has_ended = False
        self._writer: SummaryWriter | None = None
        self._last_report: ProgressReport | None = None

    @property
    def last_report(self) -> ProgressReport | None:
        """The newest report, on all workers; None before the end of the first step.

        After the end of the loop, or `break`, its rates are those of the whole loop.
        """
        meter = self._meter
        times = meter.whole if self._has_ended else meter.recent
        if not times.num_steps:
            return self._last_report
        return self._make_report(times, self._read_metrics())

    def show(self, **metrics: Any) -> None:
        """Remembers what to show with the next report: numbers and scalar arrays."""
        for name, value in metrics.items():
            shape = getattr(value, "shape", None)
            if not isinstance(value, numbers.Real) and shape != ():
                kind = f"type {type(value).__name__}"
                kind = kind if shape is None else f"{kind}, shape {shape}"
                raise TypeError(
                    "`Progress.show` takes numbers and scalar arrays. Received: "
                    f"{name} of {kind}. Reduce it first, for example with "
                    "`strategy.reduce` or `jnp.mean`."
                )
        self._metrics = metrics

    def __iter__(self) -> Iterator[T]:
        source = iter(self._steps)
        meter = self._meter = _Meter()
        self._has_ended = False
        try:
            yield from self._iterate(source, meter)
        except BaseException:
            # After `break`, too. An error here must not hide that of the loop.
            with contextlib.suppress(Exception):
                self._report_end(meter)
            raise
        else:
            self._report_end(meter)
        finally:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            if self._is_terminal and current_peers().is_chief:
                self._file.write("\n")
            # After `break`, `resumable` gives signals back.
            if isinstance(source, Generator | ResumableSteps):
                source.close()

    def _iterate(self, source: Iterator[T], meter: _Meter) -> Iterator[T]:
        for element in source:
            if meter.num_done == 0 and isinstance(source, ResumableSteps):
                meter.num_done = source.num_done
            meter.end_input()
            try:
                yield element
            finally:
                # A step that ends with `break` is one, too.
                meter.end_step()
            is_due = meter.recent.seconds >= self._interval
            is_last = meter.num_done == self._total
            # Asked after a step: before, the job may not have begun.
            if is_due and not is_last and current_peers().is_chief:
                self._report(meter.recent)

    def _report_end(self, meter: _Meter) -> None:
        self._has_ended = True
        if meter.whole.num_steps and current_peers().is_chief:
            self._report(meter.whole)

    def _report(self, times: _Times) -> None:
        metrics = self._read_metrics()
        # Reading them waits for the devices.
        self._meter.end_step(num_steps=0)
        report = self._last_report = self._make_report(times, metrics)
        self._print(report)
        if self._logdir is not None and self._meter.recent.num_steps:
            self._writer = self._writer or create_file_writer(self._logdir)
            recent = self._make_report(self._meter.recent, metrics)
            _write_summaries(recent, self._writer)
        self._meter.recent = _Times()

    def _read_metrics(self) -> dict[str, float]:
        return {name: float(value) for name, value in self._metrics.items()}

    def _make_report(
        self, times: _Times, metrics: Mapping[str, float]
    ) -> ProgressReport:
        rate = times.num_steps / times.seconds
        return ProgressReport(
            step=self._meter.num_done,
            total=self._total,
            steps_per_second=rate,
            examples_per_second=(
                None if self._batch_size is None else rate * self._batch_size
            ),
            shares=times.shares(),
            metrics=metrics,
            seconds=self._meter.whole.seconds,
            seconds_left=None if self._has_ended else self._estimate(),
        )

    def _estimate(self) -> float | None:
        left = 0 if self._total is None else self._total - self._meter.num_done
        seconds = self._meter.seconds_per_step()
        return left * seconds if left > 0 and seconds is not None else None

    def _print(self, report: ProgressReport) -> None:
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns - 1
            self._file.write(f"\r\x1b[K{fit(report, columns)}")
        else:
            self._file.write(f"{report}\n")
        self._file.flush()


def fit(report: ProgressReport, columns: int) -> str:
    """Returns as much of a report as fits into one line: longer ones would scroll."""
    texts = [f"{report}", f"{dataclasses.replace(report, shares={})}"]
    if report.total:
        filled = min(_BAR_WIDTH, _BAR_WIDTH * report.step // report.total)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        texts.insert(0, f"[{bar}] {report}")
    return next((text for text in texts if len(text) <= columns), texts[-1][:columns])


class _Times:
    """Where the time of some steps went."""

    def __init__(self) -> None:
        self.num_steps = 0
        names = ("input", "Python", "compile", "devices")
        self.parts = dict.fromkeys(names, 0.0)

    @property
    def seconds(self) -> float:
        return max(sum(self.parts.values()), 1e-9)

    def shares(self) -> dict[str, float]:
        return {name: part / self.seconds for name, part in self.parts.items()}


class _Meter:
    """Adds up where the time of a loop goes: in all, and since the last report."""

    def __init__(self) -> None:
        self.num_done = 0
        self.whole, self.recent = _Times(), _Times()
        self._first_seconds = 0.0
        self._restart()

    def end_input(self) -> None:
        self._add({"input": time.perf_counter() - self._last})

    def end_step(self, num_steps: int = 1) -> None:
        seconds = time.perf_counter() - self._last
        compiled = min(_compiler.seconds - self._last_compiled, seconds)
        python = min(time.thread_time() - self._last_cpu, seconds - compiled)
        devices = seconds - compiled - python
        self._add({"compile": compiled, "Python": python, "devices": devices})
        for times in (self.whole, self.recent):
            times.num_steps += num_steps
        self.num_done += num_steps
        if self.whole.num_steps == 1:
            self._first_seconds = self.whole.seconds

    def seconds_per_step(self) -> float | None:
        """Returns the mean without the first step, which compiles."""
        num_steps = self.whole.num_steps - 1
        seconds = self.whole.seconds - self._first_seconds
        return seconds / num_steps if num_steps > 0 else None

    def _add(self, parts: Mapping[str, float]) -> None:
        for times in (self.whole, self.recent):
            for name, seconds in parts.items():
                times.parts[name] += seconds
        self._restart()

    def _restart(self) -> None:
        self._last, self._last_cpu = time.perf_counter(), time.thread_time()
        self._last_compiled = _compiler.seconds


class _Compiler(threading.local):
    """The seconds for which this thread has waited for XLA's compiler."""

    seconds = 0.0


_compiler = _Compiler()


@functools.cache
def _listen_to_compiler() -> None:
    def add(event: str, duration_secs: float, **_: Any) -> None:
        if event == _COMPILE_EVENT:
            _compiler.seconds += duration_secs

    jax.monitoring.register_event_duration_secs_listener(add)


def _clock(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


def _write_summaries(report: ProgressReport, writer: SummaryWriter) -> None:
    rates = {"steps_per_second": report.steps_per_second}
    if report.examples_per_second is not None:
        rates["examples_per_second"] = report.examples_per_second
    shares = {f"time/{name}": share for name, share in report.shares.items()}
    with writer.as_default():
        for name, value in {**report.metrics, **rates, **shares}.items():
            recording.scalar(name, value, step=report.step)
