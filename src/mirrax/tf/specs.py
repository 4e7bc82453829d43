"""What is known about a tensor before it is there."""

from __future__ import annotations

from typing import Any

import mirrax
from mirrax.tf.tensors import tensor


class _TypeSpecType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, mirrax.TensorSpec)


class TypeSpec(metaclass=_TypeSpecType):
    """`tf.TypeSpec`, for `isinstance`: a `tf.TensorSpec`."""


def type_spec_from_value(value: Any) -> mirrax.TensorSpec:
    """Returns shape and dtype of a tensor, a variable or an array."""
    if not hasattr(value, "dtype"):
        value = tensor(value)
    return mirrax.TensorSpec(tuple(value.shape), value.dtype)
