"""Starts several workers: the command `mirrax launch`, and `run` for functions."""

from mirrax.launch.function import run as run
