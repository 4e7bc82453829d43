"""How Keras variables take part in traces and gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import keras
from typing_extensions import override

from mirrax.integrations.keras.variables import twin_of
from mirrax.variables.libraries import Kept, Library, Sources


class KerasLibrary(Library):
    """The variables of Keras; their twins answer everywhere, so nothing is routed."""

    @property
    @override
    def leaf_types(self) -> tuple[type, ...]:
        return (keras.Variable,)

    @override
    def routed(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    @override
    def kept_of(self, value: Any) -> dict[str, Kept] | None:
        if isinstance(value, keras.Variable):
            return {"": _kept(value)}
        if isinstance(value, keras.optimizers.Optimizer):
            return _numbered(value.variables)
        if not isinstance(value, keras.Layer | keras.metrics.Metric):
            return None
        # By number: the names that Keras gives depend on what was made before.
        found = _numbered(value.variables)
        optimizer = getattr(value, "optimizer", None)
        if optimizer is not None:
            slots = _numbered(optimizer.variables)
            found.update({f"optimizer/{name}": kept for name, kept in slots.items()})
        return found

    @override
    def sources(self, value: Any) -> Sources | None:
        if not isinstance(value, keras.Variable):
            return None
        return Sources([twin_of(value)], lambda gradients: gradients[0])


def _kept(variable: Any) -> Kept:
    return Kept(lambda: variable.value, variable.assign)


def _numbered(variables: Iterable[Any]) -> dict[str, Kept]:
    return {str(index): _kept(variable) for index, variable in enumerate(variables)}
