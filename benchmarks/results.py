"""What was measured: its statistics, its file and its lines in the terminal."""

import json
import os
import platform
import statistics
import time

# Floats are added up in another order by each library.
TOLERANCE = 5e-3


class Results:
    """The rows in `results.json`, which is written after each of them.

    A group that is measured again replaces its rows; the other groups stay, if they
    were measured on the same machine.

    Args:
        path: The file.
        order: The names of all groups. Rows of others are dropped.
    """

    def __init__(self, path, order):
        self._path = path
        self._order = order
        self._data = {"machine": describe_machine(), "versions": {}}
        self._data |= {"skipped": [], "rows": []}
        if path.exists():
            self._take_over(json.loads(path.read_text()))

    def start_group(self, group):
        """Forgets what was measured of a group before."""
        self._keep(self._data, lambda record: record["group"] != group)

    def add(self, row):
        """Adds a row of the group that was started last."""
        moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        self._data["rows"].append({**row, "measured": moment})
        self._data["rows"].sort(key=lambda row: self._order.index(row["group"]))
        self.write()

    def skip(self, group, name, why):
        """Notes that a contender or a row of the group is left out."""
        self._data["skipped"].append({"group": group, "name": name, "why": why})
        self.write()

    def note_versions(self, versions):
        self._data["versions"] |= versions

    def write(self):
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._data, indent=1) + "\n")
        temporary.replace(self._path)

    def _take_over(self, before):
        if before["machine"] != self._data["machine"]:
            print(f"The rows in {self._path} are of another machine: they go.")
            return
        self._data["versions"] = before["versions"]
        self._keep(before, lambda record: record["group"] in self._order)

    def _keep(self, data, is_kept):
        for name in ("skipped", "rows"):
            self._data[name] = [record for record in data[name] if is_kept(record)]


def describe_machine():
    return {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def differing_labels(values):
    """Returns who computed something else than the first one."""
    first = next(iter(values.values()))
    return [
        label
        for label, value in values.items()
        if abs(value - first) > TOLERANCE * max(abs(first), 1e-6)
    ]


def summarize(rounds, first, limits):
    """Returns medians, and ratios of the first contender to each other one.

    >>> rounds = [{"a": 1.0, "b": 2.0}] * 3
    >>> summarize(rounds, "a", {"b": 0.6})["ratios"]["b"]["median"]
    0.5
    """
    seconds = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    ratios = {}
    for name in seconds:
        if name == first:
            continue
        found = [r[first] / r[name] for r in rounds]
        low, median, high = statistics.quantiles(found, n=4, method="inclusive")
        ratios[name] = {"median": median, "low": low, "high": high}
        if name in limits:
            limit = limits[name]
            ratios[name] |= {"limit": limit, "is_kept": median <= limit}
    return {"seconds": seconds, "ratios": ratios, "rounds": len(rounds)}


def print_row(row, first):
    """Prints a row, a line for each contender; returns how many limits it missed."""
    print(f"{row['name']:32s} {first:22s} {milliseconds(row, first)}", flush=True)
    missed = 0
    for label, ratio in row["ratios"].items():
        verdict = ""
        if "limit" in ratio:
            verdict = "ok" if ratio["is_kept"] else "MISSED"
            verdict = f"(limit {ratio['limit']:.2f}: {verdict})"
            missed += not ratio["is_kept"]
        spread = f"{ratio['low']:.2f}-{ratio['high']:.2f}"
        print(
            f"{'':32s} {label:22s} {milliseconds(row, label)}   "
            f"ratio {ratio['median']:5.2f}  [{spread}]  {verdict}",
            flush=True,
        )
    return missed


def print_seconds(name, label, seconds):
    print(f"{name:32s} {label:22s} {seconds:10.2f} s", flush=True)


def milliseconds(row, label):
    return f"{row['seconds'][label] * 1e3:10.3f} ms"
