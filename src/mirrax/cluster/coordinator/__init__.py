"""The coordinator: a process that knows every worker and decides what failed."""
