"""How long `import mirrax` takes, against `import jax` alone."""

import statistics
import subprocess
import sys
import time

ROUNDS = 15


def seconds(module):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
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
