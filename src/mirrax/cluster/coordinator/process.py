"""The coordinator's process, which also runs JAX's coordination service.

It is not a worker, so it can report the death of any worker, also the first one. The
launcher starts it, or the first worker if there is no launcher. It exits with the job,
or soon after its parent.

Standard input: one line of JSON settings, then lines that report exits of workers or
ask it to finish; end of file means that the parent is gone. Standard output: the port
it listens on, and later the failure that ended the job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from mirrax._jax.jaxlib import start_coordination_service
from mirrax.cluster.coordinator.job_state import JobState
from mirrax.cluster.coordinator.server import Server
from mirrax.cluster.failure import Failure
from mirrax.cluster.membership import Worker

_PACKAGE = pathlib.Path(__file__).resolve().parents[2]
_REPORT_SECONDS = 10
_LOGGER = logging.getLogger(__name__)
# Time to hand over the last messages when the parent is gone.
_LINGER_SECONDS = 2.0
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

    Args:
        host: The address to listen on.
        port: The port to listen on; 0 for any.
        key: The job key that workers must prove to know.
        workers, join_timeout, silence_timeout, exit_report_seconds: See `JobState`.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        key: bytes,
        workers: Sequence[Worker],
        join_timeout: float,
        silence_timeout: float,
        exit_report_seconds: float = 0.0,
    ) -> None:
        # Silences the logs of JAX's service: our own errors say more.
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "GRPC_VERBOSITY": "NONE",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(path=str(_PACKAGE))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._send(
            {
                "host": host,
                "port": port,
                "key": key.hex(),
                "workers": [[w.type, w.index, w.address] for w in workers],
                "join_timeout": join_timeout,
                "silence_timeout": silence_timeout,
                "exit_report_seconds": exit_report_seconds,
            }
        )
        answer = self._receive()
        if "error" in answer:
            self._process.wait()
            self.close()
            raise OSError(answer["error"])
        self.port = int(answer["port"])

    @property
    def process_id(self) -> int:
        """The id of the coordinator's process."""
        return self._process.pid

    def report_exit(self, worker_index: int, how: str) -> None:
        """Reports how a worker ended, for the others' errors."""
        with contextlib.suppress(OSError):
            self._send({"worker": worker_index, "how": how})

    def finish(self) -> None:
        """Lets the coordinator exit once no worker is connected."""
        with contextlib.suppress(OSError):
            self._send({"finish": True})

    def is_running(self) -> bool:
        """Returns whether the process is alive."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Waits until all workers have ended; logs a warning while it waits."""
        seconds = 0
        while self.is_running():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_REPORT_SECONDS)
                return
            seconds += _REPORT_SECONDS
            _LOGGER.warning(
                "This worker is done and has waited %d s for the others to end, "
                "because it hosts the coordinator.",
                seconds,
            )

    def close(self) -> None:
        """Closes the pipes to the coordinator, which then exits by itself."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                _pipe(stream).close()

    def stop(self, timeout: float = 5.0) -> Failure | None:
        """Kills the coordinator; returns the job's failure, if any."""
        self._process.kill()
        self._process.wait(timeout)
        stream = _pipe(self._process.stdout)
        last = b"" if stream.closed else stream.read()
        self.close()
        return Failure(**json.loads(last)) if last.endswith(b"\n") else None

    def _send(self, fields: dict[str, Any]) -> None:
        stream = _pipe(self._process.stdin)
        stream.write(json.dumps(fields).encode() + b"\n")
        stream.flush()

    def _receive(self) -> dict[str, Any]:
        line = _pipe(self._process.stdout).readline()
        if not line:
            return {"error": "The coordinator's process ended before it could listen."}
        answer: dict[str, Any] = json.loads(line)
        return answer


def main() -> None:
    """Runs the coordinator in this process."""
    # Terminals and schedulers signal all processes of a job; the coordinator must
    # outlive the workers, which may need time to shut down.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    settings = json.loads(sys.stdin.buffer.readline())
    try:
        listener = _listen(settings["host"], settings["port"])
    except OSError as error:
        address = f"{settings['host']}:{settings['port']}"
        _reply({"error": f"{address}: {error.strerror or error}"})
        return
    workers = [Worker(*fields) for fields in settings["workers"]]
    with tempfile.TemporaryDirectory(prefix="mirrax-") as folder:
        path = f"{folder}/service"
        service = start_coordination_service(f"unix:{path}", len(workers))
        job = JobState(
            workers,
            settings["join_timeout"],
            settings["silence_timeout"],
            time.monotonic(),
            settings["exit_report_seconds"],
        )
        server = Server(listener, bytes.fromhex(settings["key"]), job, path, _Parent())
        _reply({"port": listener.getsockname()[1]})
        server.serve(_LINGER_SECONDS)
    # Not shut down cleanly: the service would notify its clients, and JAX would then
    # exit each worker. Behind the tunnel a broken connection goes unnoticed.
    assert service is not None
    os._exit(0)


class _Parent:
    """Reads the parent's messages from standard input until its end."""

    def __init__(self) -> None:
        self._exits: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self.is_done = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def take_exits(self) -> list[tuple[int, str]]:
        return [self._exits.get() for _ in range(self._exits.qsize())]

    def report_failure(self, failure: Failure) -> None:
        # Without details: the line must fit into the buffer of an unread pipe.
        short = dataclasses.replace(failure, details="")
        with contextlib.suppress(OSError):
            _reply(dataclasses.asdict(short))

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            fields = json.loads(line)
            if "finish" in fields:
                self.is_done = True
            else:
                self._exits.put((fields["worker"], fields["how"]))


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    )[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(1024)
    return listener


def _reply(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
