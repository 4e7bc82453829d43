"""Trains on 1 replica, on 2, and on 2 workers of which one is killed; makes a report.

    python demo/demo.py [--epochs 6] [--picture docs/plots/demo.svg]

The report is `demo/report.html`, one page without scripts that opens in any browser.
The picture shows its charts alone, as in the README.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np

# Found beside this file.
from charts import draw_picture
from report import Run, write_report

FOLDER = pathlib.Path(__file__).parent
OUTPUT = FOLDER / "output"
SECONDS = 600


def train_here(name, replicas, epochs):
    """Trains in one process."""
    print(f"==> {name}", flush=True)
    command = [sys.executable, FOLDER / "train.py", OUTPUT / name]
    options = ["--replicas", str(replicas), "--epochs", str(epochs)]
    subprocess.run([*command, *options], check=True, timeout=SECONDS)
    return read_run(name)


def train_on_workers(name, epochs, kill_after):
    """Trains on two workers; kills one of them after some steps."""
    print(f"==> {name}", flush=True)
    folder = OUTPUT / name
    launch = [sys.executable, "-m", "mirrax.launch", "-n", "2"]
    script = [FOLDER / "train.py", folder, "--workers", "--epochs", str(epochs)]
    job = subprocess.Popen([*launch, "--max-restarts", "2", *script])
    try:
        killed = kill_worker(job, folder, kill_after)
        job.wait(SECONDS)
    finally:
        # The launcher ends its workers. If the job has ended, nothing happens.
        job.terminate()
        job.wait(SECONDS)
    if job.returncode != 0:
        raise SystemExit(f"The job failed with exit code {job.returncode}.")
    return read_run(name, killed)


def kill_worker(job, folder, kill_after):
    """Kills the second worker once enough steps are done; returns when it did."""
    end = time.monotonic() + SECONDS
    while len(read_steps(folder)) < kill_after:
        if job.poll() is not None or time.monotonic() > end:
            raise SystemExit("The job ended before a worker was killed.")
        time.sleep(0.02)
    os.kill(int((folder / "process-1").read_text()), signal.SIGKILL)
    print("==> killed worker 1 with SIGKILL", flush=True)
    return time.time()


def read_steps(folder):
    path = folder / "steps.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def read_run(name, killed=None):
    folder = OUTPUT / name
    facts = json.loads((folder / "facts.json").read_text())
    with np.load(folder / "parameters.npz") as arrays:
        parameters = [arrays[key] for key in arrays.files]
    return Run(name, read_steps(folder), parameters, killed=killed, **facts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--picture", type=pathlib.Path, metavar="FILE.svg")
    options = parser.parse_args()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    runs = [
        train_here("1 replica", 1, options.epochs),
        train_here("2 replicas", 2, options.epochs),
    ]
    # A checkpoint is written every 10 steps: some steps after one are lost.
    kill_after = len(runs[0].steps) // 20 * 10 + 6
    name = "2 workers, one killed"
    runs.append(train_on_workers(name, options.epochs, kill_after))
    path = FOLDER / "report.html"
    path.write_text(write_report(runs))
    if options.picture is not None:
        options.picture.write_text(draw_picture(runs))
    one, two, workers = runs
    print(f"accuracy on unseen digits: {', '.join(f'{r.accuracy:.1%}' for r in runs)}")
    print(f"1 against 2 replicas: parameters differ by {two.difference(one):.1e}")
    print(f"2 replicas against 2 workers: by {workers.difference(two):.1e}")
    print(f"Report: {path}")
    if max(two.difference(one), workers.difference(one)) > 1e-4:
        raise SystemExit("The runs should have ended alike.")


if __name__ == "__main__":
    main()
