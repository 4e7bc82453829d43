"""Programs over several workers, which must not wait for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mirrax.collectives.trail import trail_of
from mirrax.devices.topology import Topology


def guarded(
    topology: Topology, phase: str, program: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns `program`, which raises if another worker dies, fails or is stuck.

    With several workers it waits for its results, because only then an error of a
    worker comes out in the place where it can be explained.
    """
    job = topology.job
    if job is None:
        return program
    trail = trail_of(topology)

    def run(*inputs: Any) -> Any:
        trail.add(phase)
        with job.guard(phase):
            return jax.block_until_ready(program(*inputs))

    return run
