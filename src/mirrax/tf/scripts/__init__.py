"""Runs scripts that import `tensorflow`."""
