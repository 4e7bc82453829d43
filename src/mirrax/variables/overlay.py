"""The values of variables inside a trace.

While a program is traced, reads and writes of variables go to an overlay instead of
their stored arrays. It returns traced values and collects writes. The code that started
the trace turns them into inputs and outputs of the program.
"""

from __future__ import annotations

import abc
import weakref
from typing import Any

import jax
from typing_extensions import override

from mirrax._jax.config import evaluates_constants
from mirrax._jax.jaxprs import ClosedJaxpr, Primitive, rebuilt
from mirrax._jax.traces import current_trace, evaluated, is_staging, set_current_trace
from mirrax.context import stack
from mirrax.devices.topology import Topology
from mirrax.variables.variable import Variable

read_p = Primitive("read_variable")
"""A read in a traced program; replaced by an input before the program is compiled.

Its parameter is a number, because JAX caches parameters, which would keep the variable
alive.
"""
read_p.def_abstract_eval(lambda *, number, aval: aval)


def lift_reads(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[int]]:
    """Turns the reads of variables in a program into inputs of it.

    Also returns the number of the variable that each new input stands for.
    """
    jaxpr = closed.jaxpr
    reads = [eqn for eqn in jaxpr.eqns if eqn.primitive is read_p]
    rest = [eqn for eqn in jaxpr.eqns if eqn.primitive is not read_p]
    inputs = [*jaxpr.invars, *(eqn.outvars[0] for eqn in reads)]
    lifted = rebuilt(jaxpr, jaxpr.constvars, inputs, jaxpr.outvars, rest)
    return ClosedJaxpr(lifted, closed.consts), [eqn.params["number"] for eqn in reads]


class Overlay(abc.ABC):
    """The values of variables inside one trace.

    Args:
        inside_replica: Whether the trace is that of one replica, so that reads return
            its copy.

    Attributes:
        topologies: The sets of devices that the trace runs replicas on.
        strategies: The strategies that they belong to.
        is_eager: Whether this is a derivative in eager code.
        has_derivative: Whether this is a derivative by variables, not only a tape.
        is_for_export: Whether the program is for one device, so that all variables
            have one value.
    """

    def __init__(self, inside_replica: bool, parent: Overlay | None = None) -> None:
        self.inside_replica = inside_replica
        self.topologies: set[Topology] = set()
        # Weakly, because programs outlive strategies.
        self.strategies: weakref.WeakSet[Any] = weakref.WeakSet()
        self.is_eager = self.has_derivative = self.is_for_export = False
        if parent is not None:
            self.topologies, self.strategies = parent.topologies, parent.strategies
            self.is_eager = parent.is_eager
            self.is_for_export = parent.is_for_export
            self.has_derivative = parent.has_derivative
        self.values: dict[Variable, Any] = {}
        self.written: dict[Variable, None] = {}
        self._trace = current_trace()

    def note_run(self, strategy: Any) -> None:
        self.topologies.add(strategy.topology)
        self.strategies.add(strategy)

    @property
    def is_current(self) -> bool:
        """Whether a write here can reach the overlay."""
        return current_trace() is self._trace

    @property
    def writes_at_once(self) -> bool:
        """Whether a write here happens now and once, not in each call of a program."""
        return False

    @abc.abstractmethod
    def knows(self, variable: Variable) -> bool:
        """Returns whether `variable` has its value in this overlay."""

    @abc.abstractmethod
    def read(self, variable: Variable) -> jax.Array:
        """Returns the value that `variable` has at this point of the trace."""

    def seen(self, variable: Variable) -> jax.Array | None:
        """Returns the value as user code sees it, if the overlay has it so."""
        return None

    def write(self, variable: Variable, value: jax.Array) -> None:
        """Sets the value of `variable` from this point of the trace on."""
        self.require_current(variable)
        self.values[variable] = value
        self.written[variable] = None
        self._invalidate_traces()

    def require_current(self, variable: Variable) -> None:
        """Raises if a write of `variable` cannot reach the overlay."""
        if not self.is_current:
            raise RuntimeError(
                f"Variable '{variable.name}' was assigned inside a JAX transformation "
                "(jax.grad, jit, scan, cond, vmap, ...), which the value cannot leave. "
                "Use `mirrax.cond`, `mirrax.scan`, `mirrax.value_and_grad`, ... in "
                "place of JAX's, or return the new value and assign it outside."
            )

    def _invalidate_traces(self) -> None:
        """Makes JAX retrace functions that may have read the old value."""
        stack.invalidate_traces()


class TraceOverlay(Overlay):
    """The overlay of a whole program: each variable that it reads becomes an input.

    In a `jax.ensure_compile_time_eval` block, a read gives the stored value. Outside of
    replicas a write changes it.
    """

    def __init__(self, inside_replica: bool, parent: Overlay | None = None) -> None:
        super().__init__(inside_replica, parent)
        self.inputs: list[Variable] = []

    @override
    def knows(self, variable: Variable) -> bool:
        return True

    @property
    @override
    def writes_at_once(self) -> bool:
        return evaluates_constants() and not self.inside_replica

    @override
    def seen(self, variable: Variable) -> jax.Array | None:
        if not evaluates_constants() or variable in self.written:
            return None
        with stack.overlaid(None), evaluated():
            return variable.read_stored()

    @override
    def read(self, variable: Variable) -> jax.Array:
        stored = self.seen(variable)
        if stored is not None:
            return stored
        if variable not in self.values:
            # In the outermost trace, so that a first read inside a scan or a cond is
            # an input of the program too.
            aval = self._aval(variable)
            with set_current_trace(self._trace):
                value = read_p.bind(number=len(self.inputs), aval=aval)
            self.inputs.append(variable)
            self.values[variable] = value
        return self.values[variable]

    def _aval(self, variable: Variable) -> Any:
        return variable.traced_aval(self.inside_replica or self.is_for_export)


class BlockOverlay(TraceOverlay):
    """The overlay of a branch or a loop body: variables that it reads are its inputs.

    Args:
        around: The trace outside of the block.
    """

    def __init__(self, parent: Overlay, around: Any) -> None:
        super().__init__(parent.inside_replica, parent)
        self.before: dict[Variable, Any] = {}
        self._parent = parent
        self._around = around

    @override
    def _aval(self, variable: Variable) -> Any:
        with set_current_trace(self._around):
            self.before[variable] = self._parent.read(variable)
        return jax.typeof(self.before[variable])


class ValueOverlay(Overlay):
    """An overlay that replaces the values of some variables."""

    def __init__(self, values: dict[Variable, Any], parent: Overlay | None) -> None:
        super().__init__(parent is not None and parent.inside_replica, parent)
        self.is_eager = parent is None or parent.is_eager
        self.has_derivative = True
        self.values.update(values)
        self._parent = parent

    @override
    def knows(self, variable: Variable) -> bool:
        if variable in self.values:
            return True
        return self._parent is not None and self._parent.knows(variable)

    @override
    def read(self, variable: Variable) -> jax.Array:
        if is_staging(inside=self._trace):
            # JAX caches this trace, and another overlay may have the variable too.
            stack.invalidate_derivative_traces()
        if variable in self.values:
            return self.values[variable]
        if self._parent is not None:
            return self._parent.read(variable)
        return variable.read_stored()

    @override
    def seen(self, variable: Variable) -> jax.Array | None:
        if variable in self.values and variable not in self.written:
            return self.read(variable)
        return None if self._parent is None else self._parent.seen(variable)
