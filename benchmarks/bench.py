"""Compares Mirrax with other libraries, in one interleaved run.

    python benchmarks/bench.py [--quick] [--group "2 workers"] [--without torch]

All contenders of a row are there all the time, in processes of their own, and take
turns. The machine may be shared and noisy, so ratios count: the median of the rounds'
ratios, with the quartiles. Results are written to `benchmarks/results.json` after each
row; groups that were measured before stay in it until they are measured again. A peer
that cannot be installed is left out, and so are the last rows when the time is used up:
both are named.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from cases import IMPORTS, START_UP, START_UPS, all_cases, train
from results import Results, differing_labels, print_row, print_seconds, summarize
from teams import CONTENDERS, FailedError, MissingError, Team, python_of

HERE = pathlib.Path(__file__).resolve().parent
# `make bench` takes 20 minutes: the rest is for `scale.py`.
MINUTES, QUICK_MINUTES = 16, 2.5
TURN_SECONDS = 0.06
MIN_ROUNDS, MAX_ROUNDS = 5, 40
# A row is measured for at most this long; at least, if the time is nearly used up.
MAX_SECONDS, MIN_SECONDS = 6.0, 0.5


class Budget:
    """Divides the time among the rows.

    Args:
        minutes: How long all rows may take.
        num_rows: How many there are.
    """

    def __init__(self, minutes, num_rows):
        self._minutes = minutes
        self._start = time.monotonic()
        self._num_rows = num_rows
        self._num_done = 0

    def seconds_of_row(self):
        """Returns how long to measure the next row."""
        left = self._start + 60 * self._minutes - time.monotonic()
        # Starting and compiling take as long as measuring, or longer.
        share = 0.4 * left / max(1, self._num_rows - self._num_done)
        return min(MAX_SECONDS, max(MIN_SECONDS, share))

    def has_time(self):
        """Returns whether another row fits, if it takes as long as those before."""
        taken = time.monotonic() - self._start
        return taken * (1 + 1 / max(1, self._num_done)) <= 60 * self._minutes

    def finish_row(self):
        self._num_done += 1

    def minutes_left(self):
        """Returns how long the rest takes if it goes on like this."""
        if not self._num_done:
            return self._minutes
        taken = (time.monotonic() - self._start) / 60
        return taken / self._num_done * (self._num_rows - self._num_done)


class Bench:
    """One run: starts teams when a row needs them, ends them when none does any more.

    Args:
        cases: What to compare, in order.
        results: Where the rows go.
        budget: How long a row is measured.
        skipped: By name of contender: why it is left out.
    """

    def __init__(self, cases, results, budget, skipped):
        self.num_missed = 0
        self.faults = []
        self._cases = cases
        self._skipped = skipped
        self._results = results
        self._budget = budget
        self._teams = {}

    def run(self):
        """Measures all rows."""
        try:
            for index, case in enumerate(self._cases):
                if index == 0 or self._cases[index - 1].group != case.group:
                    rows = [c for c in self._cases if c.group == case.group]
                    entries = [entry for row in rows for entry, _ in entries_of(row)]
                    self._start_group(case.group, entries)
                if index and not self._budget.has_time():
                    print(f"{case.name:32s} left out: the time is used up", flush=True)
                    self._results.skip(case.group, case.name, "the time was used up")
                else:
                    self._run_case(case)
                    self._budget.finish_row()
                later = {e for c in self._cases[index + 1 :] for e, _ in entries_of(c)}
                for entry in set(self._teams) - later:
                    self._teams.pop(entry).close()
        finally:
            for team in self._teams.values():
                team.close()

    def start_up(self):
        """Measures imports, and the time to the end of the first step."""
        entries = [entry for row in START_UPS.values() for entry in row.values()]
        self._start_group(START_UP, entries)
        row = {"group": START_UP, "name": "import", "seconds": {}}
        for label, (contender, module) in IMPORTS.items():
            with self._noting(f"import of {module}"):
                if contender not in self._skipped:
                    row["seconds"][label] = time_import(contender, module)
                    print_seconds("import", label, row["seconds"][label])
            self._budget.finish_row()
        self._results.add(row)
        for replicas, entries in START_UPS.items():
            row = {"group": START_UP, "name": f"first step, replicas: {replicas}"}
            row |= {"x": replicas, "seconds": {}}
            for label, entry in entries.items():
                with self._noting(f"first step of {entry}"):
                    if entry.contender not in self._skipped:
                        row["seconds"][label] = time_start(entry)
                        print_seconds(row["name"], label, row["seconds"][label])
                self._budget.finish_row()
            self._results.add(row)

    def _start_group(self, group, entries):
        left = self._budget.minutes_left()
        print(f"\n== {group} (about {left:.0f} minutes left)", flush=True)
        self._results.start_group(group)
        for name in dict.fromkeys(entry.contender for entry in entries):
            if name in self._skipped:
                self._results.skip(group, name, self._skipped[name])

    @contextlib.contextmanager
    def _noting(self, what):
        """Notes what fails in the `with` block; goes on after it."""
        try:
            yield
        except FailedError as error:
            print(f"   {what} failed: {error}", flush=True)
            self.faults.append(f"{what}: {error}")

    def _run_case(self, case):
        present = self._start(case)
        first = next(iter(case.entries))
        values, repeats = self._warm_up(case, present)
        rounds = self._measure(case, present, repeats) if first in present else []
        if not rounds:
            print(f"{case.name:32s} not measured", flush=True)
            self.faults.append(f"{case.group}, {case.name}: not measured")
            return
        row = {"group": case.group, "name": case.name, "x": case.x}
        row |= summarize(rounds, first, case.limits)
        self.num_missed += print_row(row, first)
        for label in differing_labels(values) if case.are_values_equal else []:
            text = f"{label} computed {values[label]} instead of {values[first]}"
            print(f"{'':32s} {text}", flush=True)
            self.faults.append(f"{case.group}, {case.name}: {text}")
        self._results.add(row)

    def _start(self, case):
        """Starts the processes of a row, together; returns who is there by label."""
        new = []
        for entry in dict.fromkeys(entry for entry, _ in entries_of(case)):
            if entry not in self._teams and entry.contender not in self._skipped:
                self._teams[entry] = Team(entry)
                new.append(entry)
        for entry in new:
            team = self._teams.pop(entry)
            with self._noting(f"start of {entry}"):
                try:
                    team.wait_until_ready()
                    self._teams[entry] = team
                    self._results.note_versions(team.versions)
                finally:
                    if entry not in self._teams:
                        team.close()
        return {
            label: (self._teams[entry], work)
            for label, (entry, work) in case.entries.items()
            if entry in self._teams
        }

    def _warm_up(self, case, present):
        """Compiles; returns the values after equal work, and how often to repeat."""
        values, seconds = {}, []
        for label in case.entries:
            for repeats in (1, 2):
                if label in present:
                    answer = self._ask(case, present, label, repeats)
            if label in present:
                seconds.append(answer[0])
                values[label] = answer[1]
        middle = statistics.median(seconds) if seconds else 1.0
        return values, max(1, min(500, round(TURN_SECONDS / max(middle, 1e-6))))

    def _measure(self, case, present, repeats):
        """Returns the seconds of each contender in each round."""
        rounds = []
        start = time.monotonic()
        seconds = self._budget.seconds_of_row()
        while len(rounds) < MAX_ROUNDS:
            if time.monotonic() - start > seconds and len(rounds) >= MIN_ROUNDS:
                break
            order = list(present) if len(rounds) % 2 else list(present)[::-1]
            answers = {
                label: self._ask(case, present, label, repeats)
                for label in order
                if label in present
            }
            if next(iter(case.entries)) not in present:
                return []
            rounds.append({label: a[0] for label, a in answers.items() if a})
        # One that failed on the way is in none of them.
        return [{label: taken[label] for label in present} for taken in rounds]

    def _ask(self, case, present, label, repeats):
        """Returns a contender's answer; None if it failed, which ends its team."""
        team, work = present[label]
        row = f"{case.group}, {case.name}"
        with self._noting(f"{row}, {label}"):
            return team.ask(row, work, repeats)
        for other in [o for o, (its_team, _) in present.items() if its_team is team]:
            del present[other]
        self._teams.pop(team.entry, None)
        team.close()
        return None


def install(contenders, without):
    """Makes the environments, so that no row waits; returns who is left out and why."""
    skipped = dict.fromkeys(without, "left out by --without")
    for contender in contenders:
        if contender in skipped:
            continue
        try:
            python_of(contender)
        except MissingError as error:
            skipped[contender] = str(error)
    for name, why in skipped.items():
        print(f"skipped {name}: {why}", flush=True)
    return skipped


def entries_of(case):
    return list(case.entries.values())


def time_import(contender, module, rounds=3):
    """Returns the seconds of a new interpreter that imports a module."""
    python = python_of(contender)
    # The first import, which is not counted, writes the bytecode, as installing does.
    environment = {
        k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"
    }
    found = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        command = [python, "-c", f"import {module}"]
        done = subprocess.run(
            command, env=environment, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise FailedError(f"{contender}: `import {module}` fails")
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def time_start(entry):
    """Returns the seconds from the start of a process to the end of its first step."""
    start = time.perf_counter()
    team = Team(entry)
    try:
        team.wait_until_ready()
        team.ask(START_UP, train("mlp_small"), 1)
        return time.perf_counter() - start
    finally:
        team.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the main table only")
    parser.add_argument("--group", action="append", default=[], help="only these rows")
    parser.add_argument("--row", default="", help="only rows with this in their name")
    parser.add_argument("--without", action="append", default=[], help="a contender")
    parser.add_argument("--minutes", type=float, help="for all rows together")
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    sys.path.insert(0, str(CONTENDERS))
    with tempfile.TemporaryDirectory() as folder:
        return run(options, all_cases(folder), pathlib.Path(folder))


def run(options, every_case, folder):
    """Measures what the options choose; returns 1 if something is broken."""
    order = [START_UP, *dict.fromkeys(case.group for case in every_case)]
    for group in options.group:
        if group not in order:
            raise SystemExit(f"--group is one of {order}. Received: {group!r}.")
    cases = [
        case
        for case in every_case
        if (case.is_quick or not options.quick)
        and (case.group in options.group or not options.group)
        and options.row in case.name
    ]
    num_rows = len(cases)
    contenders = [entry.contender for case in cases for entry, _ in entries_of(case)]
    has_start_up = START_UP in options.group or not (options.quick or options.group)
    if has_start_up:
        num_rows += len(IMPORTS) + sum(map(len, START_UPS.values()))
        contenders += [contender for contender, _ in IMPORTS.values()]
    if any(work["kind"] == "input" for c in cases for _, work in entries_of(c)):
        from input_pipelines import write_files

        write_files(folder)
    path = options.results or HERE / ("quick.json" if options.quick else "results.json")
    results = Results(path, order)
    skipped = install(dict.fromkeys(contenders), options.without)
    minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    bench = Bench(cases, results, Budget(minutes, num_rows), skipped)
    if has_start_up:
        bench.start_up()
    bench.run()
    for fault in bench.faults:
        print(f"failed: {fault}")
    print(f"\n{bench.num_missed} limit(s) missed. Results: {path}")
    return 1 if bench.faults else 0


if __name__ == "__main__":
    sys.exit(main())
