"""Programs of a replica that compute on parts of sharded variables.

In the trace every value is whole. Here each value can exist whole, or as this replica's
part, and is computed as it is needed. New values of sharded variables are needed as
parts. Element-wise operations then need parts of their operands, an all-reduce becomes
a reduce-scatter, and a sum over all elements becomes a sum over the part and a sum over
replicas. A part that is needed whole is gathered.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
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
    initial_values,
    kind_of,
)
from mirrax.collectives import spmd
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.collectives.worker_all_reduce import sum_over_replicas
from mirrax.devices.topology import AXIS
from mirrax.run.sharded.plan import REDUCTIONS, Plan


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
    cut = {
        var: values.pop(var)
        for var, flag in zip(plan.closed.jaxpr.invars, is_cut, strict=True)
        if flag
    }
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
        elif mode == "branches":
            self._branch(equation, self._plan.inner[number])
        elif mode == "loop":
            self._loop(equation, *self._plan.inner[number])
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

    def _branch(self, equation: JaxprEqn, plans: Sequence[Plan]) -> None:
        """Computes a condition; its branches get and give parts."""
        index, *operands = equation.invars
        variables = [plan.closed.jaxpr.invars for plan in plans]

        def needed(sets: Sequence[set[Any]]) -> list[int]:
            return [
                number
                for number, given in enumerate(zip(*variables, strict=True))
                if any(var in each for var, each in zip(given, sets, strict=True))
            ]

        whole = needed([plan.whole for plan in plans])
        parts = needed([plan.parts for plan in plans])

        def call(plan: Plan) -> Callable[..., list[Any]]:
            def branch(*values: Any) -> list[Any]:
                jaxpr, consts = plan.closed.jaxpr, plan.closed.consts
                known = dict(zip(jaxpr.constvars, consts, strict=True))
                known |= zip([jaxpr.invars[i] for i in whole], values, strict=False)
                cut = zip([jaxpr.invars[i] for i in parts], values[len(whole) :])
                return _Evaluation(plan, known, dict(cut)).outputs()

            return branch

        inputs = [
            *(self.whole(operands[i]) for i in whole),
            *(self._part(operands[i]) for i in parts),
        ]
        outputs = lax.switch(self.whole(index), [*map(call, plans)], *inputs)
        for var, value, flag in zip(
            equation.outvars, outputs, plans[0].is_part, strict=True
        ):
            (self._parts if flag else self._whole)[var] = value

    def _loop(self, equation: JaxprEqn, plan: Plan) -> None:
        """Computes a scan; its body carries some values as parts."""
        params, jaxpr = equation.params, plan.closed.jaxpr
        num_consts, num_carry = params["num_consts"], params["num_carry"]
        num_inputs = num_consts + num_carry
        given = list(zip(jaxpr.invars, equation.invars, strict=True))
        known = dict(zip(jaxpr.constvars, plan.closed.consts, strict=True))
        consts = given[:num_consts]
        known |= {var: self.whole(atom) for var, atom in consts if var in plan.whole}
        cut = {var: self._part(atom) for var, atom in consts if var in plan.parts}
        is_part = plan.is_part[:num_carry]
        carried = jaxpr.invars[num_consts:num_inputs]

        def body(carry: list[Any], elements: list[Any]) -> tuple[list[Any], list[Any]]:
            own_whole = known | dict(zip(jaxpr.invars[num_inputs:], elements))
            own_cut = dict(cut)
            for var, value, flag in zip(carried, carry, is_part, strict=True):
                (own_cut if flag else own_whole)[var] = value
            outputs = _Evaluation(plan, own_whole, own_cut).outputs()
            new = [_strong(value) for value in outputs[:num_carry]]
            return new, outputs[num_carry:]

        pairs = zip(given[num_consts:num_inputs], is_part, strict=True)
        start = [
            _strong(self._part(atom) if flag else self.whole(atom))
            for (_, atom), flag in pairs
        ]
        elements = [self.whole(atom) for _, atom in given[num_inputs:]]
        end, stacked = lax.scan(
            body,
            start,
            elements,
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        for var, value, flag in zip(
            equation.outvars, [*end, *stacked], plan.is_part, strict=True
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


def _strong(value: Any) -> jax.Array:
    """Returns an array without JAX's weak type, which a loop might change."""
    return lax.convert_element_type(value, value.dtype)


def _is_zero(atom: Any) -> bool:
    return isinstance(atom, Literal) and np.ndim(atom.val) == 0 and atom.val == 0
