"""The coordinator: the process that tracks all workers and detects failures."""
