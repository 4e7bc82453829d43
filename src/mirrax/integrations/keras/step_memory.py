"""Makes `strategy.memory_report` know the compiled steps of `fit` and `evaluate`."""

from __future__ import annotations

import weakref
from typing import Any

import jax

from mirrax.run.compiled.memory import ProgramMemory, described, memory_of
from mirrax.variables.out_of_memory import SHARD_STATE, advise


class ModelSteps:
    """The compiled steps of a model, which owns them.

    A strategy keeps this while the model exists, so it must not keep the model alive.
    """

    def __init__(self) -> None:
        self._steps: weakref.WeakValueDictionary[str, CompiledStep] = (
            weakref.WeakValueDictionary()
        )

    @property
    def programs(self) -> list[CompiledStep]:
        return list(self._steps.values())

    def add(self, name: str, step: CompiledStep) -> None:
        """Takes a step, in place of an earlier one of this name."""
        self._steps[name] = step


class CompiledStep:
    """A step that Keras has compiled.

    Args:
        step: What `jax.jit` returned.
        name: The model and the step.
    """

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
    steps = strategy.functions.get(model)
    if steps is None:
        steps = strategy.functions[model] = ModelSteps()
    made = CompiledStep(step, f"{model.name}.{step.__name__}")
    steps.add(step.__name__, made)
    return made
