"""Runs programs over several workers, with typed errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mirrax._jax.config import without_nan_rerun
from mirrax.collectives.program_order import program_log_of
from mirrax.devices.topology import Topology


def replica_program(
    topology: Topology,
    name: str,
    body: Callable[..., Any],
    in_specs: Any,
    out_specs: Any,
) -> Any:
    """Returns `body`, what one replica does, as a compiled program over all of them."""
    mapped = jax.shard_map(
        body,
        mesh=topology.mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        check_vma=False,
    )
    return jax.jit(without_nan_rerun(mapped, name))


def guarded(
    topology: Topology, phase: str, program: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns `program`, made to raise if another worker dies, fails or is stuck.

    With several workers it waits for its results, so that the error is raised at the
    call.
    """
    job = topology.job
    if job is None:
        return program
    log = program_log_of(topology)

    def run(*inputs: Any) -> Any:
        log.add(phase)
        with job.guard(phase):
            return jax.block_until_ready(program(*inputs))

    return run
