"""`tf.compat.v1.app`: the application of the package absl."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mirrax.tf.namespaces.missing_names import names_of

_missing = names_of("tf.compat.v1.app")


def run(
    main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None
) -> NoReturn:
    """Parses the flags of absl, if it is installed, calls `main`, and exits."""
    called = main or vars(sys.modules["__main__"])["main"]
    given = list(sys.argv if argv is None else argv)
    try:
        from absl import app
    except ImportError:
        sys.exit(called(given))
    app.run(called, given)
    raise AssertionError("`app.run` exits.")


def __getattr__(name: str) -> Any:
    if name != "flags":
        return _missing(name)
    from absl import flags

    return flags
