"""Ways to add up arrays between CPU workers: which is quickest for which size.

    python benchmarks/worker_sums.py [--workers 2 3 4] [--devices 1 2]

Prints milliseconds, the median of interleaved rounds. The choices in
`mirrax.collectives.worker_costs` come from here.
"""

import argparse
import functools
import statistics
import time

import jax
import numpy as np
from jax.sharding import PartitionSpec

import mirrax
from mirrax.collectives import spmd, worker_all_reduce
from mirrax.collectives.all_reduce import psum
from mirrax.launch import run

SIZES = (256, 32_768, 101_770, 500_000, 1_861_642, 8_000_000)
ROUNDS = 9
CALLS = 4


def measure():
    """Runs on the workers; returns milliseconds by size and way."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    topology = strategy.topology
    count = topology.num_replicas
    ways = {
        "psum": lambda x: psum([x])[0],
        "in full": lambda x: worker_all_reduce.sum_in_full(x, count),
        "in pieces": lambda x: worker_all_reduce.sum_in_pieces(x, count),
        "all_gather": lambda x: jax.lax.all_gather(x, "replica"),
        "exchange": lambda x: spmd.exchange(x, count),
    }
    programs = {name: compiled(topology, way) for name, way in ways.items()}
    results = {}
    for size in SIZES:
        own = np.ones((len(topology.local_devices), size), np.float32)
        value = jax.make_array_from_process_local_data(topology.split, own)
        times = {name: [] for name in programs}
        for program in programs.values():
            program(value).block_until_ready()
        for _ in range(ROUNDS):
            for name, program in programs.items():
                start = time.perf_counter()
                for _ in range(CALLS):
                    program(value).block_until_ready()
                times[name].append((time.perf_counter() - start) / CALLS * 1e3)
        results[size] = {name: statistics.median(t) for name, t in times.items()}
    return results


def compiled(topology, way):
    mapped = functools.partial(
        jax.shard_map,
        mesh=topology.mesh,
        in_specs=PartitionSpec("replica"),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    return jax.jit(mapped(lambda x: way(x[0])))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    for workers in options.workers:
        for devices in options.devices:
            results = run(measure, workers, devices_per_worker=devices)[0]
            print(f"{workers} workers x {devices} devices", flush=True)
            for size, times in results.items():
                cells = "  ".join(f"{name} {ms:7.2f}" for name, ms in times.items())
                print(f"{size:10,d} floats  {cells}", flush=True)


if __name__ == "__main__":
    main()
