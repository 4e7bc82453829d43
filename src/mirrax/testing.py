"""Help for testing programs that run on several workers. Needs pytest.

In `conftest.py`:

    from mirrax.testing import run_in_processes

and then:

    def test_workers_add_up(run_in_processes):
        assert run_in_processes(train, num_processes=2) == [3.0, 3.0]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from mirrax.errors import JobError
from mirrax.launch.run_function import run

__all__ = ["launch_processes", "run_in_processes"]


def launch_processes(
    fn: Callable[..., Any],
    num_processes: int = 2,
    args: Sequence[Any] = (),
    *,
    devices: int | None = None,
    timeout: float = 300.0,
    environment: Mapping[str, str] | None = None,
) -> list[Any]:
    """Runs a function on several new workers, and returns all results.

    Every worker is a new interpreter, which ends with the call. If one fails, or the
    timeout passes, the test fails with the output of all.

    Args:
        fn: A module-level function, such as one of the test module.
        num_processes: How many workers to start.
        args: The arguments of the function, equal for all.
        devices: How many CPU devices each worker has.
        timeout: After how many seconds to kill the workers.
        environment: Environment variables besides those of this process.
    """
    lines: list[str] = []
    try:
        return run(
            fn,
            num_processes,
            args,
            devices_per_worker=devices,
            timeout=timeout,
            environment=environment,
            show=lines.append,
        )
    except JobError as error:
        output = "\n".join(lines)
        pytest.fail(f"{error}\n\nAll output:\n{output}", pytrace=False)


@pytest.fixture
def run_in_processes() -> Callable[..., list[Any]]:
    """The fixture of `launch_processes`."""
    return launch_processes
