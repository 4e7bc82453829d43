"""Launches several workers: the command `mirrax launch`, and `run` for functions."""

from mirrax.launch.run_function import run as run
