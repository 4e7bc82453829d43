"""`tf.range` in converted code: to loop over, its bounds may be traced."""

from __future__ import annotations

from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax.export import is_symbolic_dim

from mirrax.tf.errors import NotCompilable
from mirrax.tf.tensors.creation import range as static_range
from mirrax.tf.tensors.tensor import is_traced, operands

MAX_UNROLLED = 10_000
"""The longest range whose numbers are known while a function is traced."""


def tensor_range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None
) -> Any:
    """Returns `tf.range`; a `TracedRange` if its bounds are traced."""
    if is_traced((start, limit, delta)):
        return TracedRange(start, limit, delta, dtype)
    if any(map(is_symbolic_dim, (start, limit, delta))):
        return static_range(start, limit, delta, dtype)
    with jax.ensure_compile_time_eval():
        found = static_range(start, limit, delta, dtype)
    return (
        found
        if len(found) <= MAX_UNROLLED
        else static_range(start, limit, delta, dtype)
    )


class TracedRange:
    """A range whose length is not known yet: only to be looped over.

    Args:
        start: The first number; the limit, if that is None.
        limit: Where it ends.
        delta: The step.
        dtype: The dtype of the numbers.
    """

    def __init__(self, start: Any, limit: Any, delta: Any, dtype: Any) -> None:
        first, last = (0, start) if limit is None else (start, limit)
        first, last, step = jnp.broadcast_arrays(*operands(first, last, delta))
        self._first = first if dtype is None else first.astype(dtype)
        self._step = step.astype(self._first.dtype)
        self.length = jnp.maximum(0, -((first - last) // step)).astype(jnp.int32)

    def at(self, index: Any) -> Any:
        """Returns the number at an index."""
        return self._first + index.astype(self._first.dtype) * self._step

    def __jax_array__(self) -> NoReturn:
        _refuse()

    def __getattr__(self, name: str) -> NoReturn:
        _refuse()


def _refuse(*_: Any) -> NoReturn:
    raise NotCompilable("A tensor of unknown length, `tf.range(n)` with a traced `n`.")


for _name in ("getitem", "iter", "len", "neg", "array"):
    setattr(TracedRange, f"__{_name}__", _refuse)
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(TracedRange, f"__{_name}__", _refuse)
    setattr(TracedRange, f"__r{_name}__", _refuse)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedRange, f"__{_name}__", _refuse)
