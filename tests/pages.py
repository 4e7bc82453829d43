"""Runs the Python code of README.md and of the pages in docs/.

The blocks of a page are one program, in order. A block of `text` that follows one of
`python` is what it prints; `...` in it stands for anything.
"""

import contextlib
import doctest
import io
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
LAYER = "mirrax.tf"
"""Blocks with this name are tested with that layer, which can be deleted."""

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def read(page):
    return (ROOT / page).read_text()


def blocks(page, language="python"):
    """Returns the code blocks of a page that are in one language."""
    return [text for found, text in _FENCE.findall(read(page)) if found == language]


def uses_layer(page):
    return any(LAYER in block for block in blocks(page))


def run(page, *, is_one_program=True, edit=str):
    """Runs the blocks of a page, checks what they print, and returns their names.

    `edit` changes a block before it runs. Blocks that are not one program are run
    without the names of the earlier ones.
    """
    text, names = read(page), _namespace()
    fences = list(_FENCE.finditer(text))
    for fence, following in zip(fences, [*fences[1:], None]):
        language, block = fence.groups()
        if language != "python":
            continue
        if not is_one_program:
            names = _namespace()
        line = text[: fence.start(2)].count("\n")
        code = compile("\n" * line + edit(block), page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, names)
        if following is not None and following[1] == "text":
            _require(output.getvalue(), following[2], f"{page}, after line {line}")
    return names


def _namespace():
    # No module has this name, in whose file the source would be looked for.
    return {"__name__": "__page__"}


def _require(printed, expected, place):
    if not doctest.OutputChecker().check_output(expected, printed, _FLAGS):
        raise AssertionError(f"{place}: expected\n{expected}\nbut printed\n{printed}")
