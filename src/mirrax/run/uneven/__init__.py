"""Merges traces for parts of different shapes into one program."""
