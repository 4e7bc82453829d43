"""Programs of a replica that compute on parts of sharded variables.

In the trace every value is whole. Here each value can exist whole, or as this replica's
part, and is computed as it is needed. New values of sharded variables are needed as
parts. Element-wise operations then need parts of their operands, an all-reduce becomes
a reduce-scatter, and a sum over all elements becomes a sum over the part and a sum over
replicas. A part that is needed whole is gathered.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    bind,
    changed_params,
    initial_values,
    kind_of,
    stand_in_for,
)
from mirrax.collectives import spmd
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.collectives.worker_all_reduce import sum_over_replicas
from mirrax.devices.topology import AXIS
from mirrax.run.sharded.plan import REDUCTIONS, Block, Plan


def evaluate_in_parts(
    closed: ClosedJaxpr,
    inputs: Sequence[Any],
    layouts: Sequence[ShardLayout | None],
    varying: Sequence[bool],
    wanted: Sequence[ShardLayout | None],
    updates: Sequence[bool],
    num_replicas: int,
    names: tuple[Sequence[str], Sequence[str]],
) -> list[Any]:
    """Returns the outputs of a replica's program, some of them as parts.

    Args:
        inputs: Those with a layout are this replica's parts.
        layouts: How the inputs are cut.
        varying: Which inputs vary between replicas.
        wanted: How the outputs are cut.
        updates: Which whole outputs are computed in parts if their gradients can be.
        names: Those of the inputs, and of the outputs.
    """
    is_sharded = any(layouts) or any(wanted)
    if not is_sharded and not any(updates):
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *inputs)
    is_cut = [layout is not None for layout in layouts]
    is_part = [layout is not None for layout in wanted]
    if any(updates):
        every = [*map(operator.or_, is_part, updates)]
        plan = Plan(closed, is_cut, varying, every, num_replicas)
        updates = [*map(operator.and_, updates, plan.scattered_outputs())]
        is_part = [*map(operator.or_, is_part, updates)]
    plan = Plan(closed, is_cut, varying, is_part, num_replicas)
    if is_sharded:
        plan.report(*names)
    values = initial_values(plan.closed, inputs)
    pairs = zip(plan.closed.jaxpr.invars, is_cut, strict=True)
    cut = {var: values.pop(var) for var, flag in pairs if flag}
    evaluation = _Evaluation(plan, values, cut)
    outputs = zip(plan.closed.jaxpr.outvars, evaluation.outputs(), updates, strict=True)
    return [
        evaluation.whole(atom) if is_update else value
        for atom, value, is_update in outputs
    ]


class _Evaluation:
    """The values of a program while it is computed.

    Args:
        whole: The values that are known whole.
        parts: The values of which this replica's part is known.
    """

    def __init__(
        self, plan: Plan, whole: dict[Any, Any], parts: dict[Any, Any]
    ) -> None:
        self._plan = plan
        self._whole = whole
        self._parts = parts
        # Summands of this replica: their sum over the replicas is the value.
        self._summands: dict[Any, Any] = {}

    def outputs(self) -> list[Any]:
        jaxpr = self._plan.closed.jaxpr
        for number, equation in enumerate(jaxpr.eqns):
            self._step(number, equation)
        return [
            self._part(atom) if flag else self.whole(atom)
            for atom, flag in zip(jaxpr.outvars, self._plan.is_part, strict=True)
        ]

    def _step(self, number: int, equation: JaxprEqn) -> None:
        mode = self._plan.modes[number]
        if mode == "skip":
            return
        if mode == "parts":
            self._in_parts(equation)
        elif mode == "block":
            self._block(equation, self._plan.blocks[number])
        elif mode == "scatter":
            (given,), (made,) = equation.invars, equation.outvars
            self._parts[made] = self._plan.layout(made).sum_part(self.whole(given))
        elif mode == "reduce":
            self._reduce(equation)
        elif not self._add_summands(equation):
            inputs = [self.whole(atom) for atom in equation.invars]
            outputs = bind(equation, inputs, equation.params)
            self._whole.update(zip(equation.outvars, outputs, strict=True))

    def whole(self, atom: Any) -> Any:
        """Returns a value; gathers it if only parts are known."""
        if isinstance(atom, Literal):
            return atom.val
        if atom not in self._whole:
            if atom in self._summands:
                self._whole[atom] = sum_over_replicas(
                    self._summands[atom], lax.axis_size(AXIS)
                )
            else:
                self._whole[atom] = self._plan.layout(atom).gather(self._parts[atom])
        return self._whole[atom]

    def _part(self, atom: Any) -> Any:
        if atom not in self._parts:
            whole = jnp.asarray(self.whole(atom))
            self._parts[atom] = self._plan.layout(atom).own_part(whole)
        return self._parts[atom]

    def _in_parts(self, equation: JaxprEqn) -> None:
        (made,) = equation.outvars
        shape, params = kind_of(made)[0], equation.params
        inputs = [
            self._part(atom) if kind_of(atom)[0] == shape else self.whole(atom)
            for atom in equation.invars
        ]
        if equation.primitive.name == "broadcast_in_dim":
            inputs = [jnp.reshape(inputs[0], ())]
            shape = self._plan.layout(made).part_shape
            params = {**params, "shape": shape, "broadcast_dimensions": ()}
        (self._parts[made],) = bind(equation, inputs, params)

    def _block(self, equation: JaxprEqn, block: Block) -> None:
        """Computes a condition or a scan, whose programs get and give parts."""
        given = [
            self._part(atom) if flag else self.whole(atom)
            for atom, flag in zip(equation.invars, block.is_part, strict=True)
        ]
        programs = iter([_traced_in_parts(plan, block) for plan in block.plans])
        params = changed_params(equation, lambda _: next(programs))
        outputs = bind(equation, given, params)
        for var, value, flag in zip(
            equation.outvars, outputs, block.plans[0].is_part, strict=True
        ):
            (self._parts if flag else self._whole)[var] = value

    def _reduce(self, equation: JaxprEqn) -> None:
        (given,), (made,) = equation.invars, equation.outvars
        neutral = REDUCTIONS[equation.primitive.name](kind_of(given)[1])
        part = self._plan.layout(given).filled(self._part(given), neutral)
        (reduced,) = bind(equation, [part], equation.params)
        if equation.primitive.name == "reduce_sum":
            self._summands[made] = reduced
        else:
            # Not by `lax.pmax`, which drops NaN on CPUs.
            params = {**equation.params, "axes": (0,)}
            (self._whole[made],) = bind(equation, [spmd.stacked(reduced)], params)

    def _add_summands(self, equation: JaxprEqn) -> bool:
        """Adds sums before they are combined, which is done once for all of them."""
        if equation.primitive.name not in ("add", "add_any"):
            return False
        known = [atom for atom in equation.invars if not _is_zero(atom)]
        if not known or any(
            isinstance(atom, Literal) or atom not in self._summands for atom in known
        ):
            return False
        inputs = [
            atom.val if isinstance(atom, Literal) else self._summands[atom]
            for atom in equation.invars
        ]
        (self._summands[equation.outvars[0]],) = bind(equation, inputs, equation.params)
        return True


def _traced_in_parts(plan: Plan, block: Block) -> ClosedJaxpr:
    """Returns the program of a branch or a body, some of whose inputs are parts."""
    closed = plan.closed
    inputs = closed.jaxpr.invars
    # The first operand of a condition chooses the branch.
    is_part = block.is_part[len(block.is_part) - len(inputs) :]

    def program(*values: Any) -> list[Any]:
        known = initial_values(closed, values)
        cut = {v: known.pop(v) for v, flag in zip(inputs, is_part, strict=True) if flag}
        return _Evaluation(plan, known, cut).outputs()

    stand_ins = [
        jax.ShapeDtypeStruct(plan.layout(v).part_shape, v.aval.dtype)
        if flag
        else stand_in_for(v.aval)
        for v, flag in zip(inputs, is_part, strict=True)
    ]
    return jax.make_jaxpr(program)(*stand_ins)


def _is_zero(atom: Any) -> bool:
    return isinstance(atom, Literal) and np.ndim(atom.val) == 0 and atom.val == 0
