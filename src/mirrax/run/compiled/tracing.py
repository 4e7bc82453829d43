"""Tracing: from Python to a program with variables as inputs and outputs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax._jax.jaxprs import ClosedJaxpr, Jaxpr, Var, stand_ins
from mirrax.context import stack
from mirrax.devices.topology import AXIS, Topology
from mirrax.run.compiled.arguments import CallArguments
from mirrax.run.compiled.results import Results, split_results
from mirrax.run.gradients.tape_marks import without_marks
from mirrax.trees import Tree
from mirrax.variables import foreign_libraries
from mirrax.variables.overlay import TraceOverlay, lift_reads
from mirrax.variables.variable import Variable


@dataclasses.dataclass(frozen=True)
class Traced:
    """A traced function.

    Args:
        closed: The program. Inputs: the arguments, then the variables in `reads`.
            Outputs: the variables in `writes`, then the results.
        reads: The variables whose value the program needs.
        writes: The variables that it changes.
        result: How what the function returns is put together from the results.
        topologies: The sets of devices that it runs replicas on.
    """

    closed: ClosedJaxpr
    reads: tuple[Variable, ...]
    writes: tuple[Variable, ...]
    result: Results
    topologies: set[Topology]

    @property
    def jaxpr(self) -> Jaxpr:
        """The program without its constants."""
        return self.closed.jaxpr

    @property
    def variable_inputs(self) -> Sequence[Var]:
        """The inputs that stand for the variables in `reads`."""
        inputs: Sequence[Var] = self.jaxpr.invars
        return inputs[len(inputs) - len(self.reads) :]

    @property
    def forwarded(self) -> set[Var]:
        """The inputs that may come out as they are, in the same memory."""
        return {atom for atom in self.jaxpr.outvars if isinstance(atom, Var)}

    def evaluate(self, arguments: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        inputs = (*arguments, *variables)
        return jax.core.eval_jaxpr(self.closed.jaxpr, self.closed.consts, *inputs)


def trace(
    body: Callable[..., tuple[Sequence[jax.Array], Results]],
    arguments: Sequence[Any],
    inside_replica: bool,
    axis_env: Sequence[tuple[str, int]] = (),
    is_for_export: bool = False,
) -> Traced:
    """Returns `body(*arguments)` as a program, whose outputs `body` returns."""
    captured: dict[str, Any] = {}

    def flat(*values: Any) -> list[Any]:
        overlay = TraceOverlay(inside_replica)
        overlay.is_for_export = is_for_export
        with foreign_libraries.routed(), stack.overlaid(overlay):
            arrays, captured["result"] = body(*values)
        captured["writes"] = tuple(overlay.written)
        captured["inputs"], captured["topologies"] = overlay.inputs, overlay.topologies
        return [*(overlay.values[v] for v in overlay.written), *arrays]

    closed = jax.make_jaxpr(flat, axis_env=list(axis_env))(*arguments)
    closed, numbers = lift_reads(without_marks(closed))
    reads = tuple(captured["inputs"][number] for number in numbers)
    return Traced(
        closed, reads, captured["writes"], captured["result"], captured["topologies"]
    )


def trace_program(fn: Callable[..., Tree], given: CallArguments) -> Traced:
    """Returns the trace of `fn`, called once for all devices."""

    def body(*arrays: Any) -> tuple[Sequence[jax.Array], Results]:
        pairs = zip(given.placements, arrays, strict=True)
        args, kwargs = given.filled([placement.wrap(a) for placement, a in pairs])
        return split_results(fn(*args, **kwargs))

    frame = stack.frame()
    is_alone = frame is None or frame.strategy.topology.is_single
    axis_env = [(AXIS, 1)] if is_alone else []
    traced = trace(body, given.stand_ins, inside_replica=False, axis_env=axis_env)
    effects = traced.jaxpr.effects
    if not any(getattr(effect, "name", None) == AXIS for effect in effects):
        return traced
    if not all(topology.is_single for topology in traced.topologies):
        raise NameError(
            f"The axis {AXIS!r} is that of all replicas only inside of `strategy.run`. "
            f"Received: unbound axis name: {AXIS}, in a function that calls `run` for "
            "several replicas. Use the axis in the function that `run` gets."
        )
    return _with_axis_of_one(traced)


def _with_axis_of_one(traced: Traced) -> Traced:
    """Returns a trace that needs no axis of the replicas, as there is one replica."""
    run = functools.partial(jax.core.eval_jaxpr, traced.jaxpr, traced.closed.consts)
    alone = jax.vmap(run, in_axes=None, axis_name=AXIS, axis_size=1)
    closed = jax.make_jaxpr(lambda *inputs: [output[0] for output in alone(*inputs)])(
        *stand_ins(traced.jaxpr)
    )
    return dataclasses.replace(traced, closed=closed)
