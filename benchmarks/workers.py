"""Two workers on this machine: Mirrax against others, in one interleaved run.

    python benchmarks/workers.py [--tensorflow PYTHON] [--torch PYTHON]

Each PYTHON is an interpreter of an environment that has the library. All contenders are
there all the time, and take turns; printed is how Mirrax' time for a step compares.
"""

import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent / "workers"
MODELS = ("784-128-10", "784-1024-1024-10")
LIMITS = {"jax": 1.03, "tensorflow": 1.0, "torch": 1.0}
STEPS = 20
ROUNDS = 25
NUM_WORKERS = 2


class Contender:
    """The workers that train one model with one library."""

    def __init__(self, library, python, model):
        ports = find_ports()
        self.workers = [
            subprocess.Popen(
                [python, FOLDER / f"with_{library}.py"],
                env=os.environ
                | {
                    "BENCH_WORKER": str(index),
                    "BENCH_PORTS": ",".join(map(str, ports)),
                    "BENCH_SIZES": model,
                    # The cores are shared fairly, as `mirrax launch` does.
                    "OMP_NUM_THREADS": str(max(1, os.cpu_count() // NUM_WORKERS)),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for index in range(NUM_WORKERS)
        ]

    def train(self, steps):
        """Returns the seconds of one step on the slowest worker, and the last loss."""
        for worker in self.workers:
            worker.stdin.write(f"{steps}\n")
            worker.stdin.flush()
        answers = [self._answer(worker) for worker in self.workers]
        return max(seconds for seconds, _ in answers) / steps, answers[0][1]

    def _answer(self, worker):
        for line in worker.stdout:
            if line.startswith("done "):
                _, seconds, loss = line.split()
                return float(seconds), float(loss)
        raise RuntimeError(f"A worker ended with code {worker.wait()}.")

    def close(self):
        for worker in self.workers:
            worker.stdin.close()
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()


def find_ports():
    sockets = [socket.socket() for _ in range(NUM_WORKERS)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def compare(model, pythons):
    """Prints a line for each library; returns whether all limits are kept."""
    contenders = {name: Contender(name, pythons[name], model) for name in pythons}
    try:
        losses = {name: c.train(STEPS)[1] for name, c in contenders.items()}
        for loss in losses.values():
            assert abs(loss - losses["mirrax"]) < 1e-3 * abs(loss), losses
        rounds = []
        for turn in range(ROUNDS):
            names = list(contenders)
            order = names if turn % 2 else names[::-1]
            rounds.append({name: contenders[name].train(STEPS)[0] for name in order})
    finally:
        for contender in contenders.values():
            contender.close()
    is_kept = True
    for name in pythons:
        if name == "mirrax":
            continue
        ours = statistics.median(r["mirrax"] for r in rounds)
        theirs = statistics.median(r[name] for r in rounds)
        ratio = statistics.median(r["mirrax"] / r[name] for r in rounds)
        is_kept &= ratio <= LIMITS[name]
        verdict = "ok" if ratio <= LIMITS[name] else "MISSED"
        print(
            f"{model:20s} {ours * 1e3:7.2f} ms  against {name:10s} {theirs * 1e3:7.2f}"
            f" ms   ratio {ratio:5.2f}  (limit {LIMITS[name]:.2f}: {verdict})",
            flush=True,
        )
    return is_kept


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensorflow")
    parser.add_argument("--torch")
    options = parser.parse_args()
    pythons = {"mirrax": sys.executable, "jax": sys.executable}
    pythons |= {name: python for name, python in vars(options).items() if python}
    verdicts = [compare(model, pythons) for model in MODELS]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
