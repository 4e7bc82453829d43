"""The `input_signature` of a function: which arguments fit it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from mirrax import trees
from mirrax.values.array_like import is_array_like
from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import select
from mirrax.values.tensor_spec import PerReplicaSpec, TensorSpec


def required_specs(specs: Any) -> tuple[Any, ...]:
    """Returns the descriptions in an `input_signature`; raises if it has others."""
    is_list = isinstance(specs, list | tuple)
    if not is_list or any(isinstance(s, int | float | str | type) for s in specs):
        raise TypeError(
            "`input_signature` is a list with a description for each argument, such as "
            f"[TensorSpec([None, 2])]. Received: {specs!r}."
        )
    return tuple(specs)


def fitted_arguments(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    is_method: bool,
) -> tuple[Any, dict[str, Any]]:
    """Returns arguments of `fn` as arrays of the specs; raises unless they fit.

    Lists become arrays. Integers that are no arrays of JAX fit a floating dtype.

    Args:
        is_method: Whether the first argument is the object that it is called on.
    """
    name = getattr(fn, "__name__", repr(fn))
    if kwargs:
        try:
            bound = inspect.signature(fn).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        args, kwargs = bound.args, bound.kwargs
    first = int(is_method)
    args = _with_defaults(fn, args, first + len(specs))
    if len(args) - first != len(specs):
        raise TypeError(
            f"{name} takes {len(specs)} argument(s), as its `input_signature` says. "
            f"Received: {len(args) - first}."
        )
    own = [_fitted(spec, arg) for spec, arg in zip(specs, args[first:], strict=True)]
    return (*args[:first], *own), kwargs


def _with_defaults(
    fn: Callable[..., Any], args: Sequence[Any], count: int
) -> Sequence[Any]:
    """Returns `count` arguments, if the missing ones have defaults."""
    if len(args) >= count:
        return args
    missing = list(inspect.signature(fn).parameters.values())[len(args) : count]
    has_all = all(p.default is not inspect.Parameter.empty for p in missing)
    return (*args, *(p.default for p in missing)) if has_all else args


def _fitted(spec: Any, arg: Any) -> Any:
    """Returns an argument that fits its description, or raises."""
    if isinstance(spec, TensorSpec):
        is_list = _is_list_of_numbers(arg)
        arg = spec.converted(np.asarray(arg) if is_list else arg)
        spec.check(select(arg, 0))
        return jnp.asarray(arg) if is_list else arg
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
