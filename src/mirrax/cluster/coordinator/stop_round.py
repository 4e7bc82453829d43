"""The coordinator's part in stopping all workers after the same step."""

from __future__ import annotations

from collections.abc import Collection

from mirrax.cluster.net.messages import Message


class StopRound:
    """Collects how many steps each worker has done, and chooses the last one."""

    def __init__(self) -> None:
        self.is_requested = False
        self._is_asked = False
        self.is_over = False
        self._counts: dict[int, int] = {}

    def add(self, index: int, num_steps: int) -> None:
        """Adds one worker's number of steps."""
        self._counts[index] = num_steps

    def next_message(self, connected: Collection[int]) -> Message | None:
        """Returns what to send to the connected workers next, None if nothing."""
        if not self.is_requested or self.is_over or not connected:
            return None
        if not self._is_asked:
            self._is_asked = True
            return Message("count_steps")
        if not self._counts.keys() >= set(connected):
            return None
        self.is_over = True
        # Those that have done most cannot stop before their next step.
        return Message("stop_after", {"step": max(self._counts.values()) + 1})
