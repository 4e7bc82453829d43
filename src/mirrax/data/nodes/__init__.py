"""The nodes of a plan, by operation."""
