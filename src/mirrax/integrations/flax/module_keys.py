"""Cache keys of programs for the static parts of modules, such as train or eval."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import flax
import jax
from flax import nnx

from mirrax.context import stack
from mirrax.integrations.flax import internals
from mirrax.variables.foreign_libraries import counters

OBJECTS = (nnx.Module, nnx.Optimizer, nnx.Metric, nnx.Rngs, nnx.RngStream)
"""The Flax objects that contain variables."""


class ModuleKeys:
    """Numbers that change with the static part of a module; programs depend on it.

    `model.eval()` changes the program but no variable. Computing a graph definition
    takes longer than a step, so it is repeated only after an attribute was set.
    """

    def __init__(self) -> None:
        self._members: set[int] = set()
        self._known: dict[int, tuple[Any, int, int]] = {}
        # Numbers stand for graph definitions, which are slow to hash.
        self._numbers: dict[Hashable, int] = {}
        owner, name, _ = internals.SET_ATTRIBUTE
        setattr(owner, name, self._versioned_setattr())

    def of(self, root: Any) -> int:
        """Returns a number for the static part of a module, an optimizer, ..."""
        known, version = self._known.get(id(root)), counters.fingerprints
        if known is not None and known[1] == version and known[0]() is root:
            return known[2]
        number = id(root)
        reference = weakref.ref(root, lambda _: self._known.pop(number, None))
        described = self._numbers.setdefault(nnx.graphdef(root), len(self._numbers))
        self._members.update(id(node) for _, node in nnx.iter_graph(root))
        self._known[number] = reference, version, described
        return described

    def _versioned_setattr(self) -> Callable[..., None]:
        *_, set_attribute = internals.SET_ATTRIBUTE

        def __setattr__(module: Any, name: str, value: Any) -> None:  # noqa: N807
            if stack.overlay() is not None and internals.is_from_outside(module):
                _check_not_data(module, name, value)
            set_attribute(module, name, value)
            if id(module) in self._members:
                counters.fingerprints += 1

        return __setattr__


def _check_not_data(module: Any, name: str, value: Any) -> None:
    is_traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(value))
    if is_traced or nnx.is_data(value):
        raise flax.errors.TraceContextError(
            "A traced value cannot become an attribute of a module that was created "
            f"outside. Received: {type(module).__name__}.{name} of type "
            f"{type(value).__name__}. Return the value, or create an `nnx.Variable` "
            "for it in `__init__`."
        )
