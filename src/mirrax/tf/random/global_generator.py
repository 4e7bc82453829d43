"""The generator that a program shares."""

from __future__ import annotations

from mirrax.tf.random.generator import Generator

_shared: list[Generator] = []


def get_global_generator() -> Generator:
    """Returns the generator that the program shares; made when first asked for."""
    if not _shared:
        _shared.append(Generator.from_non_deterministic_state())
    return _shared[0]


def set_global_generator(generator: Generator) -> None:
    _shared[:] = [generator]
