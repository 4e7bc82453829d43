"""The `input_signature` of a function: which arguments fit it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrax.values.per_replica import PerReplica
from mirrax.values.regroup import select
from mirrax.values.specs import PerReplicaSpec, TensorSpec


def check(name: str, specs: Sequence[Any], args: Sequence[Any]) -> None:
    """Raises unless the arguments of the function called `name` fit `specs`."""
    if len(args) != len(specs):
        raise TypeError(
            f"{name} takes {len(specs)} argument(s), as its `input_signature` says. "
            f"Received: {len(args)}."
        )
    for spec, arg in zip(specs, args, strict=True):
        _check(spec, arg)


def _check(spec: Any, arg: Any) -> None:
    if isinstance(spec, TensorSpec):
        spec.check(select(arg, 0))
    elif isinstance(spec, PerReplicaSpec):
        if isinstance(arg, PerReplica):
            for part_spec, part in zip(spec.parts, arg.values, strict=True):
                part_spec.check(part)
        else:
            spec.parts[0].check(arg)
    elif isinstance(spec, dict):
        for name, inner in spec.items():
            _check(inner, arg[name])
    elif isinstance(spec, tuple | list):
        for inner, inner_arg in zip(spec, arg, strict=True):
            _check(inner, inner_arg)
