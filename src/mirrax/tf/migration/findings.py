"""What is found in a program, and edits of its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

OK, DIFFERS, MISSING = "ok", "differs", "missing"
IMPORT, CHANGE = "import", "change"


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


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    """The result for one name, or another text, at one line of a program.

    Args:
        line: The line.
        kind: One of the kinds above.
        subject: What the program says.
        advice: What to write instead.
        edit: The edit that does so; None if it needs thought.
    """

    line: int
    kind: str
    subject: str
    advice: str = ""
    edit: Edit | None = dataclasses.field(default=None, compare=False)

    def __str__(self) -> str:
        text = f"{self.kind:<7} {self.subject}"
        return f"{text}: {self.advice}" if self.advice else text


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
