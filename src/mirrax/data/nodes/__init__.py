"""The steps of a plan: one kind for each module."""
