"""What the workers of these tests run. They print `CAUGHT {json}` for errors."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import jax
import numpy as np
import psutil
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mirrax import errors
from mirrax.cluster import join_job, step_record
from mirrax.cluster.worker import join as startup_module
from mirrax.cluster_resolver import TFConfigClusterResolver


def report():
    """Joins, and tells what there is."""
    job = join_job(TFConfigClusterResolver())
    assert join_job(TFConfigClusterResolver()) is job
    return {
        "index": job.worker_index,
        "workers": [worker.name for worker in job.workers],
        "is_chief": job.is_chief,
        "processes": jax.process_count(),
        "devices": len(jax.devices()),
        "local": len(jax.local_devices()),
        "payloads": job.exchange("test", b"%d" % job.worker_index),
        "sum": float(adding_program()()),
        "open_services": find_open_services(),
    }


def fork():
    """Ends forked processes in two ways; returns how one ended, and another sum."""
    join_job(TFConfigClusterResolver())
    add = adding_program()
    add()
    warnings.filterwarnings("ignore", message=".*fork", category=RuntimeWarning)
    reader, writer = os.pipe()
    waiting = os.fork()
    if waiting == 0:
        os.write(writer, b"x")
        time.sleep(600)
    os.read(reader, 1)
    os.kill(waiting, signal.SIGTERM)
    leaving = os.fork()
    if leaving == 0:
        sys.exit(3)
    codes = [os.waitpid(child, 0)[1] for child in (waiting, leaving)]
    return os.waitstatus_to_exitcode(codes[0]), float(add())


# Run by another process. HTTP/2 servers, such as JAX's service, answer these bytes.
STRANGER = """
import socket, sys
listener, source = map(int, sys.argv[1:])
sock = socket.socket()
sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
sock.settimeout(3)
try:
    sock.bind(("127.0.0.2", source))
    sock.connect(("127.0.0.1", listener))
    sock.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n")
    sock.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    print(sock.recv(9)[3] == 4)
except (OSError, IndexError):
    print(False)
"""


def find_open_services():
    """The ports of this worker where another process reaches JAX's service."""
    connections = psutil.Process().net_connections("tcp")
    listeners = {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}
    # A stranger may have the port number of one of this worker's own connections.
    sources = {
        c.laddr.port for c in connections if c.raddr and c.raddr.port in listeners
    }
    answers = {}
    for listener in listeners:
        for source in {0, *sources}:
            command = [sys.executable, "-c", STRANGER, str(listener), str(source)]
            reply = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True
            )
            answers[listener] = answers.get(listener) or reply.stdout == "True\n"
    return [listener for listener, is_open in answers.items() if is_open]


def adding_program():
    mesh = Mesh(np.asarray(jax.devices()), ("device",))
    sharding = NamedSharding(mesh, PartitionSpec("device"))
    ones = jax.make_array_from_callback(
        (mesh.size,), sharding, lambda _: np.ones(1, np.float32)
    )
    program = jax.jit(
        jax.shard_map(
            lambda x: jax.lax.psum(x, "device").reshape(()),
            mesh=mesh,
            in_specs=PartitionSpec("device"),
            out_specs=PartitionSpec(),
        )
    )
    return lambda: program(ones)


ALL = -1


def train(fault, culprit, steps=10):
    """Takes steps together; in the middle one worker has a fault."""
    job = join_job(TFConfigClusterResolver())
    add = adding_program()
    try:
        for step in range(steps):
            if step == 5 and culprit in (job.worker_index, ALL):
                FAULTS[fault](job)
            if fault == "kill unguarded":
                add().block_until_ready()
                continue
            with job.guard("run"):
                add().block_until_ready()
            step_record.report_step(step)
    except errors.JobError as error:
        caught = {
            "error": type(error).__name__,
            "worker": error.worker,
            "host": error.host,
            "phase": error.phase,
            "step": error.step,
        }
        print("CAUGHT", json.dumps(caught), flush=True)
        raise


def catch_exit(_):
    with pytest.raises(SystemExit) as info:
        sys.exit(3)
    assert info.value.code == 3


def exit_thread(_):
    thread = threading.Thread(target=sys.exit, args=(3,))
    thread.start()
    thread.join()


def raise_system_exit(_):
    raise SystemExit(4)


def _raise(_):
    raise KeyError("the cause")


FAULTS = {
    "none": lambda job: None,
    "kill unguarded": lambda job: os.kill(os.getpid(), signal.SIGKILL),
    "kill": lambda job: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda job: os.kill(os.getpid(), signal.SIGSTOP),
    "raise": _raise,
    "exit": lambda job: os._exit(0),
    "finish": lambda job: sys.exit(0),
    "sys.exit": lambda job: sys.exit(3),
    "sys.exit text": lambda job: sys.exit("no data"),
    "SystemExit": raise_system_exit,
    "caught exit": catch_exit,
    "exit of a thread": exit_thread,
    "sleep": lambda job: time.sleep(1000),
}


def die_while_starting(name, culprit):
    """Lets one worker die in the middle of its start."""
    if f'"index": {culprit}}}' in os.environ["TF_CONFIG"]:
        setattr(startup_module, name, lambda *_: FAULTS["kill"](None))


if __name__ == "__main__":
    if sys.argv[1] in ("connect_jax", "warm_up"):
        die_while_starting(sys.argv[1], sys.argv[2])
        sys.argv[1] = "none"
    train(sys.argv[1], int(sys.argv[2]))
    # Some end later than others.
    time.sleep(float(os.environ.get("TEST_SLEEP", "0")))
