"""Which conformance cases Mirrax supports by now."""

import pathlib

from tests.conformance.check import find_programs

# First and last number of each group. A group enters this list when all its cases pass.
SUPPORTED = [
    (1, 4),  # examples: scope and variables
    (5, 5),  # examples: an epoch over a dataset
    (6, 12),  # examples: datasets
    (13, 18),  # examples: run and all-reduce
    (19, 20),  # examples: reduce over a dataset
    (21, 25),  # examples: reduce, one device, cluster resolver
    (26, 26),  # examples: the v1 input iterator
    (27, 28),  # examples: local results, old names of run
    (29, 31),  # examples: datasets by their older names
    (32, 33),  # examples: the v1 reduce, signatures
    (40, 87),  # scope and variables
    (90, 122),  # run and contexts
    (123, 135),  # reduce and gather
    (140, 160),  # extended and cross-device ops
    (170, 206),  # input
    (207, 210),  # input: policies
    (220, 234),  # version 1
    (240, 243),  # one device
    (244, 245),  # the default strategy: run, datasets
    (246, 247),  # the default strategy: replica context
    (248, 248),  # one device against mirrored, over a dataset
    (249, 249),  # one device: errors
    (250, 254),  # cluster
    (260, 277),  # contrib
    (280, 286),  # gradients, checkpoints, Keras
    (300, 320),  # edges of all groups, and training of version 1
]


def supported_cases() -> list[pathlib.Path]:
    """Returns the cases that must pass."""
    return [path for path in find_programs() if _is_supported(path)]


def unsupported_cases() -> list[pathlib.Path]:
    """Returns the cases that are still to come."""
    return [path for path in find_programs() if not _is_supported(path)]


def _is_supported(path: pathlib.Path) -> bool:
    number = int(path.stem.split("_")[0])
    return any(first <= number <= last for first, last in SUPPORTED)
