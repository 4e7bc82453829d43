"""Ends a program on SIGTERM after a step that is the same on all workers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from mirrax.cluster import current_job, step_record
from mirrax.cluster.job_options import read_options
from mirrax.cluster.worker.stop_agreement import StopAgreement


class PreemptionWatcher:
    """Watches for SIGTERM, or another sign that this machine is taken away.

    It is enough that one worker sees the sign: `should_stop` becomes true on all
    workers, after the same step. Use `mirrax.train.resumable` unless you write your own
    loop.

    Args:
        is_preempted: Another sign: called after each step of this worker.

    >>> import signal
    >>> import mirrax
    >>> watcher = mirrax.train.PreemptionWatcher()
    >>> watcher.should_stop()
    False
    >>> signal.raise_signal(signal.SIGTERM)
    >>> watcher.should_stop(), watcher.preemption_message
    (True, 'SIGTERM')
    >>> watcher.close()
    """

    def __init__(self, is_preempted: Callable[[], object] | None = None) -> None:
        self._is_preempted = is_preempted
        self._exit_code = read_options().requeue_code
        self._message: str | None = None
        job = current_job()
        self._agreement = _NoAgreement() if job is None else job.stop_agreement
        self._previous: object = None
        self._listener: _SignalListener | None = None
        if _is_main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._receive)
            if job is not None:
                self._listener = _SignalListener(job.stop_agreement)
            _watchers.add(self)

    @property
    def preemption_message(self) -> str | None:
        """The sign that was seen, by this worker or another; None if there was none."""
        if self._message is None and self._agreement.is_coming:
            return "another worker is preempted"
        return self._message

    def should_stop(self) -> bool:
        """Returns whether this step is the last one.

        All workers call this once after each step, and all get the same answer.
        """
        is_preempted = self._is_preempted
        if self._message is None and is_preempted is not None and is_preempted():
            self._note("preempted")
        return self._agreement.finish_step()

    def exit(self) -> NoReturn:
        """Ends the program with the exit code that means "start me again".

        It is 75, or MIRRAX_REQUEUE_CODE. From here on SIGTERM is ignored: schedulers
        send it more than once, and another one would change the exit code.
        """
        step_record.report_preemption()
        if self._previous is not None and _is_main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._previous = None
        sys.exit(self._exit_code)

    def close(self) -> None:
        """Stops watching."""
        if self._previous is not None and _is_main_thread():
            signal.signal(signal.SIGTERM, self._previous)  # type: ignore[arg-type]
            self._previous = None
            if self._listener is not None:
                self._listener.close()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        # Not `print`: the signal may have interrupted one.
        with contextlib.suppress(OSError):
            os.write(2, b"SIGTERM: stopping after this step, to save a checkpoint.\n")
        self._note(signal.Signals(number).name)

    def _note(self, message: str) -> None:
        self._message = message
        self._agreement.request()


class _SignalListener:
    """Announces SIGTERM at once, also while the main thread waits inside JAX.

    Python runs a handler between two instructions of the main thread: after the step.
    The others would learn so late that all must do another one.
    """

    def __init__(self, agreement: StopAgreement) -> None:
        self._agreement = agreement
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        number = self._sender.fileno()
        self._previous = signal.set_wakeup_fd(number, warn_on_full_buffer=False)
        if self._previous != -1:
            # Somebody else, such as asyncio, needs it; the handler has to do.
            signal.set_wakeup_fd(self._previous)
        threading.Thread(target=self._listen, name="mirrax-job", daemon=True).start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._previous)
        self._sender.close()

    def _listen(self) -> None:
        with self._receiver:
            while numbers := self._receiver.recv(64):
                if signal.SIGTERM in numbers:
                    self._agreement.request()
                    self._agreement.announce()


class _NoAgreement:
    """The null object for a single process: it stops after the current step."""

    is_coming = False

    def request(self) -> None:
        self.is_coming = True

    def finish_step(self) -> bool:
        return self.is_coming


_watchers: weakref.WeakSet[PreemptionWatcher] = weakref.WeakSet()


def _close_all() -> None:
    for watcher in list(_watchers):
        watcher.close()


# Whoever forks a process, such as a data loader, can end it with SIGTERM.
os.register_at_fork(after_in_child=_close_all)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
