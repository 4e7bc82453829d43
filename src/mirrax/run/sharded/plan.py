"""Decides which values of a replica's program are computed in parts.

A value can exist whole, or as this replica's part. What is needed of each is found by
walking backwards from the outputs. An all-reduce of which only a part is needed becomes
a reduce-scatter (`evaluation`).
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    JaxprEqn,
    Var,
    inlined,
    inner_programs,
    kind_of,
)
from mirrax.collectives.reduce import Collective
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.collectives.spmd import promise_p
from mirrax.collectives.worker_all_reduce import sum_p
from mirrax.devices.topology import AXIS
from mirrax.run.varying import varying_values
from mirrax.variables.mirrored_variable import MirroredVariable
from mirrax.variables.variable import Variable

_LOGGER = logging.getLogger(__name__)

# Operations whose result has the shape of its operands, element by element.
_ELEMENTWISE = frozenset(
    "abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp "
    "complex conj convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv "
    "erfc exp exp2 expm1 floor ge gt imag integer_pow is_finite le lgamma log log1p "
    "logistic lt max min mul ne neg nextafter not optimization_barrier or "
    "population_count pow real reduce_precision rem round rsqrt select_n shift_left "
    "shift_right_arithmetic shift_right_logical sign sin sinh sqrt square "
    f"stop_gradient sub tan tanh xor {promise_p.name}".split()
)
_SUMS = frozenset({"psum", "psum_invariant", sum_p.name})


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.integer) else -np.inf


def _highest(dtype: Any) -> Any:
    return np.iinfo(dtype).max if jnp.issubdtype(dtype, jnp.integer) else np.inf


_LOGICAL = frozenset({"reduce_and", "reduce_or"})
REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "reduce_sum": lambda _: 0,
    "reduce_max": _lowest,
    "reduce_min": _highest,
    "reduce_and": lambda _: True,
    "reduce_or": lambda _: False,
}
"""Reductions that are computed from parts: what padding counts as, for a dtype."""


def may_divide_update(variable: Variable, kind: Any, collective: Collective) -> bool:
    """Returns whether replicas may compute parts of a mirrored variable's new value."""
    is_mirrored = isinstance(variable, MirroredVariable) and not variable.layout
    if collective.update_bytes is None or not is_mirrored:
        return False
    shape, dtype = kind
    is_large = math.prod(shape) * dtype.itemsize >= collective.update_bytes
    return is_large and bool(ShardLayout.of(shape, collective.topology.num_replicas))


class Plan:
    """How each equation is computed.

    Attributes:
        modes: For each equation "whole", "parts" (of operands and result), "scatter"
            (a sum over replicas, of which a part is needed), "reduce" (from parts),
            "block" (a condition or a scan, whose programs have plans of their own), or
            "skip" if nothing needs it.
        blocks: The plans of conditions and scans, by the number of the equation.
        whole: What is needed whole.
        parts: What is needed as parts.

    Args:
        is_cut: Which inputs are given as parts, or can be.
        varying: Which inputs vary between replicas.
        is_part: Which outputs are needed as parts.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        is_cut: Sequence[bool],
        varying: Sequence[bool],
        is_part: Sequence[bool],
        num_replicas: int,
    ) -> None:
        self.closed = inlined(closed, [(AXIS, num_replicas)])
        self.is_part = list(is_part)
        self._num_replicas = num_replicas
        jaxpr = self._jaxpr = self.closed.jaxpr
        self._outputs = list(zip(jaxpr.outvars, is_part, strict=True))
        self._varying = varying_values(jaxpr, varying)
        inputs = zip(jaxpr.invars, is_cut, strict=True)
        self._cut_inputs = {var for var, flag in inputs if flag}
        new = {atom for atom, flag in self._outputs if flag and isinstance(atom, Var)}
        self._cut_shapes = {kind_of(var)[0] for var in self._cut_inputs | new}
        self._uncut: list[str] = []
        self.blocks: dict[int, Block] = {}
        # Whether a reduction uses parts depends on what else is needed of its operand.
        # So needs are found twice; inner plans are made the second time.
        self._reduced: set[int] | None = None
        whole, parts, _ = self._needs()
        self._reduced = self._reductions_of_parts(whole, parts)
        self.whole, self.parts, self.modes = self._needs()

    @property
    def needs_whole(self) -> list[bool]:
        """Which inputs are needed whole."""
        return [var in self.whole for var in self._jaxpr.invars]

    def layout(self, atom: Any) -> ShardLayout:
        layout = ShardLayout.of(kind_of(atom)[0], self._num_replicas)
        assert layout is not None
        return layout

    def scattered_outputs(self) -> list[bool]:
        """Returns which outputs are computed from parts of sums over replicas."""
        found: set[Any] = set()
        for number, (equation, mode) in enumerate(
            zip(self._jaxpr.eqns, self.modes, strict=True)
        ):
            plans = self.blocks[number].plans if mode == "block" else ()
            is_inside = any("scatter" in plan.modes for plan in plans)
            operands = {atom for atom in equation.invars if isinstance(atom, Var)}
            is_next = mode in ("parts", "block") and operands & found
            if mode == "scatter" or is_inside or is_next:
                found.update(equation.outvars)
        return [isinstance(atom, Var) and atom in found for atom, _ in self._outputs]

    def report(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Logs what is gathered for an update, and what is computed whole."""
        atoms = [*self._jaxpr.invars, *self._jaxpr.outvars]
        names = zip(atoms, [*inputs, *outputs], strict=True)
        gathered, operations = self._gathered_for_updates()
        found = {n for a, n in names if isinstance(a, Var) and a in gathered}
        if gathered:
            _LOGGER.info(
                "Sharded state: each step gathers %s for %s; only element-wise "
                "updates and reductions to one number are computed in parts.",
                ", ".join(sorted(found)) or "a new value",
                ", ".join(sorted(operations)),
            )
        elif self._uncut:
            _LOGGER.info(
                "Sharded state: the results of %s are computed whole on every replica "
                "and then cut; only element-wise updates are computed in parts.",
                ", ".join(sorted(set(self._uncut))),
            )

    def _gathered_for_updates(self) -> tuple[set[Any], set[str]]:
        """Returns what is gathered although the forward pass does not need it.

        The forward pass is what varies between replicas, up to a sum over them. Also
        returns the operations that need it.
        """
        equations = list(zip(self._jaxpr.eqns, self.modes, strict=True))
        made = [eqn.outvars for eqn, mode in equations if mode in ("parts", "scatter")]
        parts = self._cut_inputs.union(*made)
        gathered: set[Any] = set()
        forward: set[Any] = set()
        operations = set(self._uncut)
        for equation, mode in reversed(equations):
            operands = {a for a in equation.invars if isinstance(a, Var)}
            if (
                _is_sum_over_replicas(equation)
                or any(map(self._varies, equation.outvars))
                or (mode == "whole" and not forward.isdisjoint(equation.outvars))
            ):
                forward |= operands
            elif mode == "whole" and operands & parts:
                gathered |= operands & parts
                operations.add(equation.primitive.name)
        return gathered - forward, operations

    def _needs(self) -> tuple[set[Var], set[Var], list[str]]:
        """Returns what is needed whole, what as parts, and the modes of equations."""
        whole: set[Var] = set()
        parts: set[Var] = set()
        self._uncut = []

        def need(kind: set[Var], atoms: Sequence[Any]) -> None:
            kind.update(atom for atom in atoms if isinstance(atom, Var))

        for atom, flag in self._outputs:
            need(parts if flag else whole, [atom])
        modes = []
        for number in reversed(range(len(self._jaxpr.eqns))):
            equation = self._jaxpr.eqns[number]
            mode = self._mode(number, equation, whole, parts)
            if mode == "parts":
                shape = kind_of(equation.outvars[0])[0]
                for atom in equation.invars:
                    is_same_shape = kind_of(atom)[0] == shape
                    need(parts if is_same_shape else whole, [atom])
            elif mode == "block" and self._reduced is None:
                for atom in equation.invars:
                    need(parts if self._can_be_cut(atom) else whole, [atom])
            elif mode == "block":
                block = self.blocks[number] = self._block(equation, parts)
                for atom, flag in zip(equation.invars, block.is_part, strict=True):
                    need(parts if flag else whole, [atom])
            elif mode == "reduce":
                need(parts, equation.invars if self._reduced is not None else ())
            elif mode != "skip":
                need(whole, equation.invars)
            modes.append(mode)
        return whole, parts, modes[::-1]

    def _mode(
        self, number: int, equation: JaxprEqn, whole: set[Var], parts: set[Var]
    ) -> str:
        made = equation.outvars
        is_whole = any(var in whole for var in made)
        is_part = any(var in parts for var in made)
        if is_whole and not is_part and self._is_narrowing_read(equation):
            # Cast the part, so that fewer bytes are gathered.
            return "parts"
        if is_part and _is_elementwise(equation):
            # What differs between replicas cannot be gathered.
            if not is_whole or not self._varies(made[0]):
                return "parts"
        elif is_part and not is_whole and _is_sum_over_replicas(equation):
            return "scatter"
        elif (
            is_whole
            and (self._reduced is None or number in self._reduced)
            and _is_full_reduction(equation)
        ):
            return "reduce"
        elif is_part and (
            equation.primitive.name == "scan"
            or (
                equation.primitive.name == "cond"
                and not self._varies(equation.invars[0])
            )
        ):
            return "block"
        if is_part and not _is_sum_over_replicas(equation):
            self._uncut.append(equation.primitive.name)
        return "whole" if is_whole or is_part or equation.effects else "skip"

    def _block(self, equation: JaxprEqn, parts: set[Var]) -> Block:
        """Returns the plan of a condition or a scan.

        A condition gives parts, and a scan carries them.
        """
        params, operands, results = equation.params, equation.invars, equation.outvars
        is_scan = equation.primitive.name == "scan"
        first = 0 if is_scan else 1
        last = params["num_consts"] if is_scan else len(operands)
        num_carry = params["num_carry"] if is_scan else 0
        carried, items = results[:num_carry], operands[last + num_carry :]
        cuttable = carried if is_scan else results
        is_part = [
            var in parts and var in cuttable and not self._varies(var)
            for var in results
        ]
        is_cut = [
            *map(self._can_be_cut, operands[first:last]),
            *is_part[:num_carry],
            *(False for _ in items),
        ]
        # Carried values vary if they do after some iteration.
        given = (*operands[first:last], *carried, *items)
        varying = [self._varies(atom) for atom in given]
        plans = [
            Plan(program, is_cut, varying, is_part, self._num_replicas)
            for program in inner_programs(equation)
        ]
        self._uncut.extend(name for plan in plans for name in plan._uncut)
        needed = zip(*(p.needs_whole for p in plans), strict=True)
        flags = [
            flag and (index >= last - first or not any(column))
            for index, (flag, column) in enumerate(zip(is_cut, needed, strict=True))
        ]
        return Block(plans, [*(False for _ in range(first)), *flags])

    def _can_be_cut(self, atom: Any) -> bool:
        return kind_of(atom)[0] in self._cut_shapes and not self._varies(atom)

    def _varies(self, atom: Any) -> bool:
        return isinstance(atom, Var) and self._varying.get(atom, False)

    def _is_narrowing_read(self, equation: JaxprEqn) -> bool:
        if equation.primitive.name != "convert_element_type":
            return False
        (given,), (made,) = equation.invars, equation.outvars
        is_narrower = kind_of(made)[1].itemsize < kind_of(given)[1].itemsize
        return given in self._cut_inputs and is_narrower

    def _reductions_of_parts(self, whole: set[Var], parts: set[Var]) -> set[int]:
        """Returns the full reductions of values that only exist as parts."""
        cut = {var for var in self._cut_inputs if var not in whole}
        found = set()
        for number, equation in enumerate(self._jaxpr.eqns):
            operands = [atom for atom in equation.invars if isinstance(atom, Var)]
            if _is_sum_over_replicas(equation):
                cut |= (parts - whole) & {*equation.outvars}
            elif _is_elementwise(equation):
                (made,) = equation.outvars
                shape = kind_of(made)[0]
                if any(a in cut and kind_of(a)[0] == shape for a in operands):
                    cut.add(made)
            elif (
                _is_full_reduction(equation)
                and not cut.isdisjoint(operands)
                and not self._varies(operands[0])
            ):
                found.add(number)
        return found


@dataclasses.dataclass(frozen=True)
class Block:
    """How a condition or a scan is computed.

    Args:
        plans: Those of the branches, or of the body.
        is_part: Which operands are given as parts.
    """

    plans: Sequence[Plan]
    is_part: Sequence[bool]


def _is_elementwise(equation: JaxprEqn) -> bool:
    if equation.primitive.name == "broadcast_in_dim":
        return (
            len(equation.invars) == 1 and math.prod(kind_of(equation.invars[0])[0]) == 1
        )
    if equation.primitive.name not in _ELEMENTWISE or len(equation.outvars) != 1:
        return False
    # Axes of size 1 are broadcast, too; parts of such operands would not fit together.
    shape = kind_of(equation.outvars[0])[0]
    return all(kind_of(atom)[0] in ((), shape) for atom in equation.invars)


def _is_sum_over_replicas(equation: JaxprEqn) -> bool:
    return (
        equation.primitive.name in _SUMS
        and equation.params["axes"] == (AXIS,)
        and equation.params.get("axis_index_groups") is None
        and len(equation.invars) == 1
    )


def _is_full_reduction(equation: JaxprEqn) -> bool:
    name = equation.primitive.name
    if name not in REDUCTIONS:
        return False
    shape, dtype = kind_of(equation.invars[0])
    is_fitting = jnp.issubdtype(dtype, jnp.bool_) == (name in _LOGICAL)
    is_real = not jnp.issubdtype(dtype, jnp.complexfloating)
    return is_fitting and is_real and len(equation.params["axes"]) == len(shape) > 0
