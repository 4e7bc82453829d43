"""The `input_signature` of a function: which arguments fit it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from mirrax import trees
from mirrax.values.array_like import is_array_like
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import select
from mirrax.values.tensor_spec import PerReplicaSpec, TensorSpec


class Signature:
    """The specs that the arguments of a function must match.

    Args:
        specs: Descriptions that its arguments must fit; None if there are none.

    Attributes:
        is_method: Whether the first argument is the object that it is called on.
    """

    def __init__(
        self, name: str, fn: Callable[..., Any], specs: Sequence[Any] | None
    ) -> None:
        self._name = name
        self._fn = fn
        self.specs = None if specs is None else _required_specs(specs)
        self.is_method = False

    def fitted(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Returns these arguments, lists as arrays; raises unless they fit."""
        if self.specs is None:
            return args, kwargs
        if kwargs:
            try:
                bound = inspect.signature(self._fn).bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self._name}: {error}") from None
            args, kwargs = bound.args, bound.kwargs
        first = int(self.is_method)
        if len(args) - first != len(self.specs):
            raise TypeError(
                f"{self._name} takes {len(self.specs)} argument(s), as its "
                f"`input_signature` says. Received: {len(args) - first}."
            )
        own = [_fitted(s, a) for s, a in zip(self.specs, args[first:], strict=True)]
        return (*args[:first], *own), kwargs


def _required_specs(specs: Any) -> tuple[Any, ...]:
    is_list = isinstance(specs, list | tuple)
    if not is_list or any(isinstance(s, int | float | str | type) for s in specs):
        raise TypeError(
            "`input_signature` is a list with a description for each argument, such as "
            f"[TensorSpec([None, 2])]. Received: {specs!r}."
        )
    return tuple(specs)


def _fitted(spec: Any, arg: Any) -> Any:
    """Returns an argument that fits its description, or raises."""
    if isinstance(spec, TensorSpec):
        spec.check(select(arg, 0))
        return jnp.asarray(arg) if _is_list_of_numbers(arg) else arg
    if isinstance(spec, PerReplicaSpec):
        if not isinstance(arg, PerReplica):
            return _fitted(spec.parts[0], arg)
        for part_spec, part in zip(spec.parts, arg.values, strict=True):
            part_spec.check(part)
    elif isinstance(spec, dict):
        if not isinstance(arg, dict) or spec.keys() != arg.keys():
            raise _nested_differently(spec, arg)
        fitted = {name: _fitted(inner, arg[name]) for name, inner in spec.items()}
        return fitted if type(arg) is dict else arg
    elif isinstance(spec, tuple | list):
        if not isinstance(arg, tuple | list) or len(spec) != len(arg):
            raise _nested_differently(spec, arg)
        items = [_fitted(s, a) for s, a in zip(spec, arg, strict=True)]
        return type(arg)(items) if type(arg) in (tuple, list) else arg
    return arg


def _is_list_of_numbers(arg: Any) -> bool:
    is_list = isinstance(arg, list | tuple)
    return is_list and all(is_array_like(leaf) for leaf in trees.leaves(arg))


def _nested_differently(spec: Any, arg: Any) -> TypeError:
    return TypeError(
        "An argument must be nested as its entry in `input_signature`: the same keys, "
        f"the same lengths. Received: {trees.flatten(arg)[1]} for {spec}."
    )
