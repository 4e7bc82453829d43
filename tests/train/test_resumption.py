"""Training loops that resume: in one process, and after kills and preemptions."""

import os
import re
import signal

import pytest

import mirrax
from mirrax.train.checkpoints import numbered_checkpoints
from tests.train.stopping import Launched

STEPS, INTERVAL = 30, 5


def manage(directory, **options):
    run = mirrax.train.Checkpoint(total=0)
    return run, mirrax.train.CheckpointManager(run, directory, **options)


def numbers_in(directory):
    return [
        numbered_checkpoints.number_of(path)
        for path in numbered_checkpoints.numbered(directory)
    ]


def test_loop_saves_at_the_interval_and_at_the_end(tmp_path):
    _, manager = manage(tmp_path, save_interval=4)
    assert list(mirrax.train.resumable(manager, 10)) == list(range(10))
    assert numbers_in(tmp_path) == [4, 8, 10]


@pytest.mark.parametrize("kind", ["dataset", "iterator", "list", "number"])
def test_what_the_checkpoint_does_not_save_is_refused(tmp_path, kind):
    _, manager = manage(tmp_path)
    dataset = mirrax.data.Dataset.range(8)
    steps = {"dataset": dataset, "iterator": iter(dataset), "list": [1], "number": -1}
    with pytest.raises(ValueError, match="that the checkpoint saves too"):
        list(mirrax.train.resumable(manager, steps[kind]))


def test_nothing_starts_anew_while_all_checkpoints_are_damaged(tmp_path):
    _, manager = manage(tmp_path, save_interval=1)
    list(mirrax.train.resumable(manager, 2))
    for manifest in tmp_path.glob("*/mirrax-manifest"):
        manifest.write_bytes(b"damaged")
    _, manager = manage(tmp_path, save_interval=1)
    with pytest.raises(mirrax.errors.CheckpointDamagedError):
        list(mirrax.train.resumable(manager, 2))


def test_finished_loop_does_and_saves_nothing(tmp_path):
    _, manager = manage(tmp_path, save_interval=4)
    list(mirrax.train.resumable(manager, 10))
    before = (tmp_path / "ckpt-10").stat().st_mtime_ns
    _, manager = manage(tmp_path, save_interval=4)
    assert list(mirrax.train.resumable(manager, 10)) == []
    assert (tmp_path / "ckpt-10").stat().st_mtime_ns == before


def test_interrupted_loop_continues_after_the_last_save(tmp_path):
    _, manager = manage(tmp_path, save_interval=4)
    for step in mirrax.train.resumable(manager, 10):
        if step == 6:
            break
    _, manager = manage(tmp_path, save_interval=4)
    assert next(mirrax.train.resumable(manager, 10)) == 4


def test_iterator_yields_each_element_once(tmp_path):
    def build():
        data = iter(mirrax.data.Dataset.range(7))
        run = mirrax.train.Checkpoint(data=data)
        return mirrax.train.CheckpointManager(run, tmp_path, save_interval=2), data

    manager, data = build()
    seen = []
    for element in mirrax.train.resumable(manager, data):
        if element == 4:
            break
        seen.append(int(element))
    manager, data = build()
    seen += [int(element) for element in mirrax.train.resumable(manager, data)]
    assert seen == list(range(7))
    assert numbers_in(tmp_path) == [2, 4, 6, 7]


def exit_code_of_sigterm(manager, at_step):
    try:
        for step in mirrax.train.resumable(manager, 10):
            if step == at_step:
                signal.raise_signal(signal.SIGTERM)
    except SystemExit as ended:
        return ended.code
    return None


def test_sigterm_saves_the_step_and_exits(tmp_path, capfd):
    _, manager = manage(tmp_path, save_interval=100)
    assert exit_code_of_sigterm(manager, at_step=2) == 75
    assert numbers_in(tmp_path) == [3]
    assert "SIGTERM: stopping after this step" in capfd.readouterr().err


@pytest.mark.parametrize("is_finished", [False, True], ids=["save", "restore"])
def test_sigterm_while_no_step_is_left_ends_the_program(
    tmp_path, monkeypatch, is_finished
):
    _, manager = manage(tmp_path, save_interval=100)
    if is_finished:
        list(mirrax.train.resumable(manager, 10))

    def wait():
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(manager, "wait", wait)
    assert exit_code_of_sigterm(manager, at_step=None) == 75
    assert numbers_in(tmp_path) == [10]


def test_second_sigterm_while_the_program_ends_is_ignored(tmp_path):
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append("handled"))
    _, manager = manage(tmp_path)
    assert exit_code_of_sigterm(manager, at_step=2) == 75
    signal.raise_signal(signal.SIGTERM)
    assert seen == []
    # A handler of Python's would be gone while Python shuts down.
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_failed_save_on_sigterm_is_raised_and_asks_for_no_requeue(tmp_path):
    _, manager = manage(tmp_path, save_interval=100, asynchronous=True)
    (tmp_path / "ckpt-3" / "mirrax-manifest-new").mkdir(parents=True)
    with pytest.raises(mirrax.errors.CheckpointWriteError, match="Is a directory"):
        exit_code_of_sigterm(manager, at_step=2)


def test_finished_loop_gives_sigterm_back(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    _, manager = manage(tmp_path)
    assert exit_code_of_sigterm(manager, at_step=None) is None
    assert signal.getsignal(signal.SIGTERM) is before


# JAX and Python warn of forks with threads; the child uses none.
@pytest.mark.filterwarnings("ignore:.*fork")
def test_forked_process_gets_sigterm_back(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    registered = []
    monkeypatch.setattr(os, "register_at_fork", lambda **then: registered.append(then))
    for _ in range(3):
        mirrax.train.PreemptionWatcher().close()
    assert registered == []
    watcher = mirrax.train.PreemptionWatcher()
    process = os.fork()
    if process == 0:
        os._exit(signal.getsignal(signal.SIGTERM) is not before)
    assert os.waitpid(process, 0)[1] == 0
    assert signal.getsignal(signal.SIGTERM) is not before
    watcher.close()


def test_requeue_code_is_settable(tmp_path, monkeypatch):
    monkeypatch.setenv("MIRRAX_REQUEUE_CODE", "42")
    _, manager = manage(tmp_path)
    assert exit_code_of_sigterm(manager, at_step=0) == 42


def test_wrong_requeue_code_is_explained(monkeypatch):
    monkeypatch.setenv("MIRRAX_REQUEUE_CODE", "again")
    with pytest.raises(ValueError, match=r"exit code from 0 to 255. Received: 'again'"):
        mirrax.train.PreemptionWatcher()


def test_other_signs_of_preemption_are_watched():
    signs = iter([False, False, True])
    watcher = mirrax.train.PreemptionWatcher(lambda: next(signs))
    assert [watcher.should_stop() for _ in range(3)] == [False, False, True]
    assert watcher.preemption_message == "preempted"
    watcher.close()


@pytest.fixture(scope="module", params=["mirrored"])
def undisturbed(request, tmp_path_factory):
    """The result of the program, with such state, when nothing happens."""
    directory = tmp_path_factory.mktemp("undisturbed")
    launched = Launched(directory, STEPS, INTERVAL, "-n", "2", state=request.param)
    assert launched.finish() == 0, launched.output
    (digest,) = launched.digests()
    return digest


@pytest.mark.slow
def test_preempted_workers_save_the_same_step(tmp_path, undisturbed):
    targets = {"compile": "launcher", "step": 1, "evaluation": 0, "data": 1, "save": 0}
    last = 0
    for moment, target in targets.items():
        launched = Launched(tmp_path, STEPS, INTERVAL, "-n", "2", moment=moment)
        launched.wait_for("ready")
        if target == "launcher":
            launched.process.send_signal(signal.SIGTERM)
        else:
            os.kill(launched.worker_pid(target), signal.SIGTERM)
        assert launched.finish() == 75, launched.output
        assert launched.steps()[0] == last + 1, moment
        last = launched.steps()[-1]
        assert last < STEPS
        assert numbers_in(tmp_path)[-1] == last
        assert f"have saved step {last}." in launched.output
    again = Launched(tmp_path, STEPS, INTERVAL, "-n", "2")
    assert again.finish() == 0, again.output
    assert again.steps()[0] == last + 1
    assert again.digests() == {undisturbed}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("undisturbed", "state"),
    [("mirrored", "mirrored"), ("sharded", "sharded")],
    indirect=["undisturbed"],
    ids=["mirrored", "sharded"],
)
def test_killed_job_resumes_with_the_same_result(tmp_path, undisturbed, state):
    options = ("-n", "2", "--max-restarts", "2")
    launched = Launched(
        tmp_path, STEPS, INTERVAL, *options, moment="after 7,18", state=state
    )
    for number, culprit, step in ((1, 1, 7), (2, 0, 18)):
        launched.wait_for(f"step {step} ")
        os.kill(launched.worker_pid(culprit, attempt=number), signal.SIGKILL)
        launched.wait_for(f"Restart {number} resumed after step")
    assert launched.finish() == 0, launched.output
    assert launched.digests() == {undisturbed}
    said = r"killed by SIGKILL, after step \d+. Restart [12] of 2."
    assert len(re.findall(said, launched.output)) == 2
    lost = re.findall(r"resumed after step \d+ \(steps lost: (\d+)\)", launched.output)
    assert len(lost) == 2
    assert all(int(count) <= INTERVAL for count in lost)
