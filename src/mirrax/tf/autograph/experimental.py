"""`tf.autograph.experimental`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrax.tf.autograph.conversion import unconverted
from mirrax.tf.namespaces.missing_names import names_of

_missing = names_of("tf.autograph.experimental")


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Returns `func` as a function whose control flow stays Python's."""
    return do_not_convert if func is None else unconverted(func)


def _without_package(**options: Any) -> None:
    """Stands for `set_loop_options` where no function is converted."""


def __getattr__(name: str) -> Any:
    if name not in ("Feature", "set_loop_options"):
        return _missing(name)
    try:
        from malt.core.converter import Feature
        from malt.lang.directives import set_loop_options
    except ImportError:
        return _without_package
    return Feature if name == "Feature" else set_loop_options
