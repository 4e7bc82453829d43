"""Tables of HTML, which notebooks show for values of Mirrax."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

_MAX_ROWS = 64
_MAX_TEXT = 400


def html_table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], note: str = ""
) -> str:
    """Returns a table with everything escaped; long texts and tables are cut.

    >>> html_table("x", ["part"], [["<b>"]])
    '<table><caption>x</caption><tr><th>part</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    lines = [_row("th", heads), *(_row("td", row) for row in rows[:_MAX_ROWS])]
    if len(rows) > _MAX_ROWS:
        lines.append(_row("td", [f"... {len(rows) - _MAX_ROWS} more"]))
    if note:
        lines.append(f'<tr><td colspan="{len(heads)}">{_escaped(note)}</td></tr>')
    caption = f"<caption>{_escaped(title)}</caption>"
    return f"<table>{caption}{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(value: Any) -> str:
    text = str(value)
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]} ..."
    return html.escape(text)
