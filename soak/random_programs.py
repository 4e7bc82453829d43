"""Thousands of random programs on 1, 2 and 4 replicas, against NumPy.

    python soak/random_programs.py [--count 1000] [--first 0]

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
from tests.random_programs import ENGINES, Program, check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    mirrax.config.set_logical_devices("CPU", 4)
    failed = []
    for seed in range(options.first, options.first + options.count):
        num_replicas, engine = (1, 2, 4)[seed % 3], ENGINES[seed // 3 % 3]
        try:
            check(Program.make(seed), mirrored(num_replicas), engine)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}, {engine} on {num_replicas}: {error}")
        if (seed + 1) % 50 == 0:
            print(f"{seed + 1 - options.first} programs, {len(failed)} failed")
    print(f"{options.count} programs, failed: {failed or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
