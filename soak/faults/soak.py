"""Injects faults into real jobs and measures how long the others take to notice.

    python soak/faults/soak.py [--rounds N] [--workers N N ...] [--minutes N]
        [--write document]

Every round injects each fault once; the worker it hits and the number of workers take
turns. Exits with 1 if a job hangs, or a worker meets another error than it should, dies
by a signal, or fails although it should not.
"""

import argparse
import concurrent.futures
import dataclasses
import math
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from mirrax.launch.machines import Alone
from mirrax.launch.restarts import run_job
from tools.measured_tables import write_table

PROGRAM = pathlib.Path(__file__).with_name("program.py")
MOMENTS = ("start-up", "compile", "step", "data wait", "save", "end")
# Each fault of one worker with the error that all others must raise.
ONE_WORKER = {
    "kill": "WorkerLost",
    "exit": "WorkerLost",
    "raise": "WorkerFailed",
    "sys.exit": "WorkerFailed",
    "stop": "WorkerLost",
    "sleep": "CollectiveTimeout",
}
# Faults that hit all workers at the same time; the job must end.
ALL_WORKERS = ("kill", "raise", "stop", "sleep")
ALL_MOMENTS = ("compile", "step", "save")
ATTACKS = ("garbage", "half-open", "replay", "flood")
# What a job must survive, and when it happens.
HARMLESS = {
    "late": ("start-up",),
    "pause": ("start-up", "step", "save"),
    **dict.fromkeys(ATTACKS, ("start-up", "step")),
}
ALL = -1
# Short, so that a round does not take an hour; users can set all of them.
LIMITS = {
    "MIRRAX_SILENCE_TIMEOUT": "5",
    "MIRRAX_STUCK_TIMEOUT": "5",
    "MIRRAX_IDLE_TIMEOUT": "8",
    "MIRRAX_JOIN_TIMEOUT": "20",
    # A worker that is stopped never ends by itself.
    "MIRRAX_FAILURE_GRACE": "6",
}
# However late a worker is on a busy machine, it must not count as missing.
PATIENT = {"MIRRAX_JOIN_TIMEOUT": "60"}
DEADLINE = 90.0
NOISE = re.compile(r"Check failure|\.cc:\d+\]|Fatal Python|core dumped")


@dataclasses.dataclass(frozen=True)
class Plan:
    """One fault: what, when, to whom of how many."""

    kind: str
    moment: str
    culprit: int
    num_workers: int
    delay: float

    @property
    def name(self):
        hits_all = self.culprit == ALL and self.kind in ALL_WORKERS
        return f"{self.kind} all" if hits_all else self.kind


@dataclasses.dataclass(frozen=True)
class Trial:
    """What came of a fault."""

    plan: Plan
    seconds: float | None
    complaint: str
    has_hung: bool


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 2, 4])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of 'fault at moment'")
    parser.add_argument("--jobs", type=int, default=3, help="faults at a time")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then stop")
    parser.add_argument("--write", type=pathlib.Path, help="the document for the table")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    plans = [
        plan
        for number in range(options.rounds)
        for plan in plan_round(number, options.workers, generator)
        if options.only in f"{plan.name} at {plan.moment}"
    ]
    end = time.monotonic() + 60 * options.minutes

    def run_in_time(plan):
        return run(plan) if time.monotonic() < end else None

    trials = []
    # Most faults are waited for, so several jobs at a time cost little.
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for trial in filter(None, pool.map(run_in_time, plans)):
            trials.append(trial)
            show(trial, len(trials), len(plans))
    print(f"{len(trials)} of {len(plans)} planned faults were injected.")
    table = tabulate(trials)
    print(table)
    if options.write:
        write_table(options.write, "make soak", table)
    return 1 if any(trial.complaint for trial in trials) else 0


def plan_round(number, sizes, generator):
    """Yields each fault once."""
    num_workers = sizes[number % len(sizes)]
    faults = [(kind, moment) for moment in MOMENTS for kind in ONE_WORKER]
    faults += [(kind, moment) for kind in HARMLESS for moment in HARMLESS[kind]]
    for position, (kind, moment) in enumerate(faults):
        # The start takes about a second, and has many parts.
        longest = 1.5 if moment == "start-up" else 0.4
        delay = generator.uniform(0.0, longest)
        if kind == "late":
            delay = generator.uniform(5.5, 8.0)
        # Every worker attacks its own ports, so that all are attacked.
        culprit = ALL if kind in ATTACKS else (position + number) % num_workers
        yield Plan(kind, moment, culprit, num_workers, delay)
    for moment in ALL_MOMENTS:
        for kind in ALL_WORKERS:
            yield Plan(kind, moment, ALL, num_workers, generator.uniform(0.0, 0.3))


def run(plan):
    with tempfile.TemporaryDirectory(prefix="mirrax-soak-") as folder:
        limits = LIMITS | PATIENT if plan.kind in HARMLESS else LIMITS
        words = (plan.kind, plan.moment, plan.culprit, plan.delay, folder)
        outcome = run_job(
            Alone(plan.num_workers),
            [sys.executable, str(PROGRAM), *map(str, words)],
            pathlib.Path(folder),
            environment={**os.environ, "JAX_PLATFORMS": "cpu", **limits},
            show=lambda line: None,
            timeout=DEADLINE,
        )
    ended = time.time()
    faults = [
        float(found)
        for log in outcome.logs
        for found in re.findall(r"^FAULT (\S+)$", log, re.MULTILINE)
    ]
    if plan.kind in HARMLESS:
        seconds, complaint = None, check_survival(outcome)
    elif plan.culprit == ALL:
        # In the end the launcher kills the stopped ones.
        seconds, complaint = ended - max(faults, default=ended), check_end(outcome)
    else:
        seconds, complaint = check_others(plan, outcome, faults)
    if not faults:
        complaint = complaint or "the fault did not happen"
    if outcome.timed_out:
        complaint = f"a hang; {complaint}"
    return Trial(plan, seconds, complaint, outcome.timed_out)


def check_survival(outcome):
    """Says which worker failed, although none should."""
    for index, (code, log) in enumerate(zip(outcome.exit_codes, outcome.logs)):
        if code != 0 or NOISE.search(log):
            return f"worker {index}: exit code {code}\n{log[-1500:]}"
    return ""


def check_end(outcome):
    """Says which worker ended by something else than an error or a kill."""
    for index, (code, log) in enumerate(zip(outcome.exit_codes, outcome.logs)):
        if code not in (1, 75, 137) or NOISE.search(log):
            return f"worker {index}: exit code {code}\n{log[-1500:]}"
    return ""


def check_others(plan, outcome, faults):
    """Returns when the last of the others raised its error, and what was wrong."""
    complaint = ""
    delays = []
    for index in range(plan.num_workers):
        if index == plan.culprit:
            continue
        log = outcome.logs[index]
        raised = re.findall(r"^RAISED (\S+) (\w+) (\S+)", log, re.MULTILINE)
        if not raised:
            complaint = complaint or f"worker {index} raised nothing:\n{log[-1500:]}"
            continue
        when, error, worker = raised[0]
        delays += [float(when) - fault for fault in faults]
        if error not in expect(plan) or worker != str(plan.culprit):
            complaint = (
                complaint or f"worker {index}: {error} about {worker}\n{log[-1500:]}"
            )
        if outcome.exit_codes[index] != 75 or NOISE.search(log):
            code = outcome.exit_codes[index]
            complaint = complaint or f"worker {index}: exit code {code}\n{log[-1500:]}"
    return max(delays, default=None), complaint


def expect(plan):
    """The errors that are right: before a worker has joined it can only be missing."""
    expected = {ONE_WORKER[plan.kind]}
    if plan.moment == "start-up":
        expected |= {"CollectiveTimeout", "WorkerLost"}
    return expected


def show(trial, number, total):
    plan = trial.plan
    seconds = "  -  " if trial.seconds is None else f"{trial.seconds:5.2f}"
    state = trial.complaint or "ok"
    who = "all" if plan.culprit == ALL else f"worker {plan.culprit}"
    place = f"{plan.kind} at {plan.moment}, {who} of {plan.num_workers}"
    print(f"{number:4d}/{total}  {seconds} s  {place}: {state}", flush=True)


def tabulate(trials):
    """The table for the document."""
    sizes = ", ".join(str(n) for n in sorted({t.plan.num_workers for t in trials}))
    num_hung = sum(t.has_hung for t in trials)
    num_wrong = sum(bool(t.complaint) for t in trials) - num_hung
    deaths = [t for t in trials if t.plan.name in ("kill", "exit", "raise", "sys.exit")]
    lines = [
        f"{len(trials)} faults in jobs of {sizes} workers on one machine, "
        f"{time.strftime('%Y-%m-%d')}: {num_hung or 'none'} hung, "
        f"{num_wrong or 'none'} gave a wrong result. Seconds from the fault until the "
        "last of the other workers has raised its error, or until the job has ended if "
        "the fault hit all: median (maximum), number of faults. All deaths and "
        f"exceptions of one worker together: {describe(deaths)}.",
        "",
        "| fault | the others | " + " | ".join(MOMENTS) + " |",
        "|---|---|" + "---|" * len(MOMENTS),
    ]
    rows = [(kind, f"raise {error}") for kind, error in ONE_WORKER.items()]
    rows += [(f"{kind} all", "-") for kind in ALL_WORKERS]
    rows += [(kind, "finish") for kind in HARMLESS]
    for name, result in rows:
        of_kind = [trial for trial in trials if trial.plan.name == name]
        cells = [
            describe([trial for trial in of_kind if trial.plan.moment == moment])
            for moment in MOMENTS
        ]
        lines.append(f"| {name} | {result} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def describe(trials):
    seconds = [t.seconds for t in trials if t.seconds is not None]
    if not seconds:
        return str(len(trials)) if trials else ""
    return f"{statistics.median(seconds):.2f} ({max(seconds):.2f}), {len(seconds)}"


if __name__ == "__main__":
    sys.exit(main())
