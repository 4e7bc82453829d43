"""Runs a Python function on several workers, each in its own process."""

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
from mirrax.launch.job_result import JobResult
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
    """Runs a function on new workers and returns the results of all.

    For notebooks and tests. Each worker is a new Python process, in which the function
    creates its own `MultiWorkerMirroredStrategy`.

        def train():
            strategy = mirrax.MultiWorkerMirroredStrategy()
            ...

        losses = mirrax.launch.run(train, workers=2)

    Args:
        fn: A function. One from a notebook needs the package cloudpickle.
        workers: The number of workers.
        args: The arguments of the function, the same for all.
        devices_per_worker: The number of CPU devices of each worker.
        timeout: Seconds after which all workers are killed.
        environment: Additional environment variables.
        show: Called with each line of output.
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
        result = supervisor.run(timeout)
        _check(result, timeout)
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


def _check(result: JobResult, timeout: float | None) -> None:
    if result.timed_out:
        raise CollectiveTimeout(
            f"The workers must end within {timeout:g} s, and were ended. Their logs:\n"
            + join_logs(result)
        )
    if result.exit_code:
        raise WorkerFailed(result.report, worker=result.first)


def join_logs(result: JobResult) -> str:
    """Returns the output of all workers as one text."""
    return "\n".join(
        f"--- worker {index}, exit code {code} ---\n{log}"
        for index, (code, log) in enumerate(zip(result.exit_codes, result.logs))
    )
