"""Whether `tf.function` compiles, or leaves functions as they are."""

from __future__ import annotations


class _Switch:
    def __init__(self) -> None:
        self.is_eager = False


_switch = _Switch()


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Makes `tf.function` leave the functions that are decorated from now on."""
    _switch.is_eager = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Returns whether `tf.function` leaves functions as they are."""
    return _switch.is_eager
