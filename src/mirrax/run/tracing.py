"""Tracing: from the user's Python to a program with variables as inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from mirrax.context import stack
from mirrax.jax_internals import ClosedJaxpr, Jaxpr, Var
from mirrax.later import Later
from mirrax.run.jaxprs import rebuilt
from mirrax.variables import libraries
from mirrax.variables.overlay import TraceOverlay, read_p
from mirrax.variables.variable import Variable

if TYPE_CHECKING:
    from mirrax.run import tape_marks
else:
    tape_marks = Later("mirrax.run.tape_marks")


@dataclasses.dataclass(frozen=True)
class Traced:
    """A traced function.

    Args:
        closed: The program. Inputs: the arguments, then the variables in `reads`.
            Outputs: the variables in `writes`, then the results.
        reads: The variables whose value the program needs.
        writes: The variables that it changes.
        result: What the Python function said about the results.
    """

    closed: ClosedJaxpr
    reads: tuple[Variable, ...]
    writes: tuple[Variable, ...]
    result: Any

    @property
    def jaxpr(self) -> Jaxpr:
        """The program without its constants."""
        jaxpr: Jaxpr = self.closed.jaxpr
        return jaxpr

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
        """Returns the outputs for these inputs."""
        inputs = (*arguments, *variables)
        return jax.core.eval_jaxpr(self.closed.jaxpr, self.closed.consts, *inputs)


def trace(
    body: Callable[..., tuple[Sequence[jax.Array], Any]],
    arguments: Sequence[Any],
    inside_replica: bool,
    axis_env: Sequence[tuple[str, int]] = (),
) -> Traced:
    """Returns `body(*arguments)` as a program.

    `body` returns the arrays that become outputs, and anything else about the result.
    """
    captured: dict[str, Any] = {}

    def flat(*values: Any) -> list[Any]:
        overlay = TraceOverlay(inside_replica)
        with libraries.routed(), stack.overlaid(overlay):
            arrays, captured["result"] = body(*values)
        captured["writes"] = tuple(overlay.written)
        captured["inputs"] = overlay.inputs
        return [*(overlay.values[v] for v in overlay.written), *arrays]

    closed = jax.make_jaxpr(flat, axis_env=list(axis_env))(*arguments)
    closed, numbers = _lift_reads(tape_marks.differentiate(closed, axis_env))
    reads = tuple(captured["inputs"][number] for number in numbers)
    return Traced(closed, reads, captured["writes"], captured["result"])


def _lift_reads(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[int]]:
    """Turns the reads of variables in a program into inputs of it."""
    jaxpr = closed.jaxpr
    reads = [eqn for eqn in jaxpr.eqns if eqn.primitive is read_p]
    rest = [eqn for eqn in jaxpr.eqns if eqn.primitive is not read_p]
    inputs = [*jaxpr.invars, *(eqn.outvars[0] for eqn in reads)]
    lifted = rebuilt(jaxpr, jaxpr.constvars, inputs, jaxpr.outvars, rest)
    return ClosedJaxpr(lifted, closed.consts), [eqn.params["number"] for eqn in reads]
