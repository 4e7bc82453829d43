"""`donate_argnums`: the arguments that a function may overwrite."""

from __future__ import annotations

from typing import Any

from mirrax import trees


class Donation:
    """Which arguments of a function are donated.

    Args:
        name: The name of the function, for messages.
        argnums: The number of a positional argument, or several.
    """

    def __init__(self, name: str, argnums: Any) -> None:
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        is_list = isinstance(numbers, tuple | list)
        if not is_list or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(
                "`donate_argnums` is the number of a positional argument, from 0, or a "
                f"tuple of them. Received: donate_argnums={argnums!r}."
            )
        self._name = name
        self.numbers = tuple(numbers)

    def flags(self, structure: Any, num_leaves: int) -> list[bool]:
        """Returns which leaves of the arguments of a call are donated."""
        if not self.numbers:
            return [False] * num_leaves
        args, _ = trees.unflatten(structure, list(range(num_leaves)))
        if max(self.numbers) >= len(args):
            raise ValueError(
                "`donate_argnums` counts the arguments that are given by position. "
                f"Received: donate_argnums={self.numbers} for a call of {self._name} "
                f"with {len(args)} of them. Give what is donated by position."
            )
        donated = {
            index for number in self.numbers for index in trees.leaves(args[number])
        }
        return [index in donated for index in range(num_leaves)]
