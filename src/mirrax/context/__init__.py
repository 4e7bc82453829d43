"""Ambient state: where in a program we are, per thread."""
