"""Tables of HTML, which notebooks show for values of Mirrax."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

_MAX_ROWS = 64
_MAX_TEXT = 400
# Notebooks would align cells to the right, and break a title that is wider than them.
_CELL = 'style="text-align: left"'
_TITLE = 'style="text-align: left; white-space: nowrap; font-weight: bold"'


def html_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], note: str = ""
) -> str:
    """Returns a table with everything escaped; long texts and tables are cut.

    >>> html_table("x", ["part"], [["<b>"]])
    '<table><caption ...>x</caption><tr><th ...>part</th></tr>...&lt;b&gt;...</table>'
    """
    lines = [_row("th", heads), *(_row("td", row) for row in rows[:_MAX_ROWS])]
    if len(rows) > _MAX_ROWS:
        lines.append(_row("td", [f"... {len(rows) - _MAX_ROWS} more"]))
    if note:
        text = _escaped(note)
        lines.append(f'<tr><td {_CELL} colspan="{len(heads)}">{text}</td></tr>')
    caption = f"<caption {_TITLE}>{_escaped(title)}</caption>"
    return f"<table>{caption}{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    shown = (f"<{tag} {_CELL}>{_escaped(cell)}</{tag}>" for cell in cells)
    return f"<tr>{''.join(shown)}</tr>"


def _escaped(value: Any) -> str:
    text = str(value)
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]} ..."
    return html.escape(text)
