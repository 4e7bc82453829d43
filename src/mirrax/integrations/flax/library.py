"""Flax variables in traces, gradients and checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from flax import nnx
from typing_extensions import override

from mirrax.context import stack
from mirrax.integrations.flax import hooks, internals
from mirrax.integrations.flax.module_keys import OBJECTS, ModuleKeys
from mirrax.integrations.flax.variables import require_proxy
from mirrax.integrations.reachable_objects import CapturedKeys
from mirrax.variables import foreign_libraries


class FlaxLibrary(foreign_libraries.Library):
    """The integration of Flax NNX."""

    def __init__(self) -> None:
        stack.register_library_state(internals.cleared_transforms)
        number_of = ModuleKeys().of
        self._keys = CapturedKeys(OBJECTS, lambda found: tuple(map(number_of, found)))

    @property
    @override
    def leaf_types(self) -> tuple[type, ...]:
        return OBJECTS

    @override
    def routed(self) -> contextlib.AbstractContextManager[Any]:
        return hooks.routed()

    @override
    def sources(self, value: Any) -> foreign_libraries.Sources | None:
        if isinstance(value, nnx.Variable):
            return foreign_libraries.Sources(
                [require_proxy(value)], lambda gradients: gradients[0]
            )
        if isinstance(value, nnx.Module):
            value = nnx.state(value, nnx.Param)
        if not isinstance(value, nnx.State):
            return None
        variables, structure = jax.tree.flatten(
            value, is_leaf=lambda leaf: isinstance(leaf, nnx.Variable)
        )

        def assemble(gradients: Sequence[Any]) -> Any:
            pairs = zip(variables, gradients, strict=True)
            return jax.tree.unflatten(structure, [v.copy(g) for v, g in pairs])

        return foreign_libraries.Sources(
            [require_proxy(v) for v in variables], assemble
        )

    @override
    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, nnx.Variable):
            return None
        return (
            "A single Flax variable cannot be an argument: JAX copies it, and writes "
            f"to the copy are lost. Received: {value!r}. Pass its module, close over "
            "it, or pass its value, `variable[...]`."
        )

    @override
    def saved_arrays_of(
        self, value: Any
    ) -> dict[str, foreign_libraries.SavedArray] | None:
        if isinstance(value, nnx.Variable):
            return {"": _kept(value)}
        if not isinstance(value, OBJECTS):
            return None
        state = nnx.to_flat_state(nnx.state(value))
        return {
            "/".join(str(part) for part in path): _kept(variable)
            for path, variable in state
        }

    @override
    def fingerprint(self, fn: Callable[..., Any], leaves: Sequence[Any]) -> Hashable:
        return self._keys.of(fn, leaves)


def _kept(variable: Any) -> foreign_libraries.SavedArray:
    proxy = require_proxy(variable)
    return foreign_libraries.SavedArray(proxy.get_array, proxy.set_array)
