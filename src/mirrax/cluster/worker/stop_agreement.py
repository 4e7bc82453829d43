"""Lets all workers stop after the same step, when one of them is asked to end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mirrax.cluster.net.messages import Message


class StopAgreement:
    """One worker's part in agreeing on the step to stop after.

    Any worker may ask for a stop. The coordinator then asks all how many steps they
    have done, and answers with a number that none has passed. In between no worker
    begins another step, so each of them reaches that number.

    Args:
        wait_until: Waits for a condition, or raises the failure of the job.
    """

    def __init__(
        self,
        send: Callable[[Message], None],
        wait_until: Callable[[Callable[[], object]], None],
    ) -> None:
        self._send = send
        self._wait_until = wait_until
        self._lock = threading.Lock()
        self._is_requested = False
        self._is_announced = False
        self._num_steps = 0
        self._must_wait = False
        self._last_step: int | None = None

    @property
    def is_coming(self) -> bool:
        """Whether any worker has asked for a stop."""
        return self._is_requested or self._must_wait

    @property
    def is_over(self) -> bool:
        """Whether this worker has done the step that all stop after."""
        return self._last_step is not None and self._num_steps >= self._last_step

    def request(self) -> None:
        """Asks for a stop; may be called by a signal handler, so it takes no lock."""
        self._is_requested = True

    def announce(self) -> None:
        """Sends the request once; called by the heartbeat and after each step."""
        with self._lock:
            is_new = self._is_requested and not self._is_announced
            self._is_announced |= is_new
        if is_new:
            self._send(Message("stop"))

    def receive(self, message: Message) -> None:
        if message.kind == "count_steps":
            with self._lock:
                self._must_wait = True
                num_steps = self._num_steps
            self._send(Message("steps", {"count": num_steps}))
        else:
            self._last_step = int(message["step"])

    def finish_step(self) -> bool:
        """Counts a step; returns whether it is the last one, on all workers alike."""
        with self._lock:
            self._num_steps += 1
        self.announce()
        if self.is_coming:
            self._wait_until(lambda: self._last_step is not None)
        return self.is_over
