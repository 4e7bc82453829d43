"""Lists and dicts that tell when they change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jax.tree_util import register_pytree_with_keys, tree_flatten_with_path
from typing_extensions import override

Changed = Callable[[], bool]
"""Called after each change, until it returns True."""


class _Observed:
    """A container that tells when it changes, and changes the original as well.

    For JAX, `copy` and `pickle` it is a plain one. JAX sees the items of the original,
    which the user may hold.
    """

    def __init__(self, original: Any) -> None:
        super().__init__(original)  # type: ignore[call-arg]
        self.original = original
        self.observers: list[Changed] = []

    @override
    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = type(self.original)
        return kind, (kind(self),)

    def items_with_keys(self) -> tuple[Any, Any]:
        """Returns the items with their keys, and the structure of them, for JAX."""
        pairs, structure = tree_flatten_with_path(
            self.original, is_leaf=lambda value: value is not self.original
        )
        return [(path[0], item) for path, item in pairs], structure


class ObservedList(_Observed, list[Any]):
    """A list that tells when it changes."""

    def write_through(self) -> None:
        self.original[:] = self


class ObservedDict(_Observed, dict[Any, Any]):
    """A dict that tells when it changes."""

    def write_through(self) -> None:
        self.original.clear()
        self.original.update(self)


def observe(value: Any, changed: Changed) -> Any:
    """Returns a list or dict, also nested ones in it, that calls `changed`.

    Other values are returned as they are.
    """
    if type(value) is list:
        value = ObservedList(value)
    elif type(value) is dict:
        value = ObservedDict(value)
    if not isinstance(value, ObservedList | ObservedDict):
        return value
    kind: Any = type(value.original)
    for key in list(value) if kind is dict else range(len(value)):
        kind.__setitem__(value, key, observe(value[key], changed))
    if changed not in value.observers:
        value.observers.append(changed)
    return value


def _observed(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        self.write_through()
        self.observers = [changed for changed in self.observers if not changed()]
        return result

    return call


_METHODS = {
    ObservedList: "append extend insert remove reverse sort __iadd__ __imul__",
    ObservedDict: "popitem setdefault update __ior__",
}
for _kind, _names in _METHODS.items():
    for _name in (*_names.split(), "__setitem__", "__delitem__", "clear", "pop"):
        setattr(_kind, _name, _observed(getattr(_kind, _name)))
    register_pytree_with_keys(
        _kind,
        _kind.items_with_keys,
        lambda structure, items: structure.unflatten(items),
    )
