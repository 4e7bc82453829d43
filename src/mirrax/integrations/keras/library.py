"""Keras variables in traces, gradients and checkpoints."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import keras
from typing_extensions import override

from mirrax.integrations.keras import restoring
from mirrax.integrations.keras.settings import OBJECTS, key_of
from mirrax.integrations.keras.variable_hooks import proxy_of, read_whole, write_whole
from mirrax.integrations.reachable_objects import CapturedKeys
from mirrax.values.tensor_spec import TensorSpec
from mirrax.variables.foreign_libraries import (
    ExportedCall,
    Library,
    SavedArray,
    Sources,
)


class KerasLibrary(Library):
    """The integration of Keras, whose hooks are always installed."""

    def __init__(self) -> None:
        self._setting_keys = CapturedKeys(OBJECTS, key_of)

    @property
    @override
    def leaf_types(self) -> tuple[type, ...]:
        return (keras.Variable,)

    @override
    def routed(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    @override
    def saved_arrays_of(self, value: Any) -> dict[str, SavedArray] | None:
        if isinstance(value, keras.Variable):
            return {"": _kept(value)}
        if isinstance(value, keras.random.SeedGenerator):
            return {"state": _kept(value.state)}
        if isinstance(value, keras.optimizers.Optimizer):
            return _numbered(value)
        if not isinstance(value, keras.Layer | keras.metrics.Metric):
            return None
        found = _numbered(value)
        optimizer = getattr(value, "optimizer", None)
        if optimizer is not None:
            slots = _numbered(optimizer)
            found.update({f"optimizer/{name}": kept for name, kept in slots.items()})
        return found

    @override
    def early_arrays_of(self, value: Any) -> dict[str, SavedArray]:
        if isinstance(value, keras.Layer):
            early = self.early_arrays_of(getattr(value, "optimizer", None))
            return {f"optimizer/{name}": held for name, held in early.items()}
        if not isinstance(value, keras.optimizers.Optimizer) or value.built:
            return {}
        first = value.variables[0]
        # An optimizer that scales losses has others first.
        return {"0": _kept(first)} if first is value.iterations else {}

    @override
    def fingerprint(self, fn: Callable[..., Any], leaves: Sequence[Any]) -> Hashable:
        return self._setting_keys.of(fn, leaves)

    @override
    def exported_call(self, value: Any) -> ExportedCall | None:
        if not isinstance(value, keras.Model):
            return None

        def call(inputs: Any) -> Any:
            return value(inputs, training=False)

        return call, [_input_spec(value)]

    @override
    def aliases_of(self, value: Any) -> dict[str, str]:
        if not isinstance(value, keras.Layer) or not restoring.is_complete(value):
            return {}
        numbers = {id(variable): str(i) for i, variable in enumerate(value.variables)}
        return {
            path: numbers[id(variable)]
            for path, variable in _attributes(value, set())
            if id(variable) in numbers
        }

    @override
    def when_complete(self, value: Any, then: Callable[[], bool]) -> None:
        if isinstance(value, keras.Layer | keras.optimizers.Optimizer):
            restoring.when_complete(value, then)

    @override
    def sources(self, value: Any) -> Sources | None:
        if not isinstance(value, keras.Variable):
            return None
        return Sources([proxy_of(value)], lambda gradients: gradients[0])


def _input_spec(model: Any) -> Any:
    if not model.built:
        raise ValueError(
            "A Keras model is exported with the shapes of its inputs. Received: "
            f"'{model.name}', which has none yet. Call it on a batch first."
        )
    inputs = getattr(model, "inputs", None)
    if not inputs:
        shapes = model.get_build_config()["input_shape"]
        return _spec_of_shapes(shapes, model.input_dtype)
    is_single = isinstance(model, keras.Sequential) or model.input == inputs[:1]
    return keras.tree.map_structure(
        lambda x: TensorSpec(x.shape, x.dtype, x.name),
        inputs[0] if is_single else model.input,
    )


def _spec_of_shapes(shapes: Any, dtype: Any, name: str = "inputs") -> Any:
    # Keras' own lists and dicts are no structures of JAX.
    if isinstance(shapes, Mapping):
        return {key: _spec_of_shapes(shapes[key], dtype, key) for key in shapes}
    if shapes and all(isinstance(part, Sequence) for part in shapes):
        numbered = enumerate(shapes, 1)
        return [_spec_of_shapes(part, dtype, f"{name}_{i}") for i, part in numbered]
    return TensorSpec((None, *shapes[1:]), dtype, name)


def _attributes(value: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yields the variables of a layer with the attributes that lead to them."""
    seen.add(id(value))
    for name, held in vars(value).items():
        if isinstance(held, keras.Variable):
            # `kernel` is a property of the attribute `_kernel`.
            yield name.lstrip("_"), held
        elif not name.startswith("_"):
            for path, layer in _layers_in(name, held):
                if id(layer) not in seen:
                    for inner, variable in _attributes(layer, seen):
                        yield f"{path}/{inner}", variable


def _layers_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, keras.Layer):
        yield name, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _layers_in(f"{name}/{index}", item)


def _kept(variable: Any) -> SavedArray:
    return SavedArray(
        functools.partial(read_whole, variable),
        functools.partial(write_whole, variable),
    )


def _numbered(value: Any) -> dict[str, SavedArray]:
    """Returns the variables by number, because Keras' names depend on name counters.

    Returns none while some are missing.
    """
    if not restoring.is_complete(value):
        return {}
    return {
        str(index): _kept(variable) for index, variable in enumerate(value.variables)
    }
