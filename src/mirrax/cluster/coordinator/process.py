"""The process that hosts a job's meeting place and JAX's coordination service.

It is no worker, so that the death of any worker, the first one too, can be told to the
others. The launcher starts it; without a launcher the first worker does. It ends when
the job does, or soon after the process that started it.

Its standard input brings one line of JSON, and then nothing but its end, which means
that the parent is gone, or lines that tell how workers ended, or to finish. On its
standard output it says where it listens, and later what ended the job.
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
    """A coordinator in a process of its own.

    Args:
        host: The address to listen on.
        port: The port to listen on; 0 for any.
        key: What members must know.
        workers: Who takes part.
        join_timeout: How many seconds they have to join.
        silence_timeout: After how many silent seconds a worker counts as lost.
        death_wait: How many seconds `explain_death` may come later than the death.
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
        death_wait: float = 0.0,
    ) -> None:
        # Quiet: what JAX's service logs is told by our own errors, and better.
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
        self._tell(
            {
                "host": host,
                "port": port,
                "key": key.hex(),
                "workers": [[w.type, w.index, w.address] for w in workers],
                "join_timeout": join_timeout,
                "silence_timeout": silence_timeout,
                "death_wait": death_wait,
            }
        )
        answer = self._hear()
        if "error" in answer:
            self._process.wait()
            self.close()
            raise OSError(answer["error"])
        self.port = int(answer["port"])

    @property
    def process_id(self) -> int:
        """The id of the coordinator's process."""
        return self._process.pid

    def explain_death(self, worker_index: int, how: str) -> None:
        """Tells how a worker ended, for the others' errors."""
        with contextlib.suppress(OSError):
            self._tell({"worker": worker_index, "how": how})

    def finish(self) -> None:
        """Lets the coordinator end as soon as nobody is connected to it."""
        with contextlib.suppress(OSError):
            self._tell({"finish": True})

    def is_running(self) -> bool:
        """Returns whether the coordinator still serves."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Waits until all workers have ended, and says so while it takes long."""
        seconds = 0
        while self.is_running():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_REPORT_SECONDS)
                return
            seconds += _REPORT_SECONDS
            _LOGGER.warning(
                "This worker is done and has waited %d s for the others to end, "
                "because it hosts what connects them.",
                seconds,
            )

    def close(self) -> None:
        """Lets go of the coordinator, which ends by itself."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                _opened(stream).close()

    def stop(self, timeout: float = 5.0) -> Failure | None:
        """Ends the coordinator now; returns what ended the job, None if nothing did."""
        self._process.kill()
        self._process.wait(timeout)
        stream = _opened(self._process.stdout)
        last = b"" if stream.closed else stream.read()
        self.close()
        return Failure(**json.loads(last)) if last.endswith(b"\n") else None

    def _tell(self, fields: dict[str, Any]) -> None:
        stream = _opened(self._process.stdin)
        stream.write(json.dumps(fields).encode() + b"\n")
        stream.flush()

    def _hear(self) -> dict[str, Any]:
        line = _opened(self._process.stdout).readline()
        if not line:
            return {"error": "The coordinator's process ended before it could listen."}
        answer: dict[str, Any] = json.loads(line)
        return answer


def main() -> None:
    """Runs the coordinator in this process."""
    # The terminal and the scheduler signal all processes of a job; the coordinator
    # must outlive the workers, who may have something to finish.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    order = json.loads(sys.stdin.buffer.readline())
    try:
        listener = _listen(order["host"], order["port"])
    except OSError as error:
        _answer(
            {"error": f"{order['host']}:{order['port']}: {error.strerror or error}"}
        )
        return
    workers = [Worker(*fields) for fields in order["workers"]]
    with tempfile.TemporaryDirectory(prefix="mirrax-") as folder:
        path = f"{folder}/service"
        service = start_coordination_service(f"unix:{path}", len(workers))
        hub = JobState(
            workers,
            order["join_timeout"],
            order["silence_timeout"],
            time.monotonic(),
            order["death_wait"],
        )
        server = Server(listener, bytes.fromhex(order["key"]), hub, path, _Parent())
        _answer({"port": listener.getsockname()[1]})
        server.serve(_LINGER_SECONDS)
    # No orderly end of the service: it tells its clients, and JAX then ends the process
    # of each. A connection that just ends goes unnoticed behind its tunnel.
    assert service is not None
    os._exit(0)


class _Parent:
    """Reads what the parent says until it ends."""

    def __init__(self) -> None:
        self._deaths: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self.is_done = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def take_deaths(self) -> list[tuple[int, str]]:
        return [self._deaths.get() for _ in range(self._deaths.qsize())]

    def tell(self, failure: Failure) -> None:
        # Without the details: the line must fit into a pipe that nobody reads yet.
        short = dataclasses.replace(failure, details="")
        with contextlib.suppress(OSError):
            _answer(dataclasses.asdict(short))

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            fields = json.loads(line)
            if "finish" in fields:
                self.is_done = True
            else:
                self._deaths.put((fields["worker"], fields["how"]))


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    )[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(1024)
    return listener


def _answer(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
