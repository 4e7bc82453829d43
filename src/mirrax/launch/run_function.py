"""Runs a Python function on several workers, each in its own process."""

from __future__ import annotations

import ast
import os
import pathlib
import pickle
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle

from mirrax.errors import CollectiveTimeout, WorkerFailed
from mirrax.launch.console import CONSOLE
from mirrax.launch.job_result import JobResult
from mirrax.launch.machines import Alone
from mirrax.launch.restarts import run_job


def run(
    fn: Callable[..., Any],
    workers: int = 2,
    args: Sequence[Any] = (),
    *,
    devices_per_worker: int | None = None,
    timeout: float | None = None,
    max_restarts: int = 0,
    environment: Mapping[str, str] | None = None,
    show: Callable[[str], None] | None = None,
) -> list[Any]:
    """Runs a function on new workers and returns the results of all.

    For notebooks and tests. Each worker is a new Python process, in which the function
    creates its own `MultiWorkerMirroredStrategy`.

        def train():
            strategy = mirrax.MultiWorkerMirroredStrategy()
            ...

        losses = mirrax.launch.run(train, workers=2)

    Args:
        fn: A function. It may be defined in a notebook or in the main script.
        workers: The number of workers.
        args: The arguments of the function, the same for all.
        devices_per_worker: The number of CPU devices of each worker.
        timeout: Seconds after which all workers are killed.
        max_restarts: How often to start all workers again after a failure.
        environment: Additional environment variables.
        show: Called with each line of output; prints it by default.
    """
    with tempfile.TemporaryDirectory(prefix="mirrax-run-") as name:
        folder = pathlib.Path(name)
        _write_order(folder, fn, args)
        result = run_job(
            Alone(workers),
            [sys.executable, "-m", "mirrax.launch.worker_main", name],
            folder,
            max_restarts=max_restarts,
            devices_per_worker=devices_per_worker,
            environment={**os.environ, **(environment or {})},
            show=show or CONSOLE.show_line,
            show_bar=CONSOLE.show_bar if show is None else lambda _: None,
            timeout=timeout,
        )
        _check(result, timeout)
        return [
            pickle.loads((folder / f"result-{index}").read_bytes())
            for index in range(workers)
        ]


def _write_order(
    folder: pathlib.Path, fn: Callable[..., Any], args: Sequence[Any]
) -> None:
    is_in_main = getattr(fn, "__module__", None) == "__main__"
    main = _find_guarded_main() if is_in_main else None
    order = {"path": list(sys.path), "main": main}
    # A script whose main program is guarded can be imported by the workers. In others,
    # such as notebooks, what `__main__` defines goes to them by value.
    dump = cloudpickle.dumps if main is None else pickle.dumps
    try:
        data = dump((fn, tuple(args)))
    except Exception as error:
        raise TypeError(
            "The function, its arguments and the variables that it uses must be "
            f"picklable, because the workers are other processes. Received: {error}. "
            "Make such objects inside of the function, or move the function into a "
            "module."
        ) from error
    (folder / "order").write_bytes(pickle.dumps(order))
    (folder / "call").write_bytes(data)


def _find_guarded_main() -> str | None:
    """Returns the main script if it called this under `if __name__ == "__main__"`."""
    main = sys.modules["__main__"]
    path: str = getattr(main, "__file__", None) or ""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        code = frame.f_code
        if frame.f_globals is vars(main) and code.co_name == "<module>":
            # For standard input it is "<stdin>".
            is_script = os.path.isfile(path) and code.co_filename == path
            return path if is_script and _is_guarded(path, frame.f_lineno) else None
    return None


def _is_guarded(path: str, line: int) -> bool:
    tree = ast.parse(pathlib.Path(path).read_bytes())
    guards = [
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and any(
            isinstance(part, ast.Name) and part.id == "__name__"
            for part in ast.walk(node.test)
        )
    ]
    return any(node.lineno <= line <= (node.end_lineno or 0) for node in guards)


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
