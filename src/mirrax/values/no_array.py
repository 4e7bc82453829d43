"""What a value says that is taken for an array and is none."""

from __future__ import annotations

from typing import Any

_ADVICE = (
    "It has one part for each replica. Combine them with `strategy.reduce(op, value, "
    "axis)`, or look at them with `strategy.experimental_local_results(value)`."
)
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")


class NoArray:
    """Refuses what arrays can do, and says what to do instead."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        raise AttributeError(f"A {kind} is no array: it has no `{name}`. {_ADVICE}")

    def __format__(self, format_spec: str) -> str:
        if format_spec:
            raise _error(self, f"format with {format_spec!r}")
        return str(self)


def _error(value: object, what: str) -> TypeError:
    kind = type(value).__name__
    return TypeError(f"A {kind} is no array. Received: {what} of it. {_ADVICE}")


def _refuse(name: str) -> None:
    words = {"__array__": "a NumPy function", "__jax_array__": "a function of JAX"}
    what = words.get(name, f"`{name.strip('_')}`")

    def refused(self: NoArray, *_: Any, **__: Any) -> Any:
        raise _error(self, what)

    refused.__name__ = name
    setattr(NoArray, name, refused)


for _name in (
    *(f"__{name}__" for name in _ARITHMETIC),
    *(f"__r{name}__" for name in _ARITHMETIC),
    *(f"__{name}__" for name in ("lt", "le", "gt", "ge", "neg", "abs", "round")),
    *(f"__{name}__" for name in ("float", "int", "complex", "getitem", "array")),
    "__jax_array__",
):
    _refuse(_name)
