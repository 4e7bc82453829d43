"""Values with a part on each replica."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from mirrax.html_tables import html_table
from mirrax.trees import Leaf
from mirrax.values.array_like import on_host


class DistributedValues(Leaf):
    """A value with one part per replica of this process.

    >>> isinstance(mirrax.PerReplica((1, 2)), DistributedValues)
    True
    >>> mirrax.PerReplica((1, 2)).values
    (1, 2)
    """

    __slots__ = ()

    _label: ClassVar[str] = "DistributedValues"

    part_repr: ClassVar[Callable[[Any], str]] = repr
    """Returns what `repr` shows of a part."""

    part_str: ClassVar[Callable[[Any], str]] = str
    """Returns what `print` shows of a part."""

    @property
    @abc.abstractmethod
    def values(self) -> tuple[Any, ...]:
        """The parts of the replicas that run in this process, in replica order."""

    def for_replica(self, index: int) -> Any:
        """What local replica `index` gets when this is an argument of `run`."""
        return self.values[index]

    def __repr__(self) -> str:
        return describe_parts(self._label, self.values, type(self).part_repr)

    def __str__(self) -> str:
        return describe_parts(self._label, self.values, type(self).part_str)

    def _repr_html_(self) -> str:
        return html_parts(self._label, self.values)


def html_parts(title: str, parts: Sequence[Any]) -> str:
    """Returns a table of parts, for notebooks."""
    rows = [(i, *_html_cells(part)) for i, part in enumerate(parts)]
    return html_table(title, ("replica", "kind", "value"), rows)


def _html_cells(part: Any) -> tuple[str, str]:
    """Returns kind and value of one part; large arrays are shortened."""
    if not isinstance(part, jax.Array) or isinstance(part, jax.core.Tracer):
        return type(part).__name__, repr(part)
    shown = np.array2string(on_host(part), threshold=20, edgeitems=3)
    return f"{part.dtype}{list(part.shape)}", shown


def describe_parts(
    kind: str, parts: tuple[Any, ...], show: Callable[[Any], str]
) -> str:
    """Returns the text of a distributed value, one line per part."""
    lines = ",\n".join(f"  {i}: {show(part)}" for i, part in enumerate(parts))
    return f"{kind}:{{\n{lines}\n}}"
