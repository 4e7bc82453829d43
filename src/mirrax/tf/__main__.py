"""`python -m mirrax.tf SCRIPT`, also `mirrax tf`: runs a TensorFlow program.

The program says `import tensorflow` and is not changed: it gets `mirrax.tf`.
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import runpy
import sys
import types
from collections.abc import Sequence

from mirrax.tf.migration.replacements import NEEDING_PACKAGES
from mirrax.tf.scripts import sources
from mirrax.tf.scripts.installer import install

_DESCRIPTION = """\
Runs a program that imports TensorFlow, unchanged, on Mirrax. On several workers:

  mirrax tf train.py --epochs 3
  mirrax launch -n 2 -m mirrax.tf train.py --epochs 3
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns 2 if there is no such file."""
    options = _parse(arguments)
    if not options.module and not pathlib.Path(options.script).is_file():
        print(
            f"mirrax tf: The program must be a file. Received: {options.script}, which "
            "is not there. For the name of a module use -m.",
            file=sys.stderr,
        )
        return 2
    install()
    sys.argv = [options.script, *options.args]
    _show_errors_of_program()
    _run(options.script, options.module)
    return 0


def _run(script: str, is_module: bool) -> None:
    if is_module:
        sys.path[0] = ""
        sources.rewrite_imports(_folder_of(script))
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        folder = pathlib.Path(script).resolve().parent
        sys.path[0] = str(folder)
        sources.rewrite_imports(folder)
        sources.run_file(pathlib.Path(script))


def _folder_of(module: str) -> pathlib.Path:
    """Returns the folder from which a module is imported."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return pathlib.Path()
    path = pathlib.Path(spec.origin)
    return path.parents[1] if path.name == "__init__.py" else path.parent


def _show_errors_of_program() -> None:
    """Leaves the frames that lead to the program out of shown tracebacks.

    Errors about packages that need TensorFlow say what to use instead.
    """
    show = sys.excepthook

    def show_own(
        kind: type[BaseException],
        error: BaseException,
        trace: types.TracebackType | None,
    ) -> None:
        own = _of_program(trace)
        if isinstance(error, ModuleNotFoundError) and error.name in NEEDING_PACKAGES:
            error.add_note(f"It needs TensorFlow. Use {NEEDING_PACKAGES[error.name]}.")
        show(kind, error.with_traceback(own), own)

    sys.excepthook = show_own


def _of_program(trace: types.TracebackType | None) -> types.TracebackType | None:
    found = trace
    while found is not None and found.tb_frame.f_code is not _run.__code__:
        found = found.tb_next
    if found is None:
        return trace
    ours = (__file__, sources.__file__, "<frozen runpy>")
    while found is not None and found.tb_frame.f_code.co_filename in ours:
        found = found.tb_next
    return found


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mirrax tf",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument("script", help="the program, which imports TensorFlow")
    rest = parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    # Otherwise, the error about a missing script names both.
    rest.required = False
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
