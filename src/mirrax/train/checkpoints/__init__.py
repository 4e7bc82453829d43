"""Checkpoints: what is saved, the files, and what is restored."""
