"""The launcher as a process: what it prints, how it ends, what it leaves behind."""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import pytest

import mirrax
from mirrax.launch import cli, launch_command
from mirrax.launch.supervisor import received_signals
from tests.launch import interrupted, scripts

INTERRUPTED = str(pathlib.Path(interrupted.__file__))
SCRIPT = str(pathlib.Path(scripts.__file__))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def restored_signals():
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def launch(*arguments, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "mirrax", "launch", *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_lines(process, *texts):
    """Waits for a line with each text, in any order."""
    missing = list(texts)
    for line in process.stdout:
        missing = [text for text in missing if text not in line]
        if not missing:
            return
    raise AssertionError(f"There was no {missing}.")


def find_descendants(process_id):
    """The processes below one, by their parents as the system lists them."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = {process_id}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - {process_id}
        found |= more


def is_running(process_id):
    try:
        state = pathlib.Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def test_output_is_marked_and_kept(tmp_path):
    process = launch(
        "-n", "2", "--log-dir", str(tmp_path), SCRIPT, "show", "--epochs=3"
    )
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0
    assert errors == ""
    lines = sorted(output.splitlines())
    assert [line[:26] for line in lines] == [
        "[worker 0] ['--epochs=3'] ",
        "[worker 1] ['--epochs=3'] ",
    ]
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["worker-0.log", "worker-1.log"]
    assert (tmp_path / "worker-0.log").read_text() == f"{lines[0][11:]}\n"


def test_first_failure_is_printed_once_at_the_end():
    # The other one sleeps on, and is ended after the launcher's grace period.
    process = launch("-n", "2", SCRIPT, "fail", MIRRAX_FAILURE_GRACE="1")
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 1
    assert output.count("KeyError: 'the cause'") == 1
    assert errors.startswith(
        "mirrax launch: worker 1 failed first: KeyError: 'the cause' (exit code 1).\nTr"
    )
    assert errors.endswith("KeyError: 'the cause'\n")


@pytest.mark.slow
def test_killed_launcher_leaves_no_process():
    process = launch("-n", "2", SCRIPT, "hang")
    wait_for_lines(process, "[worker 0] ready", "[worker 1] ready")
    below = find_descendants(process.pid)
    # Two workers with a child each, the coordinator and the guardian.
    assert len(below) == 6
    process.kill()
    process.wait()
    deadline = time.monotonic() + 120
    while any(map(is_running, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in below if is_running(pid)]
    process.communicate()


@pytest.mark.slow
def test_job_that_was_suspended_goes_on(tmp_path):
    limits = {"MIRRAX_SILENCE_TIMEOUT": "2", "MIRRAX_STUCK_TIMEOUT": "3"}
    flag = tmp_path / "done"
    process = launch("-n", "2", SCRIPT, "meet_until_told", str(flag), **limits)
    wait_for_lines(process, "[worker 0] ready", "[worker 1] ready")
    everything = [process.pid, *find_descendants(process.pid)]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in everything:
            os.kill(pid, number)
        # Longer than both limits.
        time.sleep(4)
    flag.touch()
    _, errors = process.communicate(timeout=240)
    assert (process.returncode, errors) == (0, "")


def test_sigterm_is_passed_on():
    process = launch("-n", "2", SCRIPT, "tidy")
    wait_for_lines(process, "[worker 0] ready", "[worker 1] ready")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 7
    expected = "SIGTERM was passed on to the workers, and all have ended."
    assert errors == f"mirrax launch: {expected}\n"


def test_second_sigterm_leaves_the_workers_their_time(tmp_path):
    process = launch("-n", "1", SCRIPT, "tidy_slowly", str(tmp_path / "done"))
    wait_for_lines(process, "[worker 0] ready")
    for number in ("first", "second"):
        process.send_signal(signal.SIGTERM)
        wait_for_lines(process, f"[worker 0] {number} SIGTERM")
    (tmp_path / "done").touch()
    process.communicate(timeout=240)
    assert process.returncode == 7


@pytest.mark.parametrize(
    ("moment", "signs", "num_joined"),
    [
        pytest.param("start-up", ["for worker 1", "asleep"], 1, marks=pytest.mark.slow),
        ("step", ["[worker 0] ready", "[worker 1] ready"], 2),
    ],
    ids=["start-up", "step"],
)
def test_interrupt_ends_all_workers_with_a_line_each(moment, signs, num_joined):
    process = launch("-n", "2", INTERRUPTED, moment)
    wait_for_lines(process, *signs)
    below = find_descendants(process.pid)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    expected = "SIGINT was passed on to the workers, and all have ended."
    assert errors == f"mirrax launch: {expected}\n"
    assert f"[worker 0] KeyboardInterrupt at {INTERRUPTED}:" in output
    # One that has not joined yet ends as any program of Python.
    assert output.count("Traceback") == 2 - num_joined
    assert not [pid for pid in below if is_running(pid)]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["launcher", "worker"])
def test_sigterm_to_a_worker_without_checkpoints_is_explained(target):
    process = launch("-n", "2", INTERRUPTED, "step")
    wait_for_lines(process, "[worker 0] ready", "[worker 1] ready")
    if target == "launcher":
        process.send_signal(signal.SIGTERM)
    else:
        (worker,) = (
            pid
            for pid in find_descendants(process.pid)
            if b'"index": 1' in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        )
        os.kill(worker, signal.SIGTERM)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"SIGTERM at {INTERRUPTED}:" in output
    if target == "worker":
        assert "': KeyboardInterrupt: SIGTERM. Here: " in output


@pytest.mark.slow
def test_deaf_workers_are_ended_after_the_grace():
    process = launch("-n", "1", "--grace", "4", SCRIPT, "hang")
    wait_for_lines(process, "ready")
    below = find_descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=240)
    assert "Waiting up to 4 s for worker 0 to end. Ctrl-C" in output
    assert process.returncode == 128 + signal.SIGTERM
    assert not [pid for pid in below if is_running(pid)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "0", SCRIPT], "must be 1 or more"),
        (["--hosts", "a:1", SCRIPT], "--hosts and --host-index belong together"),
        (["--hosts", "a", "--host-index", "0", SCRIPT], "An address is 'host:port'"),
        (["--hosts", "a:1,b:1", "--host-index", "0", SCRIPT], "machines need a secret"),
        (["--devices-per-worker", "0", SCRIPT], "--devices-per-worker must be 1 or mo"),
        (["--grace", "-1", SCRIPT], "--grace must be 0 or more"),
        (["--grace", "nan", SCRIPT], "--grace must be 0 or more"),
        (["--requeue-code", "256", SCRIPT], "must be an exit code from 0 to 255"),
        (["--log-dir", f"{SCRIPT}/logs", SCRIPT], "--log-dir must be a directory"),
        (["no/such/script.py"], "must be a file. Received: 'no/such/script.py', wh"),
    ],
    ids=[
        "workers",
        "index",
        "address",
        "secret",
        "devices",
        "grace",
        "no grace",
        "requeue",
        "logs",
        "script",
    ],
)
def test_wrong_arguments_are_explained(capsys, arguments, message):
    assert launch_command.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["launch"], "mirrax launch: Name the script that every worker runs."),
        (["launch", "--wrong", SCRIPT], "unrecognized arguments: --wrong."),
        (["launch", "-n", "two", SCRIPT], "invalid int value: 'two'."),
        (["doctor", "--timeout", "0"], "--timeout must be above 0. Received: 0.0."),
        (["doctor", "now"], "mirrax doctor: unrecognized arguments: now."),
    ],
)
def test_unparsable_arguments_are_explained_in_a_line(capsys, command, message):
    with pytest.raises(SystemExit) as ended:
        cli.main(command)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert line.endswith(f"`mirrax {command[0]} --help` lists the arguments.")


def test_script_gets_its_arguments_as_they_are(capsys, tmp_path):
    script = tmp_path / "show.py"
    script.write_text("import sys; print(sys.argv[1:])")
    words = ["-n", "3", "--", "--help", "a b", "it's", ""]
    assert launch_command.main(["-n", "1", str(script), *words]) == 0
    assert capsys.readouterr().out == f"[worker 0] {words}\n"
    assert launch_command.main(["-n", "1", "--", str(script), *words]) == 0
    assert capsys.readouterr().out == f"[worker 0] {words}\n"


def test_module_is_found_in_the_current_directory(capsys, tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("import sys; print(sys.argv[1:])")
    monkeypatch.chdir(tmp_path)
    assert launch_command.main(["-n", "1", "-m", "package.train", "x"]) == 0
    assert capsys.readouterr().out == "[worker 0] ['x']\n"


def test_too_many_workers_for_this_machine_are_explained(capsys):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
    try:
        assert launch_command.main(["-n", "2000", SCRIPT, "show"]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Received: [Errno 24] Too many open files." in capsys.readouterr().err


def test_address_of_another_machine_is_explained():
    process = launch("--hosts", "192.0.2.1:7000", "--host-index", "0", SCRIPT, "show")
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 2
    assert "must be able to listen on its address. Received: 192.0.2.1:7001" in errors


def test_full_disk_is_no_matter_of_the_port(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert launch_command.main(["-n", "1", SCRIPT, "show"]) == 1
    error = capsys.readouterr().err
    assert f"must be able to start processes, and to write to {tmp_path}" in error
    assert "port" not in error
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_wrong_setting_is_explained(capsys, monkeypatch):
    monkeypatch.setenv("MIRRAX_JOIN_TIMEOUT", "soon")
    assert launch_command.main([SCRIPT]) == 2
    assert "MIRRAX_JOIN_TIMEOUT must be a number of" in capsys.readouterr().err


def test_subcommands_are_listed(capsys):
    assert cli.main(["--help"]) == 0
    assert "mirrax launch" in capsys.readouterr().out
    assert cli.main(["lunch"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "Received: 'lunch'. `mirrax --help` describes them." in line
    assert cli.main([]) == 2


@pytest.mark.parametrize("words", [["--help"], ["doctor"], ["launch", "--help"]])
def test_reader_that_wants_no_more_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "mirrax", *words],
        env={n: v for n, v in os.environ.items() if n != "PYTHONUNBUFFERED"},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=240,
        check=False,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.slow
@pytest.mark.parametrize("output", ["closed pipe", "full disk"])
def test_output_that_nobody_takes_leaves_the_exit_code_of_the_job(output):
    reader, writer = os.pipe()
    os.close(reader)
    stream = writer if output == "closed pipe" else os.open("/dev/full", os.O_WRONLY)
    ended = subprocess.run(
        [sys.executable, "-m", "mirrax", "launch", SCRIPT, "ask_for_another_attempt"],
        env={n: v for n, v in os.environ.items() if n != "PYTHONUNBUFFERED"},
        stdout=stream,
        stderr=stream,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 75


@pytest.mark.slow
def test_job_needs_no_standard_streams(tmp_path):
    script = tmp_path / "join.py"
    script.write_text("import mirrax; mirrax.MultiWorkerMirroredStrategy()")
    without_streams = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-']
    words = [sys.executable, "-m", "mirrax", "launch", "-n", "2", str(script)]
    ended = subprocess.run(
        [*without_streams, *words],
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0


def test_the_command_tells_its_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"mirrax {mirrax.__version__}\n"


@pytest.mark.parametrize(
    ("handler", "expected"),
    [(signal.SIG_DFL, [signal.SIGHUP]), (signal.SIG_IGN, [])],
    ids=["terminal", "nohup"],
)
@pytest.mark.usefixtures("restored_signals")
def test_hangup_ends_the_job_unless_nohup_has_started_it(handler, expected):
    signal.signal(signal.SIGHUP, handler)
    with received_signals() as received:
        signal.raise_signal(signal.SIGHUP)
    assert received == expected


@pytest.mark.usefixtures("restored_signals")
def test_later_signals_do_not_change_the_exit_code():
    with received_signals() as received:
        signal.raise_signal(signal.SIGTERM)
    for number in SIGNALS:
        signal.raise_signal(number)
    assert received == [signal.SIGTERM]
