"""Injects faults into real jobs and measures how long the others take to notice.

    python soak/faults/soak.py [--rounds N] [--workers N N ...] [--write document]

Every round runs each kind of fault at each moment once, on a worker that changes; the
numbers of workers take turns. Exits with 1 if a worker hangs, meets another error than
it should, or dies by a signal.
"""

import argparse
import dataclasses
import os
import pathlib
import random
import re
import statistics
import sys
import time

from mirrax.launch.supervisor import Supervisor
from mirrax.launch.worker_plan import plan_local

PROGRAM = pathlib.Path(__file__).with_name("program.py")
MOMENTS = ("start-up", "compile", "step", "data wait", "end")
# Each kind of fault with the error that all others must raise.
FAULTS = {
    "kill": "WorkerLost",
    "exit": "WorkerLost",
    "raise": "WorkerFailed",
    "stop": "WorkerLost",
    "sleep": "CollectiveTimeout",
}
# Short, so that a round does not take an hour; both can be set by users.
SILENCE = 5
STUCK = 5
JOIN = 20
# A worker that is stopped never ends by itself.
PATIENCE = 6.0
DEADLINE = 90.0
NOISE = re.compile(r"Check failure|\.cc:\d+\]|Fatal Python|core dumped")
BEGIN, END = "<!-- made by make soak -->", "<!-- end of what make soak makes -->"


@dataclasses.dataclass(frozen=True)
class Trial:
    """One fault: what, when, to whom of how many, and what came of it."""

    kind: str
    moment: str
    culprit: int
    num_workers: int
    seconds: float | None
    complaint: str
    has_hung: bool


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of 'fault at moment'")
    parser.add_argument("--write", type=pathlib.Path, help="the document for the table")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    trials = []
    for number in range(options.rounds):
        num_workers = options.workers[number % len(options.workers)]
        for moment in MOMENTS:
            for kind in FAULTS:
                if options.only in f"{kind} at {moment}":
                    culprit = (len(trials) + number) % num_workers
                    # The start takes about a second, and has many parts.
                    longest = 1.5 if moment == "start-up" else 0.4
                    delay = generator.uniform(0.0, longest)
                    trials.append(run(kind, moment, culprit, delay, num_workers))
                    show(trials[-1], len(trials))
    table = tabulate(trials)
    print(table)
    if options.write:
        write(options.write, table)
    return 1 if any(trial.complaint for trial in trials) else 0


def run(kind, moment, culprit, delay, num_workers):
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "MIRRAX_SILENCE_TIMEOUT": str(SILENCE),
        "MIRRAX_STUCK_TIMEOUT": str(STUCK),
        "MIRRAX_JOIN_TIMEOUT": str(JOIN),
    }
    command = [sys.executable, str(PROGRAM), kind, moment, str(culprit), str(delay)]
    outcome = Supervisor(
        plan_local(num_workers),
        command,
        environment=environment,
        show=lambda line: None,
        failure_grace=PATIENCE,
    ).run(timeout=DEADLINE)
    found = re.findall(r"^FAULT (\S+)$", outcome.logs[culprit], re.MULTILINE)
    complaint = "" if found else "the fault did not happen"
    delays = []
    for index in range(num_workers):
        if index == culprit:
            continue
        log = outcome.logs[index]
        raised = re.findall(r"^RAISED (\S+) (\w+) (\S+)", log, re.MULTILINE)
        if not raised:
            complaint = complaint or f"worker {index} raised nothing:\n{log[-1500:]}"
            continue
        when, error, worker = raised[0]
        if found:
            delays.append(float(when) - float(found[0]))
        expected = expect(kind, moment)
        if error not in expected or worker != str(culprit):
            complaint = complaint or f"worker {index}: {error} about {worker}"
        if outcome.exit_codes[index] != 75 or NOISE.search(log):
            code = outcome.exit_codes[index]
            complaint = complaint or f"worker {index}: exit code {code}\n{log[-1500:]}"
    if outcome.timed_out:
        complaint = f"a hang; {complaint}"
    slowest = max(delays, default=None)
    return Trial(
        kind, moment, culprit, num_workers, slowest, complaint, outcome.timed_out
    )


def expect(kind, moment):
    """The errors that are right: before a worker has joined it can only be missing."""
    if moment == "start-up":
        return {FAULTS[kind], "CollectiveTimeout", "WorkerLost"}
    return {FAULTS[kind]}


def show(trial, number):
    seconds = "  -  " if trial.seconds is None else f"{trial.seconds:5.2f}"
    state = trial.complaint or "ok"
    who = f"worker {trial.culprit} of {trial.num_workers}"
    place = f"{trial.kind} at {trial.moment}, {who}"
    print(f"{number:4d}  {seconds} s  {place}: {state}", flush=True)


def tabulate(trials):
    """The table for the document."""
    sizes = ", ".join(str(n) for n in sorted({t.num_workers for t in trials}))
    num_hung = sum(t.has_hung for t in trials)
    num_wrong = sum(bool(t.complaint) for t in trials) - num_hung
    deaths = seconds_of(trials, ("kill", "exit", "raise"), MOMENTS)
    lines = [
        f"{len(trials)} faults in jobs of {sizes} workers on one machine, "
        f"{time.strftime('%Y-%m-%d')}: {num_hung or 'none'} hung, "
        f"{num_wrong or 'none'} gave a wrong error. Seconds from the fault until the "
        "last of the other workers has raised its error: median (maximum), number of "
        f"faults. All deaths and exceptions together: {describe(deaths)}.",
        "",
        "| fault | the others raise | " + " | ".join(MOMENTS) + " |",
        "|---|---|" + "---|" * len(MOMENTS),
    ]
    for kind, error in FAULTS.items():
        cells = [describe(seconds_of(trials, [kind], [moment])) for moment in MOMENTS]
        lines.append(f"| {kind} | {error} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def seconds_of(trials, kinds, moments):
    return [
        t.seconds
        for t in trials
        if t.kind in kinds and t.moment in moments and t.seconds is not None
    ]


def describe(seconds):
    if not seconds:
        return "-"
    return f"{statistics.median(seconds):.2f} ({max(seconds):.2f}), {len(seconds)}"


def write(path, table):
    """Puts the table between its marks in the document."""
    text = path.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}")


if __name__ == "__main__":
    sys.exit(main())
