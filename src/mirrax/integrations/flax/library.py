"""How the variables of Flax take part in traces, gradients and checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from flax import nnx
from typing_extensions import override

from mirrax.integrations.flax import hooks
from mirrax.integrations.flax.graphs import OBJECTS, Graphs
from mirrax.integrations.flax.stand_ins import require_stand_in
from mirrax.variables import foreign_libraries


class FlaxLibrary(foreign_libraries.Library):
    """Flax NNX, as a library whose variables take part."""

    def __init__(self) -> None:
        self._graphs = Graphs()

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
                [require_stand_in(value)], lambda gradients: gradients[0]
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
            [require_stand_in(v) for v in variables], assemble
        )

    @override
    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, nnx.Variable):
            return None
        return (
            "A variable of Flax by itself cannot be an argument: JAX makes a copy of "
            f"it, and what is written to the copy is lost. Received: {value!r}. Pass "
            "the module that it belongs to, close over it, or pass its value, "
            "`variable[...]`."
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
        own = [self._graphs.of(leaf) for leaf in leaves if isinstance(leaf, OBJECTS)]
        return (self._graphs.of_closure(fn), *own)


def _kept(variable: Any) -> foreign_libraries.SavedArray:
    stand_in = require_stand_in(variable)
    return foreign_libraries.SavedArray(stand_in.get_array, stand_in.set_array)
