"""The coordinator's process, which also runs JAX's coordination service.

It is not a worker, so it can report the death of any worker, also the first one. The
launcher starts it, or the first worker if there is no launcher. It exits with the job,
or soon after its parent.

It inherits a listening socket, so that workers can be started beside it. Standard
input: one line of JSON settings, then lines that report exits of workers; end of file
means that the parent is gone. Standard output: the failure that ended the job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from mirrax._jax.jaxlib import start_coordination_service
from mirrax.cluster.coordinator.job_state import JobState
from mirrax.cluster.coordinator.server import Parent, Server
from mirrax.cluster.failure import Failure
from mirrax.cluster.job_options import JobOptions
from mirrax.cluster.membership import Worker
from mirrax.cluster.net.listener import listen
from mirrax.cluster.net.tunnel import private_socket_path

_PACKAGE = pathlib.Path(__file__).resolve().parents[2]
_REPORT_SECONDS = 10
_LOGGER = logging.getLogger(__name__)
# Time to hand over the last messages when the parent is gone.
_LINGER_SECONDS = 2.0
# Kept alive to the end of the process.
_services: list[Any] = []
# Imports `mirrax.cluster` without `mirrax` itself, and so without JAX: much faster.
_START = """
import sys, types
for name, path in (("mirrax", {path!r}), ("mirrax.cluster", {path!r} + "/cluster")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
from mirrax.cluster.coordinator.process import main
main()
"""


class Coordinator:
    """A handle to a coordinator in its own process.

    Raises `AddressError` if this machine cannot listen there.

    Args:
        port: The port to listen on; 0 for any.
        workers, options, is_launched: See `JobState`.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        key: bytes,
        workers: Sequence[Worker],
        options: JobOptions,
        is_launched: bool = False,
    ) -> None:
        # Silences the logs of JAX's service: our own errors say more.
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "GRPC_VERBOSITY": "NONE",
        }
        with listen(host, port) as listener:
            self.port = int(listener.getsockname()[1])
            number = listener.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START.format(path=str(_PACKAGE))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                pass_fds=[number],
            )
        self._to_process: Any = self._process.stdin
        self._from_process: Any = self._process.stdout
        self._send(
            {
                "listener": number,
                "key": key.hex(),
                "workers": [[w.type, w.index, w.address] for w in workers],
                "options": dataclasses.asdict(options),
                "is_launched": is_launched,
            }
        )

    @property
    def process_id(self) -> int:
        return self._process.pid

    def report_exit(self, worker_index: int, how: str, has_failed: bool) -> None:
        """Reports how a worker ended, for the others' errors."""
        with contextlib.suppress(OSError):
            self._send([worker_index, how, has_failed])

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative after a signal; None while the process runs."""
        return self._process.poll()

    def has_failure(self) -> bool:
        """Returns whether the coordinator has reported the job's failure."""
        ready, _, _ = select.select([self._from_process], [], [], 0)
        # At the end of the process there is nothing to read.
        return bool(ready) and bool(self._from_process.peek())

    def wait(self, timeout: float) -> None:
        """Waits until all workers have ended; logs a warning while it waits."""
        start = time.monotonic()
        while (waited := time.monotonic() - start) < timeout:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(min(_REPORT_SECONDS, timeout - waited))
                return
            _LOGGER.warning(
                "This worker is done and has waited %.0f s of %g for the others to "
                "end, because it hosts the coordinator.",
                time.monotonic() - start,
                timeout,
            )

    def close(self) -> None:
        """Closes the pipes to the coordinator, which then exits by itself."""
        for stream in (self._to_process, self._from_process):
            with contextlib.suppress(OSError):
                stream.close()

    def stop(self, timeout: float = 5.0) -> Failure | None:
        """Kills the coordinator; returns the job's failure, if any."""
        self._process.kill()
        self._process.wait(timeout)
        stream = self._from_process
        last = b"" if stream.closed else stream.read()
        self.close()
        return Failure(**json.loads(last)) if last.endswith(b"\n") else None

    def _send(self, value: Any) -> None:
        self._to_process.write(json.dumps(value).encode() + b"\n")
        self._to_process.flush()


def main() -> None:
    """Runs the coordinator in this process."""
    # Terminals and schedulers signal all processes of a job; the coordinator must
    # outlive the workers, which may need time to shut down.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # A worker takes three sockets; the usual limit would do for 300 workers.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS refuses its own limit if that is infinite; few workers need no more.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parent = Parent()
    settings = parent.settings
    listener = socket.socket(fileno=settings["listener"])
    workers = [Worker(*fields) for fields in settings["workers"]]
    job = JobState(
        workers,
        JobOptions(**settings["options"]),
        time.monotonic(),
        settings["is_launched"],
    )
    service = _connect_service(len(workers))
    key = bytes.fromhex(settings["key"])
    server = Server(listener, key, job, service, parent)
    server.serve(_LINGER_SECONDS)
    # JAX's service is not shut down cleanly: it would notify its clients, and JAX would
    # then exit each worker. Behind the tunnel a broken connection goes unnoticed.
    os._exit(0)


def _connect_service(num_workers: int) -> Iterator[socket.socket]:
    """Starts JAX's coordination service; yields connections for the workers."""
    # All connections are made at once, so that no file is left behind later.
    with private_socket_path() as path:
        _services.append(start_coordination_service(f"unix:{path}", num_workers))
        # More than needed: on a busy machine a worker may have to try again.
        count = num_workers + min(num_workers, 32 + num_workers // 8)
        connections = [socket.socket(socket.AF_UNIX) for _ in range(count)]
        for connection in connections:
            connection.connect(path)
    yield from connections
