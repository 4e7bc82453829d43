"""How long `import mirrax` takes, against `import jax` alone."""

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 15


# The first import, which is not counted, writes the bytecode, as installing does.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def seconds(module):
    start = time.perf_counter()
    command = [sys.executable, "-c", f"import {module}"]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    return time.perf_counter() - start


def main():
    for module in ("mirrax", "jax"):
        seconds(module)
    pairs = [(seconds("mirrax"), seconds("jax")) for _ in range(ROUNDS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    kept = ratio <= 1.15
    print(
        f"{'import mirrax against import jax':48s} {ratio:5.2f}  "
        f"(limit 1.15: {'ok' if kept else 'MISSED'})"
    )
    sys.exit(not kept)


if __name__ == "__main__":
    main()
