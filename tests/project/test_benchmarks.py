"""The benchmarks can be run, and their tables be written."""

import json
import os
import pathlib
import subprocess
import sys
import typing

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_every_case_names_contenders_that_exist_and_kinds_that_they_serve(tmp_path):
    from cases import all_cases

    cases = all_cases(tmp_path)
    assert len({(case.group, case.name) for case in cases}) == len(cases)
    for case in cases:
        assert set(case.limits) <= set(case.entries)
        for entry, work in case.entries.values():
            path = BENCHMARKS / "contenders" / f"with_{entry.contender}.py"
            served = path.read_text()
            if entry.contender in ("accelerate", "fabric"):
                served = path.with_name("with_torch.py").read_text()
            assert f"{work['kind']}=" in served, (case.name, entry)


def test_ratios_are_those_of_the_rounds():
    from results import differing_labels, summarize

    rounds = [{"ours": 1.0, "theirs": 2.0}, {"theirs": 8.0, "ours": 2.0}] * 5
    found = summarize(rounds, "ours", {"theirs": 0.3})
    ratio = found["ratios"]["theirs"]
    assert (ratio["low"], ratio["high"]) == (0.25, 0.5)
    assert not ratio["is_kept"]
    assert found["seconds"] == {"ours": 1.5, "theirs": 5.0}
    assert differing_labels({"a": 1.0, "b": 1.001, "c": 1.1}) == ["c"]


def test_pages_get_tables_from_results(tmp_path):
    import page

    ratio = {"median": 0.5, "low": 0.4, "high": 0.6, "limit": 0.3, "is_kept": False}
    row = {"group": "2 replicas", "name": "MLP", "ratios": {"JAX": ratio}}
    row["seconds"] = {"Mirrax": 0.001, "JAX": 0.002}
    start = {"group": "start-up", "name": "import", "seconds": {"Mirrax": 1.5}}
    rows = [{**each, "measured": "today"} for each in (start, row)]
    machine = {"cores": 2, "python": "3.11"}
    results = {"machine": machine, "versions": {"jax": "1"}, "rows": rows}
    left_out = {"name": "torch", "why": "no wheel"}
    results["skipped"] = [{**left_out, "group": group} for group in ("input", "eager")]
    text = page.performance_tables(results, tmp_path)
    wanted = "| MLP | 1 | JAX | 2 | 0.50 | 0.40 to 0.60 | 0.30 (missed) |"
    assert wanted in text.splitlines()
    assert "| import | 1.50 |" in text.splitlines()
    assert 'Not measured under "Input", "Eager": torch (no wheel).' in text


def test_pages_show_the_committed_results():
    import page

    pages = page.make_pages()
    if not pages:
        pytest.skip("no results are committed yet: `make bench` makes them")
    for path, text in pages.items():
        assert path.read_text() == text, f"Run benchmarks/page.py: {path} is old."


def test_results_without_rows_give_a_page(tmp_path):
    import page

    machine = {"cores": 2, "python": "3.11"}
    results = {"machine": machine, "versions": {}, "skipped": [], "rows": []}
    text = page.performance_tables(results, tmp_path)
    assert text == "Nothing measured on 2 cores, with Python 3.11."


def test_a_group_that_is_measured_again_replaces_its_rows_and_notes(tmp_path):
    from results import Results

    path = tmp_path / "results.json"
    order = ["first", "second"]
    results = Results(path, order)
    for group in reversed(order):
        results.start_group(group)
        results.add({"group": group, "name": "old"})
        results.skip(group, "torch", "no wheel")
    again = Results(path, order)
    again.start_group("first")
    again.add({"group": "first", "name": "new"})
    found = json.loads(path.read_text())
    rows = [(row["group"], row["name"]) for row in found["rows"]]
    assert rows == [("first", "new"), ("second", "old")]
    assert [note["group"] for note in found["skipped"]] == ["second"]


class FakeTeam:
    """A team that answers requests until one says that it fails."""

    versions: typing.ClassVar = {}

    def __init__(self, entry):
        self.entry = entry
        self._is_closed = False

    def wait_until_ready(self):
        pass

    def ask(self, row, workload, repeats):
        from teams import FailedError

        if self._is_closed:
            raise ValueError("I/O operation on closed file.")
        if workload["fails"]:
            raise FailedError("it has ended")
        return 0.05, 1.0

    def close(self):
        self._is_closed = True


def test_a_team_that_fails_leaves_the_row_with_all_its_labels(monkeypatch, tmp_path):
    import bench
    from cases import Case
    from results import Results
    from teams import Entry

    monkeypatch.setattr(bench, "Team", FakeTeam)
    path = tmp_path / "results.json"
    torch = Entry("torch")
    entries = {
        "Mirrax": (Entry("mirrax"), {"fails": False}),
        "torch": (torch, {"fails": False}),
        "torch, which fails": (torch, {"fails": True}),
        "torch again": (torch, {"fails": False}),
    }
    budget = bench.Budget(minutes=0, num_rows=1)
    run = bench.Bench(
        [Case("2 replicas", "MLP", entries)], Results(path, ["2 replicas"]), budget, {}
    )
    run.run()
    assert run.faults == ["2 replicas, MLP, torch, which fails: it has ended"]
    (row,) = json.loads(path.read_text())["rows"]
    assert list(row["seconds"]) == ["Mirrax"]


@pytest.mark.slow
def test_contenders_and_rows_that_are_left_out_are_named(tmp_path):
    results = tmp_path / "results.json"
    command = [sys.executable, BENCHMARKS / "bench.py", "--group", "eager"]
    command += ["--without", "tensorflow", "--minutes", "0.01", "--results", results]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped tensorflow: left out by --without" in done.stdout
    found = json.loads(results.read_text())
    assert [row["name"] for row in found["rows"]] == ["empty run"]
    left_out = [(note["name"], note["why"]) for note in found["skipped"]]
    assert left_out == [
        ("tensorflow", "left out by --without"),
        ("run with all_reduce", "the time was used up"),
    ]


def test_each_row_starts_with_new_workloads(tmp_path):
    program = tmp_path / "contender.py"
    program.write_text(
        "import itertools\n"
        "from serve import serve\n\n\n"
        "def make_train():\n"
        "    numbers = itertools.count()\n"
        "    return lambda repeats: next(numbers)\n\n\n"
        "serve(train=make_train)\n"
    )
    requests = [{"row": row, "kind": "train", "repeats": 1} for row in "aab"]
    team = {"worker": 0, "ports": [1], "replicas": 1, "variant": ""}
    environment = {"PYTHONPATH": str(BENCHMARKS / "contenders")}
    done = subprocess.run(
        [sys.executable, program],
        input="\n".join(map(json.dumps, requests)),
        env=os.environ | environment | {"BENCH_TEAM": json.dumps(team)},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["value"] for answer in answers[1:]] == [0, 1, 0]


@pytest.mark.slow
def test_programs_have_the_same_collectives_on_any_number_of_replicas(tmp_path):
    results = tmp_path / "scale.json"
    command = [sys.executable, BENCHMARKS / "scale.py", "--results", results]
    command += ["--replicas", "2", "8", "--workers", "30"]
    subprocess.run(command, timeout=600, check=True)
    found = json.loads(results.read_text())
    counts = [
        (
            program["replicas"],
            program["collectives"],
            program["bytes_reduced_per_replica"],
        )
        for program in found["programs"]
    ]
    assert counts == [(2, 1, 104_492), (8, 1, 104_492)]
    assert [row["workers"] for row in found["coordinator"]] == [30]
