"""Functions whose names keep the values that they have when a dataset is made."""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from typing import Any

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL")


def with_present_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with the present values of globals and outer variables.

    TensorFlow traces it when the dataset is made; here it is called later, when a loop
    around it may have changed its variable. A function that assigns such names, or has
    functions inside that may run later, is returned as it is.

    >>> functions = [with_present_names(lambda: i) for i in range(3)]
    >>> [function() for function in functions]
    [0, 1, 2]
    """
    if not isinstance(function, types.FunctionType) or _may_differ(function.__code__):
        return function
    fixed = types.FunctionType(
        function.__code__,
        dict(function.__globals__),
        function.__name__,
        function.__defaults__,
        tuple(map(_copied, function.__closure__ or ())),
    )
    fixed.__kwdefaults__ = function.__kwdefaults__
    fixed.__qualname__ = function.__qualname__
    fixed.__dict__.update(function.__dict__)
    return fixed


def _may_differ(code: types.CodeType) -> bool:
    is_assigning = any(
        step.opname in _WRITES
        or (step.opname == "STORE_DEREF" and step.argval in code.co_freevars)
        for step in dis.get_instructions(code)
    )
    return is_assigning or any(
        part.co_name not in _COMPREHENSIONS or _may_differ(part)
        for part in code.co_consts
        if isinstance(part, types.CodeType)
    )


def _copied(cell: types.CellType) -> types.CellType:
    try:
        return types.CellType(cell.cell_contents)
    except ValueError:  # The variable has no value yet.
        return cell
