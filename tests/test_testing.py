"""Help for testing programs of several workers, with workers that are not started."""

import pytest

from mirrax import errors, testing
from mirrax.testing import launch_processes
from mirrax.testing import run_in_processes as run_in_processes


def train():
    """Stands for a function that workers run."""


@pytest.fixture
def launched(monkeypatch):
    """What was asked of the launcher, which prints two lines and returns results."""
    asked = []

    def run(fn, workers, args, *, show, **options):
        asked.append((fn, workers, args, options))
        show("[worker 0] hello")
        show("[worker 1] goodbye")
        return list(range(workers))

    monkeypatch.setattr(testing, "run", run)
    return asked


def fail_with(error):
    def run(*_, show, **__):
        show("[worker 0] hello")
        show("[worker 1] goodbye")
        raise error

    return run


def test_results_are_those_of_the_workers(launched):
    assert launch_processes(train, 3) == [0, 1, 2]


def test_two_workers_are_started_without_being_asked(launched):
    launch_processes(train)
    options = {"devices_per_worker": None, "timeout": 300.0, "environment": None}
    assert launched == [(train, 2, (), options)]


def test_all_that_is_given_reaches_the_launcher(launched):
    given = {"timeout": 7.0, "environment": {"NAME": "value"}}
    launch_processes(train, num_processes=4, args=(1, "x"), devices=3, **given)
    assert launched == [(train, 4, (1, "x"), {"devices_per_worker": 3, **given})]


def test_fixture_runs_processes(launched, run_in_processes):
    assert run_in_processes(train, num_processes=1) == [0]


@pytest.mark.parametrize(
    "error",
    [errors.WorkerFailed, errors.WorkerLost, errors.CollectiveTimeout],
    ids=lambda error: error.__name__,
)
def test_failure_of_a_worker_fails_the_test_with_all_output(monkeypatch, error):
    monkeypatch.setattr(testing, "run", fail_with(error("worker 1 is gone")))
    with pytest.raises(pytest.fail.Exception) as info:
        launch_processes(train)
    lines = ["worker 1 is gone", "", "All output:", "[worker 0] hello"]
    assert str(info.value) == "\n".join([*lines, "[worker 1] goodbye"])
    # The place in this module tells nothing.
    assert not info.value.pytrace


def test_mistake_in_the_call_is_raised_as_it_is(monkeypatch):
    monkeypatch.setattr(testing, "run", fail_with(TypeError("no function")))
    with pytest.raises(TypeError, match="no function"):
        launch_processes(None)


def test_output_is_not_shown_by_a_test_that_passes(launched, capsys):
    launch_processes(train)
    assert capsys.readouterr() == ("", "")


def test_exported_names_are_those_for_tests():
    assert testing.__all__ == ["launch_processes", "run_in_processes"]
