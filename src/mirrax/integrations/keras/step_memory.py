"""Makes `strategy.memory_report` know the compiled steps of `fit` and `evaluate`."""

from __future__ import annotations

from typing import Any

import jax

from mirrax.run.compiled.memory_report import ProgramMemory, described, memory_of
from mirrax.variables.out_of_memory import SHARD_STATE, advise


class CompiledStep:
    """A step that Keras has compiled."""

    def __init__(self, step: Any, name: str) -> None:
        self._step = step
        self._name = name
        self._first_inputs: Any = None

    def __call__(self, state: Any, data: Any) -> Any:
        if self._first_inputs is None:
            self._first_inputs = described((state, data))
        try:
            return self._step(state, data)
        except jax.errors.JaxRuntimeError as error:
            arrays = [
                (f"an array of shape {a.shape}", a) for a in jax.tree.leaves(state)
            ]
            advise(error, arrays, SHARD_STATE, "A smaller batch needs less, too")
            raise

    @property
    def programs(self) -> list[CompiledStep]:
        """The one program, for the report."""
        return [self]

    def analyzed(self) -> tuple[ProgramMemory, Any] | None:
        """Returns its memory and what XLA compiled; None before the first call."""
        if self._first_inputs is None:
            return None
        compiled = self._step.lower(*self._first_inputs).compile()
        weights, *rest = self._first_inputs[0]
        state = jax.tree.leaves(rest)
        return memory_of(self._name, compiled, weights, state), compiled


def remembered(step: Any, model: Any, strategy: Any) -> CompiledStep:
    """Returns a compiled step of a model; the strategy's memory report will have it."""
    made = CompiledStep(step, f"{model.name}.{step.__name__}")
    strategy.outer_functions.add(made)
    return made
