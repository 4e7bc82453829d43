"""Tracing: from Python to a program with variables as inputs and outputs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from mirrax._jax.jaxprs import ClosedJaxpr, Jaxpr, Var
from mirrax._jax.traces import current_trace, is_traced_in
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.run.gradients.tape_marks import without_marks
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
        result: What `body` returned beside the arrays.
        topologies: The sets of devices that it runs replicas on.
    """

    closed: ClosedJaxpr
    reads: tuple[Variable, ...]
    writes: tuple[Variable, ...]
    result: Any
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


def refuse_hidden_tracers(leaf: Any) -> None:
    """Raises if an attribute of `leaf`, which is no pytree, holds a traced value."""
    trace = current_trace()
    kind = type(leaf)
    slots = [getattr(each, "__slots__", ()) for each in kind.__mro__]
    for name in itertools.chain(getattr(leaf, "__dict__", ()), *map(_names, slots)):
        if any(is_traced_in(x, trace) for x in _leaves(getattr(leaf, name, None))):
            register = "Register the class with `jax.tree_util.register_pytree_node`"
            if dataclasses.is_dataclass(leaf):
                register = "Decorate the class with `@jax.tree_util.register_dataclass`"
            raise TypeError(
                "A compiled function returns arrays, plain objects, and containers "
                f"that JAX knows. Received: a {kind.__name__} with a traced value in "
                f"`{kind.__name__}.{name}`, which would stay a tracer. {register}, or "
                "return a tuple or a dict."
            )


def _names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _leaves(value: Any) -> list[Any]:
    try:
        return jax.tree.leaves(value)
    except ValueError:  # The keys of a dict cannot be sorted.
        return [value]
