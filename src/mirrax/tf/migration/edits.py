"""Edits of a program's source."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, order=True)
class Edit:
    """A text in place of another one.

    Args:
        start: The line, from 1, and the column in bytes, from 0.
        end: The same, behind the replaced text.
        text: The new text.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def apply(source: str, edits: Iterable[Edit]) -> str:
    r"""Returns a source with all edits made.

    >>> apply("a.lr\n", [Edit((1, 2), (1, 4), "learning_rate")])
    'a.learning_rate\n'
    """
    content = source.encode()
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for edit in sorted(set(edits), reverse=True):
        first, last = (
            starts[line - 1] + column for line, column in (edit.start, edit.end)
        )
        content = content[:first] + edit.text.encode() + content[last:]
    return content.decode()
