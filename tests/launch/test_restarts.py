"""Restarts of a job: when, how often, and what is said about them."""

import functools
import itertools
import os
import pathlib
import signal
import sys

import jax
import pytest

import mirrax.launch
from mirrax.cluster.step_record import AttemptSteps
from mirrax.launch import launch_command
from mirrax.launch.job_result import Cause
from mirrax.launch.machines import Alone
from mirrax.launch.restarts import (
    FailedAttempt,
    choose_delay,
    find_reason_to_stop,
    run_job,
)
from tests.cluster import programs
from tests.launch import scripts

SCRIPT = str(pathlib.Path(scripts.__file__))


def failed(kind="SIGKILL", first=None, done=None, seconds=1.0):
    return FailedAttempt(
        Cause("worker 1", kind, kind), AttemptSteps(first, done), seconds
    )


@pytest.fixture
def run_script(tmp_path_factory):
    return functools.partial(run, tmp_path_factory.mktemp("job"))


def run(folder, *arguments, max_restarts, num_workers=2, **options):
    lines = []
    environment = {**os.environ, "MIRRAX_FAILURE_GRACE": "1"}
    result = run_job(
        Alone(num_workers),
        [sys.executable, *arguments],
        folder,
        max_restarts=max_restarts,
        show=lines.append,
        timeout=240,
        environment=environment,
        **options,
    )
    return result, [line for line in lines if line.startswith("mirrax launch: ")], lines


def test_failed_job_is_started_again_with_a_line(tmp_path, run_script):
    mark = str(tmp_path / "mark")
    result, said, lines = run_script(SCRIPT, "fail_at_first", mark, max_restarts=2)
    assert result.exit_code == 0
    assert said == [
        "mirrax launch: worker 1: KeyError: 'the cause'. Restart 1 of 2 in 1 s."
    ]
    # All workers of all attempts share a cache of compiled programs.
    caches = {line.split()[-1] for line in lines if "done" in line}
    (cache,) = caches
    assert "compilation-cache" in cache


def test_users_own_compilation_cache_is_kept(tmp_path, monkeypatch, run_script):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    mark = str(tmp_path / "mark")
    _, _, lines = run_script(SCRIPT, "fail_at_first", mark, max_restarts=1)
    assert f"[worker 0] done {tmp_path}" in lines


def test_log_files_keep_the_output_of_all_attempts(tmp_path, run_script):
    mark = str(tmp_path / "mark")
    run_script(
        SCRIPT, "fail_at_first", mark, max_restarts=1, log_folder=tmp_path, grace=1.0
    )
    text = (tmp_path / "worker-1.log").read_text()
    assert "KeyError: 'the cause'" in text
    assert text.splitlines()[-1].startswith("done")


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        (
            "kill_itself",
            137,
            [
                "worker 0: killed by SIGKILL. Restart 1 of 5 in 1 s.",
                "worker 0: killed by SIGKILL. Restart 2 of 5 in 2 s.",
                "worker 0: killed by SIGKILL. Not started again: the same error came "
                "3 times without a step of progress.",
            ],
        ),
        (
            "ask_for_another_attempt",
            1,
            [
                "worker 0: exit code 75. Restart 1 of 5 in 1 s.",
                "worker 0: exit code 75. Not started again: the same error came "
                "twice without a step of progress.",
            ],
        ),
        (
            "need_arguments",
            2,
            ["worker 0: exit code 2. Not started again: the same program fails again."],
        ),
        (
            "import_nothing",
            1,
            [
                "worker 0: ModuleNotFoundError: No module named 'no_such_module'. Not "
                "started again: the same program fails again."
            ],
        ),
    ],
)
def test_job_that_fails_again_is_given_up(program, code, said, run_script):
    result, lines, _ = run_script(SCRIPT, program, max_restarts=5, num_workers=1)
    assert result.exit_code == code
    assert lines == [f"mirrax launch: {line}" for line in said]


@pytest.mark.parametrize(
    ("program", "num_workers", "error"),
    [
        ("differ", 1, "ProgramMismatch: All workers must run the same program."),
        ("configure_wrongly", 1, "ConfigurationError: TF_CONFIG is JSON"),
        pytest.param(
            "use_jax_first",
            2,
            "ConfigurationError: Several workers must be connected before JAX",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_error_that_no_restart_cures_is_not_tried_again(
    program, num_workers, error, run_script
):
    result, (line,), _ = run_script(
        SCRIPT, program, max_restarts=5, num_workers=num_workers
    )
    assert result.exit_code == 1
    assert f": mirrax.errors.{error}" in line
    assert line.endswith("Not started again: the same program fails again.")
    assert ".. " not in line


def test_program_with_a_syntax_error_is_not_started_again(tmp_path, run_script):
    script = tmp_path / "wrong.py"
    script.write_text("train(\n")
    result, (line,), _ = run_script(str(script), max_restarts=5, num_workers=1)
    assert result.exit_code == 1
    assert "SyntaxError: '(' was never closed. Not started again" in line


def test_failure_of_the_other_kind_is_tried_again_until_the_budget_is_used():
    kinds = itertools.cycle(["KeyError", "ValueError"])
    attempts = [failed(next(kinds)) for _ in range(4)]
    assert [find_reason_to_stop(attempts[:count], 3) for count in (1, 2, 3)] == [""] * 3
    assert find_reason_to_stop(attempts, 3) == (
        "all 3 restarts are used (--max-restarts)"
    )


@pytest.mark.parametrize(
    ("before", "last", "goes_on"),
    [
        (failed("KeyError", 0, 7), failed("KeyError", 5, 6), True),
        (failed("KeyError", 0, 7), failed("KeyError", 5, 7), False),
        (failed("KeyError", 0, 7), failed("KeyError", 5, 5), False),
        (failed("KeyError", 0, 7), failed("SIGKILL", 5, 7), True),
        (failed("KeyError"), failed("KeyError"), False),
        (failed("KeyError"), failed("KeyError", seconds=3600.0), True),
        (
            failed("CollectiveTimeout"),
            failed("CollectiveTimeout", seconds=320.0),
            False,
        ),
    ],
    ids=[
        "another step",
        "same step",
        "no step",
        "another error",
        "short",
        "long",
        "never joined",
    ],
)
def test_same_error_without_progress_ends_the_job(before, last, goes_on):
    assert (find_reason_to_stop([before, last], 5) == "") is goes_on


@pytest.mark.parametrize(
    "again", [failed(first=45, done=49), failed(first=45, done=45)]
)
def test_kill_from_outside_may_hit_the_same_step_twice_but_not_three_times(again):
    attempts = [failed(first=0, done=49), again]
    assert find_reason_to_stop(attempts, 5) == ""
    assert find_reason_to_stop([*attempts, failed(first=45, done=51)], 5) == ""
    assert find_reason_to_stop([*attempts, again], 5) == (
        "the same error came 3 times without a step of progress"
    )


@pytest.mark.parametrize("kind", ["LauncherLost", "LauncherLeft"])
def test_machines_may_go_one_after_the_other(kind):
    assert find_reason_to_stop([failed(kind)] * 5, 5) == ""


def test_delay_grows_up_to_a_limit_while_there_is_no_progress():
    idle = [failed() for _ in range(9)]
    delays = [choose_delay(idle[:count]) for count in range(1, 10)]
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert choose_delay([*idle, failed(first=0, done=1)]) == 0.0


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 76), (signal.SIGINT, 128 + signal.SIGINT)],
    ids=["SIGTERM", "SIGINT"],
)
def test_signal_during_the_delay_is_no_failure_of_the_job(number, code, tmp_path):
    signals = []

    def show(line):
        if "Restart 1 of 5 in 1 s." in line:
            signals.append(number)

    result = run_job(
        Alone(1),
        [sys.executable, SCRIPT, "kill_itself"],
        tmp_path,
        max_restarts=5,
        show=show,
        environment={**os.environ, "MIRRAX_REQUEUE_CODE": "76"},
        signals=signals,
    )
    assert result.exit_code == code
    name = signal.Signals(number).name
    assert result.report == f"{name} ended the job while no worker was running."


def test_sigterm_before_a_restarted_job_has_resumed_lets_it_be_requeued(tmp_path):
    signals = []

    def show(line):
        if line == "[worker 0] starting":
            signals.append(signal.SIGTERM)

    result = run_job(
        Alone(1),
        [sys.executable, SCRIPT, "start_again_slowly", str(tmp_path / "mark")],
        tmp_path,
        max_restarts=5,
        show=show,
        signals=signals,
    )
    assert result.exit_codes == [128 + signal.SIGTERM]
    assert result.exit_code == 75


@pytest.mark.parametrize(
    ("program", "number", "code"),
    [
        ("die_in_a_save", signal.SIGTERM, 75),
        ("die_in_a_save", signal.SIGINT, 128 + signal.SIGINT),
        ("die_in_a_save", signal.SIGHUP, 128 + signal.SIGHUP),
        ("tidy", signal.SIGHUP, 7),
    ],
)
def test_signal_lets_workers_save_and_what_was_saved_before_be_requeued(
    program, number, code, tmp_path
):
    signals = []

    def show(line):
        if line == "[worker 0] ready":
            signals.append(number)

    result = run_job(
        Alone(1),
        [sys.executable, SCRIPT, program],
        tmp_path,
        show=show,
        signals=signals,
    )
    assert result.exit_code == code


def test_programs_that_a_worker_starts_report_no_steps_of_the_job(run_script):
    _, said, _ = run_script(SCRIPT, "evaluate_beside", max_restarts=1, num_workers=1)
    error = "mirrax launch: worker 0: KeyError: 'the cause', after step 5."
    assert said[0] == f"{error} Restart 1 of 1."


def test_second_manager_does_not_take_steps_back(tmp_path, run_script):
    arguments = (SCRIPT, "keep_the_best", str(tmp_path))
    _, said, _ = run_script(*arguments, max_restarts=1, num_workers=1)
    assert "KeyError: 'the cause', after step 5. Restart 1 of 1." in said[0]


def test_function_is_run_again(tmp_path):
    lines = []
    results = mirrax.launch.run(
        fail_once,
        1,
        (str(tmp_path / "mark"),),
        max_restarts=1,
        show=lines.append,
        timeout=240,
    )
    assert results == ["done"]
    assert any("Restart 1 of 1" in line for line in lines)


def fail_once(path):
    mark = pathlib.Path(path)
    if not mark.exists():
        mark.touch()
        raise KeyError("the cause")
    return "done"


def test_negative_number_of_restarts_is_explained(capsys):
    assert launch_command.main(["--max-restarts", "-1", SCRIPT]) == 2
    assert "--max-restarts must be 0 or more. Received: -1" in capsys.readouterr().err


def train_with_cache():
    """Returns how many programs were asked for, and how many the cache had."""
    events = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = mirrax.Variable(1.0)
    step = mirrax.function(
        lambda: mirrax.get_replica_context().all_reduce("SUM", weight.value)
    )
    strategy.run(step)
    names = ("compile_requests_use_cache", "cache_hits")
    return [events.count(f"/jax/compilation_cache/{name}") for name in names]


@pytest.mark.slow
def test_no_worker_compiles_again_what_was_compiled_before(tmp_path):
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    options = {"environment": environment, "timeout": 240}
    for asked, found in mirrax.launch.run(train_with_cache, 2, **options):
        assert asked > found
    for asked, found in mirrax.launch.run(train_with_cache, 2, **options):
        assert asked == found > 1


@pytest.mark.slow
def test_killed_coordinator_and_hanging_worker_are_named(
    tmp_path, monkeypatch, run_script
):
    monkeypatch.setenv("MIRRAX_STUCK_TIMEOUT", "20")
    program = str(pathlib.Path(__file__).with_name("disturbed.py"))
    result, said, lines = run_script(program, str(tmp_path), max_restarts=2)
    assert result.exit_code == 0, lines
    assert said[0] == (
        "mirrax launch: coordinator: killed by SIGKILL. Restart 1 of 2 in 1 s."
    )
    assert said[1].startswith("mirrax launch: worker 1: CollectiveTimeout: ")
    assert said[1].endswith(". Restart 2 of 2 in 2 s.")


@pytest.mark.slow
def test_worker_that_ends_too_early_again_is_not_requeued(run_script):
    program = str(pathlib.Path(programs.__file__))
    result, said, _ = run_script(program, "exit", "1", max_restarts=5)
    assert result.exit_codes == [75, 0]
    assert said[-1].endswith("the same error came twice without a step of progress.")
    assert result.exit_code == 1


@pytest.mark.slow
def test_planned_end_of_a_program_without_checkpoints_is_no_failure(tmp_path):
    lines = []
    result = run_job(
        Alone(2),
        [sys.executable, str(pathlib.Path(__file__).with_name("watched.py"))],
        tmp_path,
        environment={**os.environ, "JAX_PLATFORMS": "cpu"},
        show=lines.append,
        max_restarts=1,
        timeout=240,
    )
    assert (result.exit_codes, result.is_preempted) == ([75, 75], True)
    assert result.report == "All workers were asked to end."
    assert "[worker 0] failure: None" in lines
