"""How Keras variables take part in traces and gradients."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
from typing_extensions import override

from mirrax.integrations.keras.variables import twin_of
from mirrax.variables.libraries import Library, Sources


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
    def sources(self, value: Any) -> Sources | None:
        if not isinstance(value, keras.Variable):
            return None
        return Sources([twin_of(value)], lambda gradients: gradients[0])
