"""Kills jobs at random moments, preempts and shrinks them, and compares results.

python soak/restarts.py [--kills 100] [--preemptions 30] [--shrinks 20] [--seed 0]
                        [--write docs/reliability.md]

A kill hits the chief, another worker or the coordinator of 2 or 3 workers, at any
moment, also while a checkpoint is written. The launcher starts the job again. Every run
must end by itself, with the bits of an undisturbed run, and lose at most the steps
since the last checkpoint. A preemption is SIGTERM to a worker or the launcher; the job
must save, end with 75, and continue when it is started again. A shrink is the loss of
one of three machines, which returns later; every step must have the same samples.

Each job is killed or preempted several times before it may end.
"""

import argparse
import collections
import datetime
import os
import pathlib
import random
import re
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from mirrax.train import latest_checkpoint
from tests.launch.shrinking import find_hosts, shrink_and_grow
from tests.train.stopping import Launched
from tools.measured_tables import describe_machine, measure_other_load, write_table

STEPS, INTERVAL = 60, 5
PER_JOB = 5
PARTS = ("chief", "worker", "coordinator")
START = time.monotonic()


def main(num_kills, num_preemptions, num_shrinks, seed):
    """Runs all of them, prints a line for each, and returns a table."""
    choices = random.Random(seed)
    # Otherwise every process compiles the modules of Mirrax anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    load = measure_other_load()
    # Seconds of each disturbance, and how many steps it has cost.
    found = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Otherwise every job would compile.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "cache")
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        expected = {n: run_undisturbed(folder / f"whole-{n}", n) for n in (2, 3)}
        for disturb, count in ((kill, num_kills), (preempt, num_preemptions)):
            number = 0
            while number < count:
                num_workers = choices.choice([2, 3])
                directory = folder / f"{disturb.__name__}-{number}"
                # At a later step each time, in the order of the numbers.
                some = min(PER_JOB, count - number)
                steps = sorted(choices.sample(range(1, STEPS - INTERVAL), some))
                digest, results = disturb(directory, num_workers, steps, choices)
                check(digest == expected[num_workers], f"{directory} has other bits")
                for what, seconds, lost in results:
                    number += 1
                    check(lost <= INTERVAL, f"{directory} lost {lost} steps")
                    found[what].append((seconds, lost))
                    say(number, count, f"{what}: {seconds:.1f} s, {lost} steps lost")
        for number in range(num_shrinks):
            directory = folder / f"shrink-{number}"
            directory.mkdir()
            seconds = shrink_and_grow(directory, find_hosts(3))
            found["3 machines become 2, then 3"].append((seconds, 0))
            say(number + 1, num_shrinks, f"3, 2 and 3 machines: {seconds:.1f} s")
    return make_table(found, describe_machine(load, measure_other_load()))


def run_undisturbed(directory, num_workers):
    """Returns the digest of a run that nothing happens to."""
    launched = Launched(directory, STEPS, INTERVAL, "-n", str(num_workers))
    return finish(launched)


def kill(directory, num_workers, steps, choices):
    """Kills a part of the job after each of `steps`; returns its digest and times."""
    options = ("-n", str(num_workers), "--max-restarts", str(len(steps)))
    launched = Launched(directory, STEPS, INTERVAL, *options, moment="pause")
    killed = []
    done = 0
    for number, step in enumerate(steps, start=1):
        # The launcher gives up if nothing new was done since the last failure.
        wait_for_step(launched, max(step, done + 2), choices)
        done = max(launched.steps())
        target = choices.choice(PARTS)
        process = find_process(launched, target, num_workers, choices)
        killed.append((f"SIGKILL to {target}", time.time()))
        os.kill(process, signal.SIGKILL)
        launched.wait_for(f"Restart {number} resumed")
    digest = finish(launched)
    results = []
    for number, (what, killed_at) in enumerate(killed, start=1):
        text = launched.output[launched.output.index(f"Restart {number} of") :]
        resumed_at = re.search(r"step \d+ ([\d.]+)$", text, re.MULTILINE)[1]
        (lost,) = re.findall(rf"Restart {number} resumed .*\(steps lost: (\d+)\)", text)
        results.append((what, float(resumed_at) - killed_at, int(lost)))
    return digest, results


def preempt(directory, num_workers, steps, choices):
    """Preempts the job after each of `steps`, and starts it again, as `kill`."""
    results = []
    for step in steps:
        launched = start(directory, num_workers, moment="pause")
        wait_for_step(launched, step, choices)
        target = choices.choice(["the launcher", "a worker"])
        process = launched.process.pid
        if target == "a worker":
            process = choices.choice(list(launched.worker_pids().values()))
        signalled_at = time.time()
        os.kill(process, signal.SIGTERM)
        check(launched.finish() == 75, f"another exit code:\n{launched.output}")
        seconds = time.time() - signalled_at
        last = launched.steps()[-1]
        newest = latest_checkpoint(directory)
        check(newest.endswith(f"-{last}"), f"{newest} after step {last}")
        results.append((f"SIGTERM to {target}", seconds, 0))
    return finish(start(directory, num_workers)), results


def start(directory, num_workers, moment=""):
    options = ("-n", str(num_workers))
    return Launched(directory, STEPS, INTERVAL, *options, moment=moment)


def wait_for_step(launched, step, choices):
    """Waits until a step is done, or a later one if the job has resumed after it."""
    deadline = time.monotonic() + 240
    while max(launched.steps(), default=0) < step:
        check(launched.process.poll() is None, f"ended early:\n{launched.output}")
        check(time.monotonic() < deadline, f"no step {step}:\n{launched.output}")
        time.sleep(0.005)
    # Steps take about as long as a save, so many kills hit one.
    time.sleep(choices.uniform(0.0, 0.05))


def finish(launched):
    """Waits for the end of a job; returns its digest."""
    ended = launched.finish()
    check(ended == 0, f"exit code {ended}:\n{launched.output}")
    (digest,) = launched.digests()
    return digest


def find_process(launched, target, num_workers, choices):
    """Returns the process id of a part of the job."""
    if target == "coordinator":
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            if is_coordinator(path, launched.process.pid):
                return int(path.name)
    index = 0 if target == "chief" else choices.randrange(1, num_workers)
    return launched.worker_pids()[index]


def is_coordinator(path, parent):
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        command = (path / "cmdline").read_bytes()
    except OSError:
        return False
    return int(fields[1]) == parent and b"coordinator.process" in command


def make_table(found, machine):
    total = sum(map(len, found.values()))
    lines = [
        f"{total} disturbances of jobs on one machine ({machine}), "
        f"{datetime.date.today()}: every job ended by itself, with the bits or the "
        f"samples of an undisturbed run. A checkpoint is written every {INTERVAL} "
        "steps. Seconds are from SIGKILL, or the loss of a machine, to the next step; "
        "from SIGTERM to the end of the job.",
        "",
        "| disturbance | number | seconds: median | worst | steps lost: most |",
        "|---|---|---|---|---|",
    ]
    for what, results in sorted(found.items()):
        seconds, lost = zip(*results)
        lines.append(
            f"| {what} | {len(results)} | {statistics.median(seconds):.1f} | "
            f"{max(seconds):.1f} | {max(lost)} |"
        )
    return "\n".join(lines)


def say(number, count, text):
    print(f"[{time.monotonic() - START:.0f} s] {number}/{count} {text}", flush=True)


def check(is_good, problem):
    if not is_good:
        raise AssertionError(problem)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--preemptions", type=int, default=30)
    parser.add_argument("--shrinks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=pathlib.Path, help="the document for the table")
    chosen = parser.parse_args()
    made = main(chosen.kills, chosen.preemptions, chosen.shrinks, chosen.seed)
    print(made)
    if chosen.write:
        write_table(chosen.write, "soak/restarts.py", made)
