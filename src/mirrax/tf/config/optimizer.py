"""`tf.config.optimizer`: accepted, without effect, as XLA optimizes every program."""

from __future__ import annotations

from typing import Any

_options: dict[str, Any] = {}


def set_jit(enabled: Any) -> None:
    """Does nothing: every program is compiled by XLA."""


def get_jit() -> str:
    return "autoclustering"


def set_experimental_options(options: dict[str, Any]) -> None:
    """Keeps the options, which have no effect."""
    _options.update(options)


def get_experimental_options() -> dict[str, Any]:
    return dict(_options)
