"""Thousands of random programs on 1, 2 and 4 replicas, against NumPy.

    python soak/random_programs.py [--count 3000] [--first 0] [--worker-count 300]

`--worker-count` more run on two workers with two devices each.

Prints each seed whose program gives another result, and exits with 1 if there is one.
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import mirrax
from tests.programs import mirrored
from tests.random_programs import ENGINES, Program, check, check_on_workers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worker-count", type=int, default=300)
    options = parser.parse_args()
    mirrax.config.set_logical_devices("CPU", 4)
    failed = []
    for seed in range(options.first, options.first + options.count):
        num_replicas, engine = (1, 2, 4)[seed % 3], ENGINES[seed // 3 % 3]
        try:
            check(Program.make(seed), mirrored(num_replicas), engine)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}, {engine} on {num_replicas}: {error!r}")
        if (seed + 1) % 50 == 0:
            print(f"{seed + 1 - options.first} programs, {len(failed)} failed")
    print(f"{options.count} programs, failed: {failed or 'none'}")
    on_workers = check_two_workers(options.first, options.worker_count)
    return bool(failed or on_workers)


def check_two_workers(first: int, count: int) -> dict[int, str]:
    """Returns what went wrong in programs on two workers, by seed."""
    failed: dict[int, str] = {}
    for start in range(first, first + count, 20):
        for answer in mirrax.launch.run(
            check_on_workers,
            workers=2,
            args=(start, min(20, first + count - start)),
            devices_per_worker=2,
        ):
            failed.update(answer)
    for seed, error in failed.items():
        print(f"seed {seed} on two workers, {error}")
    print(f"{count} programs on two workers, failed: {sorted(failed) or 'none'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
