"""Runs a Python function on several workers, each in a process of its own."""

from __future__ import annotations

import importlib
import os
import pathlib
import pickle
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mirrax.errors import CollectiveTimeout, WorkerFailed
from mirrax.launch.outcome import Outcome
from mirrax.launch.supervisor import Supervisor, show_line
from mirrax.launch.worker_plan import plan_local


def run(
    fn: Callable[..., Any],
    workers: int = 2,
    args: Sequence[Any] = (),
    *,
    devices_per_worker: int | None = None,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    show: Callable[[str], None] = show_line,
) -> list[Any]:
    """Returns what a function returns on each of several new workers.

    For notebooks and tests. Each worker is a fresh Python process, in which the
    function makes its own `MultiWorkerMirroredStrategy`.

        def train():
            strategy = mirrax.MultiWorkerMirroredStrategy()
            ...

        losses = mirrax.launch.run(train, workers=2)

    Args:
        fn: A function. One from a notebook needs the package cloudpickle.
        workers: How many workers to start.
        args: The arguments of the function, the same for all.
        devices_per_worker: How many CPU devices each worker has.
        timeout: After how many seconds all workers are ended.
        environment: Environment variables beside those of this process.
        show: Takes each line that a worker prints.
    """
    with tempfile.TemporaryDirectory(prefix="mirrax-run-") as name:
        folder = pathlib.Path(name)
        _write_order(folder, fn, args)
        supervisor = Supervisor(
            plan_local(workers),
            [sys.executable, "-m", "mirrax.launch.worker_main", name],
            devices_per_worker=devices_per_worker,
            environment={**os.environ, **(environment or {})},
            show=show,
        )
        outcome = supervisor.run(timeout)
        _check(outcome, timeout)
        return [
            pickle.loads((folder / f"result-{index}").read_bytes())
            for index in range(workers)
        ]


def _write_order(
    folder: pathlib.Path, fn: Callable[..., Any], args: Sequence[Any]
) -> None:
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    order: dict[str, Any] = {"path": list(sys.path), "main": None}
    if fn.__module__ == "__main__" and path is None:
        data = _dump_by_value(fn, args)
    else:
        if fn.__module__ == "__main__":
            order["main"] = os.path.abspath(str(path))
        data = pickle.dumps((fn, tuple(args)))
    (folder / "order").write_bytes(pickle.dumps(order))
    (folder / "call").write_bytes(data)


def _dump_by_value(fn: Callable[..., Any], args: Sequence[Any]) -> bytes:
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        raise RuntimeError(
            "A function that is defined in a notebook needs cloudpickle to reach other "
            f"processes. Received: {fn.__qualname__}. Install cloudpickle, or put the "
            "function into a module."
        ) from None
    data: bytes = cloudpickle.dumps((fn, tuple(args)))
    return data


def _check(outcome: Outcome, timeout: float | None) -> None:
    if outcome.timed_out:
        raise CollectiveTimeout(
            f"The workers must end within {timeout:g} s, and were ended. Their logs:\n"
            + join_logs(outcome)
        )
    if outcome.exit_code:
        raise WorkerFailed(outcome.report, worker=outcome.first)


def join_logs(outcome: Outcome) -> str:
    """Returns everything that all workers have printed, one after another."""
    return "\n".join(
        f"--- worker {index}, exit code {code} ---\n{log}"
        for index, (code, log) in enumerate(zip(outcome.exit_codes, outcome.logs))
    )
