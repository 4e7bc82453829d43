"""What the workers of these tests run. They print `CAUGHT {json}` for errors."""

import json
import os
import signal
import sys
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mirrax import errors
from mirrax.cluster import join_job
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
    }


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


def train(fault, culprit, steps=10):
    """Takes steps together; in the middle one worker has a fault."""
    job = join_job(TFConfigClusterResolver())
    add = adding_program()
    try:
        for step in range(steps):
            if step == 5 and job.worker_index == culprit:
                FAULTS[fault](job)
            if fault == "kill unguarded":
                add().block_until_ready()
                continue
            with job.guard("run", step):
                add().block_until_ready()
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
