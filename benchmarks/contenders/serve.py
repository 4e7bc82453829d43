"""The loop of a contender's process: builds workloads, runs them when it is asked to.

Requests are lines of JSON, `{"row": "MLP", "kind": "train", ..., "repeats": 20}`; the
answer is how long the repeats took and what the workload returned last, such as the
loss. Each row starts with new workloads, so that all contenders have done equal work.
"""

import contextlib
import dataclasses
import json
import os
import sys
import time
from importlib import metadata

PACKAGES = ("mirrax", "jax", "keras", "flax", "tensorflow-cpu", "torch", "accelerate")
PACKAGES += ("lightning-fabric", "tf-keras")


@dataclasses.dataclass(frozen=True)
class Team:
    """The processes of one contender, and which of them this one is."""

    worker: int
    ports: list[int]
    replicas: int
    variant: str

    @property
    def size(self):
        return len(self.ports)

    @property
    def tf_config(self):
        workers = [f"127.0.0.1:{port}" for port in self.ports]
        task = {"type": "worker", "index": self.worker}
        return json.dumps({"cluster": {"worker": workers}, "task": task})


TEAM = Team(**json.loads(os.environ["BENCH_TEAM"]))

# What libraries print must not mix with the answers.
_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def set_jax_devices():
    """Gives JAX a CPU device for each replica; call it before JAX is imported."""
    count = TEAM.replicas
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count}"
    # With fewer threads, collectives between the devices can deadlock.
    os.environ["PJRT_NPROC"] = str(max(os.cpu_count(), 2 * count))


def serve(**makers):
    """Answers requests until there are no more.

    Args:
        makers: For each kind of workload a function of the request's other fields,
            which returns a function of the number of repeats.
    """
    row, built = None, {}
    _answer({"versions": _versions()})
    for line in sys.stdin:
        request = json.loads(line)
        repeats = request.pop("repeats")
        if (next_row := request.pop("row")) != row:
            row, built = next_row, {}
        key = json.dumps(request, sort_keys=True)
        try:
            if key not in built:
                built[key] = makers[request.pop("kind")](**request)
            start = time.perf_counter()
            value = built[key](repeats)
            seconds = time.perf_counter() - start
        except Exception as error:
            _answer({"error": f"{type(error).__name__}: {error}"[:2000]})
            raise
        # A workload that times itself returns a pair.
        if isinstance(value, tuple):
            seconds, value = value
        _answer({"seconds": seconds, "value": value})


def _versions():
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _answer(answer):
    print(json.dumps(answer), file=_answers, flush=True)
