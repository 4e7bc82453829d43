"""How long a restart takes: `mirrax launch` against a warm start, and against torchrun.

    python benchmarks/restart_time.py [--rounds 5] [--write docs/reliability.md]

One of two workers is killed in the middle of a training, which resumes from its newest
checkpoint. Printed are the seconds from the kill to the next step, and from the start
of the first worker's program to its first step: of the restart, and of a job that is
started again by hand, with the same checkpoint and compilation cache. PyTorch comes
from the environment of `make bench`, and is left out if it cannot be installed.
"""

import argparse
import datetime
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from teams import ROOT, MissingError, python_of

sys.path.insert(0, str(ROOT))

from tools.measured_tables import describe_machine, measure_other_load, write_table

FOLDER = pathlib.Path(__file__).parent / "restarts"
STEPS, INTERVAL, KILLED_AFTER = 24, 5, 12
# Seconds to the first step after a restart, in those of a warm start.
LIMIT = 1.2
MAX_SECONDS = 240


def main(rounds, document):
    """Runs all rounds; returns 1 if a limit is missed."""
    # Otherwise every process compiles the modules of Mirrax anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    load = measure_other_load()
    launchers = {"mirrax": ["-m", "mirrax.launch", "-n", "2", "--max-restarts", "3"]}
    pythons = {"mirrax": sys.executable}
    try:
        pythons["torch"] = python_of("torch")
        options = ["--nproc-per-node", "2", "--max-restarts", "3", "--standalone"]
        launchers["torch"] = ["-m", "torch.distributed.run", *options]
    except MissingError as error:
        print(f"Without torchrun: {error}", flush=True)
    resumed = {name: [] for name in launchers}
    restarts, warm_starts = [], []
    for _ in range(rounds):
        for name, options in launchers.items():
            with tempfile.TemporaryDirectory() as folder:
                job = Job(pathlib.Path(folder), [pythons[name], *options], name)
                seconds, restart = job.kill_and_resume()
                resumed[name].append(seconds)
                if name == "mirrax":
                    restarts.append(restart)
                    warm_starts.append(job.start_again())
    ratio = statistics.median(restarts) / statistics.median(warm_starts)
    machine = describe_machine(load, measure_other_load())
    rows = {
        "from the kill to the next step: `mirrax launch`": resumed["mirrax"],
        "from the kill to the next step: `torchrun`": resumed.get("torch"),
        "from the start of the program to its first step: after a restart": restarts,
        "from the start of the program to its first step: warm start": warm_starts,
    }
    table = make_table(rows, rounds, ratio, machine)
    print(table)
    if document:
        write_table(document, "benchmarks/restart_time.py", table)
    return int(ratio > LIMIT)


class Job:
    """A training of two workers in a folder."""

    def __init__(self, folder, launcher, name):
        self._folder = folder
        self._command = [*launcher, str(FOLDER / f"with_{name}.py"), str(folder)]
        self._environment = os.environ | {
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }

    def kill_and_resume(self):
        """Returns the seconds from a kill, and from the restart, to the next step."""
        process = self._start(STEPS)
        try:
            self._wait_for(
                lambda steps: steps and steps[-1][1] >= KILLED_AFTER, process
            )
            killed_at = time.time()
            os.kill(int((self._folder / "pid-1").read_text()), signal.SIGKILL)
            started = self._steps()[-1][0]
            self._wait_for(lambda steps: steps[-1][0] > started, process)
            finish(process)
        finally:
            # A launcher that is told to end takes its workers with it.
            process.terminate()
            process.wait(MAX_SECONDS)
        first = next(step for step in self._steps() if step[0] > started)
        return first[2] - killed_at, first[2] - first[0]

    def start_again(self):
        """Returns the seconds to the first step of a job that had ended."""
        count = len(self._steps())
        finish(self._start(STEPS + INTERVAL))
        first = self._steps()[count]
        return first[2] - first[0]

    def _start(self, steps):
        return subprocess.Popen(
            [*self._command, str(steps), str(INTERVAL)],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _steps(self):
        """Returns start of the program, number and time of each step so far."""
        path = self._folder / "steps"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [line.split() for line in lines if len(line.split()) == 3]
        return [(float(start), int(n), float(now)) for start, n, now in rows]

    def _wait_for(self, is_done, process):
        deadline = time.monotonic() + MAX_SECONDS
        while not is_done(self._steps()):
            assert process.poll() is None, f"{self._command} ended early"
            assert time.monotonic() < deadline, f"{self._command} takes too long"
            time.sleep(0.005)


def finish(process):
    assert process.wait(MAX_SECONDS) == 0, f"{process.args} failed"


def make_table(rows, rounds, ratio, machine):
    lines = [
        f"One of two workers is killed, {rounds} times, on one machine ({machine}), "
        f"{datetime.date.today()}. The first step after a restart comes after "
        f"{ratio:.2f} times the seconds of a warm start (limit {LIMIT}).",
        "",
        "| seconds | median | worst |",
        "|---|---|---|",
    ]
    for what, seconds in rows.items():
        cells = ["not measured", ""]
        if seconds:
            cells = [f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}"]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=pathlib.Path, help="the document for the table")
    chosen = parser.parse_args()
    sys.exit(main(chosen.rounds, chosen.write))
