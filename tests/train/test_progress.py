"""Progress and profiles of training loops."""

import io
import itertools
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax.train.progress import Progress, ProgressReport, fit


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_without_a_terminal_count_steps_and_examples():
    file = io.StringIO()
    progress = Progress(range(3), 3, batch_size=4, interval=0, file=file)
    for step in progress:
        progress.show(loss=jnp.float32(step), rate=0.5)
    lines = file.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["1/3", "2/3", "3/3"]
    pattern = (
        r"3/3  in 0:00:\d\d  [\d.,]+ steps/s  [\d.,]+ examples/s  loss 2  rate 0.5  "
        r"\(input .*\)"
    )
    assert re.fullmatch(pattern, lines[-1])
    report = progress.last_report
    assert report.examples_per_second == pytest.approx(4 * report.steps_per_second)
    assert sum(report.shares.values()) == pytest.approx(1, abs=0.01)


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_terminal_gets_one_line_that_is_overwritten():
    file = Terminal()
    for _ in Progress(range(4), 4, interval=0, file=file):
        pass
    text = file.getvalue()
    assert text.count("\n") == 1
    assert "\r\x1b[K[##########..........] 2/4" in text


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (103, r"\[#.*\] 5/10  .* \(input.*\)"),
        (102, r"5/10 .* loss 0.5  \(input.*\)"),
        (79, "5/10  2.0 steps/s  64 examples/s  loss 0.5"),
        (20, "5/10  2.0 steps/s  6"),
    ],
    ids=["whole", "without bar", "without shares", "cut"],
)
def test_line_fits_the_terminal(columns, wanted):
    shares = {"input": 0.25, "Python": 0.5, "devices": 0.25}
    report = ProgressReport(5, 10, 2.0, 64.0, shares, {"loss": 0.5})
    text = fit(report, columns)
    assert re.fullmatch(wanted, text)
    assert len(text) <= columns


def test_lines_say_how_much_time_is_left():
    file = io.StringIO()
    list(Progress(range(4), 4, interval=0, file=file))
    first, second, third, last = file.getvalue().splitlines()
    # The first step compiles, so it says nothing about the others.
    assert first.startswith("1/4  in 0:")
    assert second.startswith("2/4  0:00:00 left")
    assert third.startswith("3/4  0:00:00 left")
    assert last.startswith("4/4  in 0:")


def test_last_line_has_the_rates_of_the_whole_loop(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    monkeypatch.setattr("time.thread_time", lambda: 0.0)
    progress = Progress(range(5), 5, interval=0, file=io.StringIO())
    seconds = 0.0
    for _ in progress:
        if progress.last_report:
            seconds = max(seconds, progress.last_report.seconds)
    report = progress.last_report
    assert report.seconds > seconds > 0
    assert report.steps_per_second == pytest.approx(5 / report.seconds)


def test_compiling_is_a_share_of_its_own():
    progress = Progress(range(3), interval=1e9, file=io.StringIO())
    for step in progress:
        jax.jit(lambda x, step=step: x + step)(jnp.ones(step + 1)).block_until_ready()
    shares = progress.last_report.shares
    assert shares["compile"] > 0
    assert sum(shares.values()) == pytest.approx(1)
    again = Progress(range(3), interval=1e9, file=io.StringIO())
    list(again)
    assert again.last_report.shares["compile"] == 0
    assert "compile" not in str(again.last_report)


def test_last_report_is_there_after_break():
    progress = Progress(range(9), interval=1e9, file=io.StringIO())
    for step in progress:
        progress.show(loss=step)
        if step == 2:
            break
    report = progress.last_report
    assert (report.step, report.metrics) == (3, {"loss": 2})


def last_line(file):
    return file.getvalue().splitlines()[-1]


def test_loop_that_ends_early_has_no_time_left():
    file = io.StringIO()
    for _ in Progress(range(3), 10, interval=1e9, file=file):
        pass
    assert re.match(r"3/10  in 0:", last_line(file))


def test_last_line_is_there_after_break():
    file = io.StringIO()
    progress = Progress(range(9), 9, interval=0, file=file)
    for step in progress:
        progress.show(loss=step)
        if step == 2:
            break
    assert re.match(r"3/9  in 0:.* loss 2  ", last_line(file))
    assert str(progress.last_report).split()[0] == "3/9"


def test_error_in_the_last_line_does_not_hide_that_of_the_loop():
    class Lost:
        shape = ()

        def __float__(self):
            raise RuntimeError("lost")

    def steps():
        yield 0
        raise LookupError("no more data")

    def loop(steps):
        progress = Progress(steps, interval=1e9, file=io.StringIO())
        for _ in progress:
            progress.show(loss=Lost())

    with pytest.raises(LookupError, match="no more data") as caught:
        loop(steps())
    assert caught.value.__context__ is None
    with pytest.raises(RuntimeError, match="lost"):
        loop(range(1))


def test_loops_before_the_strategy_do_not_start_jax():
    program = (
        "import mirrax\n"
        "for _ in mirrax.train.Progress(range(2), interval=0): pass\n"
        "mirrax.config.set_logical_devices('CPU', 3)\n"
        "print(mirrax.MirroredStrategy().num_replicas_in_sync)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", done.stderr


class Unread:
    """A loss that must not be read before it is printed."""

    num_reads = 0
    shape = ()

    def __float__(self):
        Unread.num_reads += 1
        return 1.0


def test_metrics_are_read_only_when_they_are_printed():
    progress = Progress(range(50), interval=1e9, file=io.StringIO())
    for _ in progress:
        progress.show(loss=Unread())
    assert Unread.num_reads == 1


def test_resumed_steps_count_from_where_they_were(tmp_path):
    def manage():
        run = mirrax.train.Checkpoint(total=0)
        manager = mirrax.train.CheckpointManager(run, tmp_path, save_interval=2)
        return mirrax.train.resumable(manager, 6)

    for step in Progress(manage(), 6, file=io.StringIO()):
        if step == 2:
            break
    file = io.StringIO()
    assert list(Progress(manage(), 6, interval=0, file=file)) == [2, 3, 4, 5]
    shown = [line.split()[0] for line in file.getvalue().splitlines()]
    assert shown == ["3/6", "4/6", "5/6", "6/6"]


def test_reports_are_written_for_tensorboard(tmp_path):
    logdir = str(tmp_path)
    progress = Progress(range(2), logdir=logdir, file=io.StringIO())
    for _ in progress:
        progress.show(loss=3.0)
    (path,) = pathlib.Path(logdir).iterdir()
    content = path.read_bytes()
    for tag in (b"loss", b"steps_per_second", b"time/devices"):
        assert tag in content


def test_profile_refuses_no_steps(tmp_path):
    with pytest.raises(ValueError, match="at least one step"):
        list(mirrax.profile(range(3), str(tmp_path), count=0))


def test_profile_ends_with_the_loop(tmp_path):
    assert list(mirrax.profile(range(4), str(tmp_path), first=2, count=9)) == [
        *range(4)
    ]
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_profile_of_too_few_steps_warns(tmp_path):
    with pytest.warns(UserWarning, match="begins with step 10. Received: 4 steps"):
        assert list(mirrax.profile(range(4), str(tmp_path))) == [*range(4)]


def test_metric_that_is_no_number_is_refused_where_it_is_shown():
    progress = Progress(range(3), file=io.StringIO())
    for value, kind in [
        (jnp.ones(3), r"type ArrayImpl, shape \(3,\)"),
        (mirrax.PerReplica((1.0, 2.0)), "type PerReplica"),
    ]:
        with pytest.raises(TypeError, match=rf"scalar arrays.*loss of {kind}\. Reduce"):
            progress.show(loss=value)


def test_profile_refuses_an_unusable_folder_before_the_first_step(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        next(mirrax.profile(range(3), str(tmp_path / "file"), first=1, count=1))
