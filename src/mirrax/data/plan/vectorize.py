"""Vectorizes a function of one element.

The function is called with `StackedRows`, which look like one element and hold all
rows. Operations that are exact for all rows at once are vectorized; any other raises
`NotVectorizable`, and the function is called for each element instead.
"""

from __future__ import annotations

import dis
import functools
import inspect
import random
import types
from collections.abc import (
    Callable,
    Iterator,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from typing import Any, NoReturn

import jax
import numpy as np

from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.user_functions import UserErrors, call_with_element
from mirrax.errors import InvalidArgumentError

_MUTABLE_TYPES = (
    Iterator,
    MutableMapping,
    MutableSequence,
    MutableSet,
    np.random.Generator,
    np.random.RandomState,
    random.Random,
)


# Values that stay the same between calls; writes to arrays are found in the code.
_CONSTANT_TYPES = (
    bool | int | float | complex | str | bytes | type | types.ModuleType,
    types.BuiltinFunctionType | types.NoneType,
    np.ndarray | np.generic | np.ufunc | jax.Array,
)
_WRITES = {"STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR"}


class NotVectorizable(Exception):  # noqa: N818 - a signal to the planner
    """An operation that cannot be vectorized exactly."""


class MappedFunction:
    """A function that is called for many elements at once if the results are equal."""

    def __init__(
        self, function: Callable[..., Any], vectorize: bool, skip_log_level: int = 0
    ) -> None:
        self._function = function
        self._skip_log_level = skip_log_level
        self._vectorize = vectorize and is_pure(function)
        self._is_deterministic = self._vectorize and is_deterministic(function)
        self._is_verified = False
        self._nesting: Any = None

    def try_batched(
        self, structure: Any, columns: Columns
    ) -> tuple[Any, Columns] | None:
        """Returns structure and columns of the results; None if not vectorizable."""
        if not self._vectorize or cols.num_rows(columns) < 2:
            return None
        try:
            is_known = self._is_verified and self._is_deterministic
            nesting, result = vectorized(self._function, structure, columns, is_known)
            if result and (
                self._is_verified
                or self._matches_single_call(structure, columns, result)
            ):
                self._is_verified = True
                return nesting, result
        except Exception:
            # A real error appears again when it is called for each element.
            pass
        self._vectorize = False
        return None

    def call(self, structure: Any, row: Sequence[Any], number: int) -> Any:
        """Returns the leaves and the structure of the result for one element.

        None if there is none, because errors are skipped.
        """
        with UserErrors("map", number, self._skip_log_level):
            result = call_with_element(self._function, structure, row)
            leaves, nesting = jax.tree.flatten(result)
            self._check(nesting, result)
            return leaves, nesting
        return None

    def _check(self, nesting: Any, result: Any) -> None:
        if not nesting.num_leaves:
            raise InvalidArgumentError(
                "A function given to `map` must return arrays, or a structure of "
                f"them. Received: {result!r}."
            )
        if self._nesting is None:
            self._nesting = nesting
        elif nesting != self._nesting:
            raise InvalidArgumentError(
                "A function given to `map` must return the same structure for every "
                f"element. Received: {nesting} after {self._nesting}."
            )

    def _matches_single_call(
        self, structure: Any, columns: Columns, result: Columns
    ) -> bool:
        """Returns whether a separate call for the last row gives the same result."""
        row = cols.rows_of(cols.select(columns, slice(-1, None)))[0]
        own = jax.tree.leaves(call_with_element(self._function, structure, row))
        return all(
            np.asarray(leaf).dtype == column.dtype
            and np.array_equal(np.asarray(leaf), column[-1])
            for leaf, column in zip(own, result, strict=True)
        )


class StackedRows(np.lib.mixins.NDArrayOperatorsMixin):
    """All rows of a column, looking like one of them."""

    __slots__ = ("rows",)

    def __init__(self, rows: np.ndarray[Any, Any]) -> None:
        self.rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.rows.shape[1:])

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    @property
    def ndim(self) -> int:
        return self.rows.ndim - 1

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        is_plain = method == "__call__" and function.signature is None
        if function is np.power and _ndim(inputs[0]) == 0:
            # NumPy's scalars and arrays differ in the last bit.
            raise NotVectorizable
        if not is_plain or options.keys() - {"dtype", "casting"}:
            raise NotVectorizable
        ndim = max(_ndim(x) for x in inputs)
        result = function(*(_lift(x, ndim) for x in inputs), **options)
        return (
            tuple(map(StackedRows, result))
            if isinstance(result, tuple)
            else StackedRows(result)
        )

    def astype(self, dtype: Any) -> StackedRows:
        return StackedRows(self.rows.astype(dtype))

    def reshape(self, *shape: Any) -> StackedRows:
        if len(shape) == 1 and not isinstance(shape[0], int):
            (shape,) = shape
        return StackedRows(self.rows.reshape(len(self.rows), *shape))

    def __getitem__(self, key: Any) -> StackedRows:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, StackedRows | np.ndarray | list) for k in keys):
            raise NotVectorizable
        return StackedRows(self.rows[(slice(None), *keys)])

    def _reduce(self, name: str, axis: int | None = None) -> StackedRows:
        axes: Any = tuple(range(1, self.rows.ndim))
        if axis is not None:
            axes = axis + 1 if axis >= 0 else axis
        return StackedRows(getattr(self.rows, name)(axis=axes))

    sum = functools.partialmethod(_reduce, "sum")
    mean = functools.partialmethod(_reduce, "mean")
    max = functools.partialmethod(_reduce, "max")
    min = functools.partialmethod(_reduce, "min")

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotVectorizable

    __bool__ = __float__ = __int__ = __index__ = _refuse
    __iter__ = __len__ = __array__ = __array_function__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def _ndim(value: Any) -> int:
    return value.ndim if isinstance(value, StackedRows) else np.ndim(value)


def _lift(value: Any, ndim: int) -> Any:
    if not isinstance(value, StackedRows):
        return value
    missing = (1,) * (ndim - value.ndim)
    return value.rows.reshape(len(value.rows), *missing, *value.shape)


def vectorized(
    function: Callable[..., Any],
    structure: Any,
    columns: Columns,
    is_known: bool = False,
) -> tuple[Any, Columns]:
    """Returns structure and columns of `function` of all rows.

    Raises any error of the function, and `NotVectorizable` if it draws random numbers;
    `is_known` skips that check.
    """
    if not all(isinstance(c, np.ndarray) and c.dtype != object for c in columns):
        raise NotVectorizable
    before = None if is_known else _random_states()
    result = call_with_element(
        function, structure, [StackedRows(column) for column in columns]
    )
    if not is_known and _random_states() != before:
        # Each row needs its own random number.
        raise NotVectorizable
    leaves, nesting = jax.tree.flatten(result)
    return nesting, [_rows_of(leaf) for leaf in leaves]


def is_pure(function: Callable[..., Any]) -> bool:
    """Returns whether a function seems to depend on its arguments alone.

    A captured random generator, iterator or container may change between calls.
    """
    try:
        found = inspect.getclosurevars(function)
    except TypeError:
        return False
    values = [*found.nonlocals.values(), *found.globals.values()]
    return not any(isinstance(value, _MUTABLE_TYPES) for value in values)


def is_deterministic(function: Callable[..., Any]) -> bool:
    """Returns whether a function captures only constants and has no side effects."""
    return _is_deterministic(function, set())


def _is_deterministic(value: Any, known: set[int]) -> bool:
    if isinstance(value, _CONSTANT_TYPES) or id(value) in known:
        return True
    if not isinstance(value, types.FunctionType) or _has_side_effects(value.__code__):
        return False
    known.add(id(value))
    found = inspect.getclosurevars(value)
    seen = [*found.nonlocals.values(), *found.globals.values()]
    defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return all(_is_deterministic(item, known) for item in [*seen, *defaults])


def _has_side_effects(code: types.CodeType) -> bool:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    writes = any(i.opname in _WRITES for i in dis.get_instructions(code))
    return writes or any(map(_has_side_effects, inner))


def _rows_of(leaf: Any) -> np.ndarray[Any, Any]:
    if isinstance(leaf, StackedRows):
        return leaf.rows
    # A constant may differ between calls.
    raise NotVectorizable


def _random_states() -> tuple[Any, ...]:
    state: Any = np.random.get_state()
    return state[2], random.getstate()[1][-1]
