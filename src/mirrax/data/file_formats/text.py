"""Text files: one record for each line."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from mirrax.data.file_formats.reader import Block, Reader, Records


class TextLineReader(Reader):
    r"""Reads the lines of text files, without their endings (\n or \r\n).

    Only these end a line: `bytes.splitlines` also cuts at a lone \r.
    """

    @override
    def _split(self, block: Block) -> Records:
        size = len(block.data) if block.is_last else block.data.rfind(b"\n") + 1
        if not size:
            return Records()
        text = block.data[:size]
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        lines = text.split(b"\n")
        if lines[-1]:
            ends = np.append(ends, size)
        else:
            lines.pop()
        return Records(lines, ends)
