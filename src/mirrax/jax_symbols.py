"""Sizes that stand for any number, on JAX' symbolic dimensions, which are private.

JAX can trace a program whose shapes hold symbols, but gives up where something depends
on what a symbol is. A `Size` never gives up: it also knows the number that it has in
the call being traced, answers with it, and notes what was asked. The trace is right
for every call whose numbers give the same answers.

Everything here was tested with jax 0.10.2. Whoever raises the version reads this file.
"""

from __future__ import annotations

import dis
import math
import operator
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from typing_extensions import override

try:
    from jax._src import core as _core
    from jax._src import dtypes as _dtypes
    from jax._src.export import shape_poly as _shape_poly
    from jax._src.export.shape_poly import SymbolicScope as _SymbolicScope
    from jax._src.export.shape_poly import _DimExpr, _DimFactor
    from jax._src.export.shape_poly import dim_as_value_p as dim_as_value_p
    from jax._src.numpy.einsum import _poly_einsum_handlers
except ImportError as error:
    raise ImportError(
        "Mirrax was tested with jax 0.10.2 and does not know this version. "
        f"Received: jax {jax.__version__}. Install 'jax>=0.10.2,<0.11'."
    ) from error

Numbers = Mapping[str, int]
"""The number that each symbol stands for."""

OF_PARTS = "part"
"""How the symbols start of sizes that may be others on each replica."""

_COMPARE = dis.opmap["COMPARE_OP"]

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    _DimFactor.FLOORDIV: operator.floordiv,
    _DimFactor.MOD: operator.mod,
    _DimFactor.MAX: max,
    _DimFactor.MIN: min,
}


class Scope(_SymbolicScope):
    """The sizes of one trace, and what was asked about them.

    Args:
        numbers: What the symbols stand for in the call being traced.
    """

    def __init__(self, numbers: Numbers) -> None:
        super().__init__()
        self.numbers = dict(numbers)
        self._thread: int | None = threading.get_ident()
        # By the terms of differences, because comparing differences would ask again.
        self._answers: dict[Any, tuple[_DimExpr, bool]] = {}

    @property
    def is_open(self) -> bool:
        """Whether the trace is under way, in this thread."""
        return self._thread == threading.get_ident()

    def close(self) -> None:
        """Ends the trace: what is asked from now on is no part of it."""
        self._thread = None

    def size(self, name: str) -> Size:
        """Returns the size that the symbol `name` stands for."""
        return _as_size(_DimExpr._from_var(name, self))  # type: ignore[no-any-return]

    def number(self, size: Any) -> int:
        """Returns the number of a size in the call being traced."""
        return number_of(size, self.numbers)

    def ask(self, relation: Callable[[int, int], bool], difference: Any) -> bool:
        """Returns how a difference of sizes relates to 0, and notes the answer."""
        if not isinstance(difference, _DimExpr):
            return relation(difference, 0)
        answer = relation(self.number(difference), 0)
        if self.is_open:
            self._answers[relation, difference._sorted_terms] = difference, answer
        return answer

    def fits(self, numbers: Numbers) -> bool:
        """Returns whether all that was asked has the same answers for these numbers."""
        return all(
            relation(number_of(difference, numbers), 0) is answer
            for (relation, _), (difference, answer) in self._answers.items()
        )


def number_of(size: Any, numbers: Numbers) -> int:
    """Returns what a size is once its symbols are these numbers."""
    if not isinstance(size, _DimExpr):
        return int(size)
    return sum(
        count * math.prod(_factor(f, numbers) ** power for f, power in term._factors)
        for term, count in size._sorted_terms
    )


def symbols_of(size: Size) -> set[str]:
    """Returns the symbols that a size is computed from."""
    return set(size._get_vars())


def is_of_parts(size: Any) -> bool:
    """Returns whether a size may be another one on each replica."""
    symbols = symbols_of(size) if isinstance(size, Size) else ()
    return any(symbol.startswith(OF_PARTS) for symbol in symbols)


def _factor(factor: Any, numbers: Numbers) -> int:
    if factor.var is not None:
        return numbers[factor.var]
    operands = [number_of(operand, numbers) for operand in factor.operands]
    return _OPERATIONS[factor.operation](*operands)


def _is_asked_by_jax() -> bool:
    """Returns whether the caller of our caller is JAX, which knows about symbols."""
    return _is_of_jax(sys._getframe(2))


def _is_of_jax(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("jax.")


def _is_looking_up(asker: types.FrameType, other: object) -> bool:
    """Returns whether equality means that two sizes are the same in every call.

    That is so where JAX looks for what it has seen before. Where it compares sizes as
    such it says so. It asks whether a size is 1 for each broadcast, and what it does if
    not is right for 1, too.
    """
    if not _is_of_jax(asker):
        return False
    if asker.f_code is _core.definitely_equal.__code__:
        return isinstance(other, int) and other == 1
    is_about_none = isinstance(other, int) and other == 0
    return not (is_about_none and _is_comparing(asker))


def _is_comparing(asker: types.FrameType) -> bool:
    """Returns whether the code itself compares, not a cache that it calls."""
    is_of_keys = asker.f_code.co_name == "__eq__"
    return not is_of_keys and asker.f_code.co_code[asker.f_lasti] == _COMPARE


class Size(_DimExpr):
    """A size of an array that another call may have different."""

    __slots__ = ()
    __hash__ = _DimExpr.__hash__

    @override
    def __eq__(self, other: object) -> Any:
        asker = sys._getframe(1)
        if isinstance(other, jax.Array) and not _is_of_jax(asker):
            return self._as_array() == other
        if isinstance(other, _DimExpr):
            if other.scope is not self.scope:
                return False
        elif not _core.is_constant_dim(other):
            return False
        difference = self - other
        if not isinstance(difference, _DimExpr):
            return bool(difference == 0)
        if not self.scope.is_open or _is_looking_up(asker, other):
            return False
        return self.scope.ask(operator.eq, difference)

    @override
    def __ne__(self, other: object) -> Any:
        asker = sys._getframe(1)
        if isinstance(other, jax.Array) and not _is_of_jax(asker):
            return self._as_array() != other
        if _is_looking_up(asker, other):
            return super().__ne__(other)
        return not self == other

    @override
    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other)

    @override
    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other)

    @override
    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other)

    @override
    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other)

    def _compared(self, relation: Callable[[Any, Any], Any], other: Any) -> Any:
        if isinstance(other, jax.Array):
            return relation(self._as_array(), other)
        if not _is_integer(other):
            return relation(self._number(), other)
        return self.scope.ask(relation, self - other)

    def __bool__(self) -> bool:
        return not self.scope.ask(operator.eq, self)

    @override
    def __int__(self) -> int:
        if _is_asked_by_jax():
            return super().__int__()  # type: ignore[no-any-return, no-untyped-call]
        return self._number()

    def __index__(self) -> int:
        if _is_asked_by_jax():
            raise TypeError("A size is no constant.")
        return self._number()

    def __float__(self) -> float:
        return float(self._number())

    def _as_array(self) -> Any:
        return self.__jax_array__()  # type: ignore[no-untyped-call]

    def _number(self) -> int:
        """Returns the number, which makes the trace one for this number alone."""
        number: int = self.scope.number(self)
        self.scope.ask(operator.eq, self - number)
        return number

    @override
    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, jax.Array) or _is_asked_by_jax():
            return super().__truediv__(other)  # type: ignore[no-untyped-call]
        return self._number() / other

    @override
    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, jax.Array) or _is_asked_by_jax():
            return super().__rtruediv__(other)  # type: ignore[no-untyped-call]
        return other / self._number()

    @override
    def __neg__(self) -> Any:
        return _as_size(super().__neg__())

    @override
    def max(self, other: Any) -> Any:
        return self._decided(super().max(other), other, (self, other))

    @override
    def rmax(self, other: Any) -> Any:
        return self._decided(super().rmax(other), other, (self, other))

    @override
    def min(self, other: Any) -> Any:
        return self._decided(super().min(other), other, (other, self))

    @override
    def rmin(self, other: Any) -> Any:
        return self._decided(super().rmin(other), other, (other, self))

    def _decided(self, found: Any, other: Any, choices: Sequence[Any]) -> Any:
        if not (found is self or found is other):
            return _as_size(found)
        # JAX takes for granted that no size is 0.
        return choices[0] if self >= other else choices[1]

    @override
    def __deepcopy__(self, memo: Any) -> Size:
        return self


def _is_integer(value: Any) -> bool:
    return isinstance(value, _DimExpr) or _core.is_constant_dim(value)


def _as_size(result: Any) -> Any:
    """Returns what JAX computed from sizes with a `Size` for each of its symbols."""
    if isinstance(result, tuple):
        return tuple(map(_as_size, result))
    if type(result) is _DimExpr:
        return Size(result._sorted_terms, result.scope)
    return result


def _define(name: str, calculate: Callable[[Any, Any], Any]) -> None:
    """Gives sizes an operation that yields sizes."""
    by_jax = getattr(_DimExpr, name)

    def method(self: Size, other: Any) -> Any:
        if isinstance(other, jax.Array) or _is_integer(other) or _is_asked_by_jax():
            return _as_size(by_jax(self, other))
        # As precise as Python's numbers, which arrays are not.
        return calculate(self._number(), other)

    setattr(Size, name, method)


def _define_all() -> None:
    for name, calculate in {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "floordiv": operator.floordiv,
        "mod": operator.mod,
        "divmod": divmod,
        "pow": operator.pow,
    }.items():
        _define(f"__{name}__", calculate)
        _define(f"__r{name}__", _swapped(calculate))


def _swapped(calculate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda own, other: calculate(other, own)


def _register() -> None:
    """Makes JAX take sizes for what they are, wherever it looks at types."""
    _core.pytype_aval_mappings[Size] = _DimExpr._get_aval
    _dtypes.register_weak_scalar_type(Size)
    _dtypes.python_scalar_types.add(Size)
    _dtypes.python_scalar_types_to_dtypes[Size] = _dtypes.python_scalar_types_to_dtypes[
        int
    ]
    _dtypes.register_canonicalize_value_handler(Size, None)
    _poly_einsum_handlers[Size] = _shape_poly._einsum_contract_path


_define_all()
_register()
