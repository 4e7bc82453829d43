"""The values that variables have inside a trace.

While a program is traced, variables neither give their stored arrays nor keep what is
assigned. An overlay hands out traced stand-ins and collects the writes; whoever started
the trace turns both into inputs and outputs of the program.
"""

from __future__ import annotations

import abc
from typing import Any, Protocol

import jax
from typing_extensions import override

from mirrax._jax.jaxprs import Primitive
from mirrax._jax.traces import current_trace, is_staging, set_current_trace
from mirrax.context import guards, stack
from mirrax.devices.topology import Topology
from mirrax.variables.variable import Variable

read_p = Primitive("read_variable")
"""A read in a traced program; replaced by an input before the program is compiled.

Its parameter is a number, because JAX keeps the parameters of what it has seen, and
would keep the variable alive.
"""
read_p.def_abstract_eval(lambda *, number, aval: aval)


class Watcher(Protocol):
    """A tape, which follows how a program uses variables."""

    def saw(self, variable: Variable, value: Any) -> None:
        """Notes that the program has read `value`."""

    def apart(self, value: Any) -> Any:
        """Returns `value` without the way in which it was computed."""


class Overlay(abc.ABC):
    """Values of variables that hold only inside one trace.

    Args:
        inside_replica: Whether the trace is of one replica's work, so that variables
            read as one replica sees them.
        topologies: The sets of devices that the trace runs replicas on.
        watchers: The tapes that record.
    """

    def __init__(
        self,
        inside_replica: bool,
        topologies: set[Topology],
        watchers: list[Watcher],
    ) -> None:
        self.inside_replica = inside_replica
        self.topologies = topologies
        self.watchers = watchers
        self.values: dict[Variable, Any] = {}
        self.written: dict[Variable, None] = {}
        self._trace = current_trace()

    @property
    def is_eager(self) -> bool:
        """Whether only a derivative is under way, in code that runs eagerly."""
        return False

    @property
    def has_derivative(self) -> bool:
        """Whether a derivative by variables is under way, and no tape alone."""
        return False

    @property
    def is_current(self) -> bool:
        """Whether a write at this place can reach the overlay."""
        return current_trace() is self._trace

    @abc.abstractmethod
    def knows(self, variable: Variable) -> bool:
        """Returns whether the trace decides on the value of `variable`."""

    def read(self, variable: Variable) -> jax.Array:
        """Returns the value that `variable` has at this point of the trace."""
        value = self._find(variable)
        for watcher in self.watchers:
            watcher.saw(variable, value)
        return value

    @abc.abstractmethod
    def _find(self, variable: Variable) -> jax.Array:
        """Returns the value of `variable`."""

    def seen(self, variable: Variable) -> jax.Array | None:
        """Returns the value as user code sees it, where that is what is held."""
        return None

    def write(self, variable: Variable, value: jax.Array) -> None:
        """Makes `value` what `variable` has from this point on."""
        self.require_current(variable)
        self.values[variable] = self._kept(value)
        self.written[variable] = None
        self._forget_traces()

    def require_current(self, variable: Variable) -> None:
        """Raises where a write of `variable` cannot reach the overlay."""
        if not self.is_current:
            if guards.may_be_driven():
                raise guards.NeedsPython(
                    "assigns a variable inside a transformation (`tf.cond`, "
                    "`tf.while_loop`, ...)",
                    "Assign what it returns, outside of it,",
                )
            raise RuntimeError(
                f"Variable '{variable.name}' is assigned inside a JAX transformation "
                "(jax.grad, jit, scan, cond, vmap, ...), from which the value cannot "
                "get out. Return the new value from the transformed function and "
                "assign it outside, or use `mirrax.value_and_grad` for `jax.grad`."
            )

    def _kept(self, value: jax.Array) -> jax.Array:
        """Returns what is kept of a value that is written."""
        return value

    def _forget_traces(self) -> None:
        """Makes JAX trace functions anew that may have read what was written."""
        stack.forget_traces()


class TraceOverlay(Overlay):
    """The overlay of a whole program: each variable it meets becomes an input."""

    def __init__(self, inside_replica: bool) -> None:
        super().__init__(inside_replica, set(), [])
        self.inputs: list[Variable] = []

    @override
    def knows(self, variable: Variable) -> bool:
        return True

    @override
    def _find(self, variable: Variable) -> jax.Array:
        if variable not in self.values:
            # At the level of the whole trace, so that a first read inside a scan or a
            # cond is an input of the program too.
            with set_current_trace(self._trace):
                aval = variable.traced_aval(self.inside_replica)
                value = read_p.bind(number=len(self.inputs), aval=aval)
            self.inputs.append(variable)
            self.values[variable] = value
        return self.values[variable]  # type: ignore[no-any-return]

    @override
    def _kept(self, value: jax.Array) -> jax.Array:
        # A tape differentiates by what is read, not through what was assigned.
        return self.watchers[-1].apart(value) if self.watchers else value


class ValueOverlay(Overlay):
    """An overlay that replaces some variables and leaves the others as they were."""

    def __init__(self, values: dict[Variable, Any], parent: Overlay | None) -> None:
        if parent is None:
            super().__init__(False, set(), [])
        else:
            super().__init__(parent.inside_replica, parent.topologies, parent.watchers)
        self.values.update(values)
        self._parent = parent

    @property
    @override
    def is_eager(self) -> bool:
        return self._parent is None or self._parent.is_eager

    @property
    @override
    def has_derivative(self) -> bool:
        return True

    @override
    def knows(self, variable: Variable) -> bool:
        if variable in self.values:
            return True
        return self._parent is not None and self._parent.knows(variable)

    @override
    def _find(self, variable: Variable) -> jax.Array:
        if is_staging(inside=self._trace):
            # Of a variable that another overlay may know, too.
            stack.spend_traces()
        if variable in self.values:
            return self.values[variable]  # type: ignore[no-any-return]
        if self._parent is not None:
            return self._parent.read(variable)
        return variable.read_stored()

    @override
    def seen(self, variable: Variable) -> jax.Array | None:
        if variable in self.values:
            return self.read(variable)
        return None if self._parent is None else self._parent.seen(variable)
