"""`tf.compat.v1.app`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mirrax.tf.missing_names import names_of


def run(
    main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None
) -> NoReturn:
    """Calls `main` with the arguments of the program, and exits."""
    called = main or vars(sys.modules["__main__"])["main"]
    sys.exit(called(list(sys.argv if argv is None else argv)))


__getattr__ = names_of("tf.compat.v1.app")
