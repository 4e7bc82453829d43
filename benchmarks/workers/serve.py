"""A contender: one of two workers that train when they are told to."""

import itertools
import os
import sys
import time

WORKER = int(os.environ["BENCH_WORKER"])
PORTS = [int(port) for port in os.environ["BENCH_PORTS"].split(",")]
SIZES = [int(size) for size in os.environ["BENCH_SIZES"].split("-")]
BATCH = 256 // len(PORTS)
RATE = 0.1


def make_data():
    """Returns this worker's half of the batch, and the first parameters."""
    import numpy as np

    random = np.random.default_rng(WORKER)
    x = random.random((BATCH, SIZES[0]), np.float32)
    y = random.integers(0, SIZES[-1], BATCH)
    shared = np.random.default_rng(7)
    layers = [
        (
            shared.standard_normal((a, b), np.float32) * (2 / a) ** 0.5,
            np.zeros(b, np.float32),
        )
        for a, b in itertools.pairwise(SIZES)
    ]
    return x, y, layers


def serve(train):
    """Calls `train(steps)`, which returns the last loss, as often as it is asked to."""
    for line in sys.stdin:
        start = time.perf_counter()
        loss = train(int(line))
        seconds = time.perf_counter() - start
        print(f"done {seconds} {loss}", flush=True)
