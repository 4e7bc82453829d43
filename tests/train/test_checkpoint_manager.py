import errno
import fcntl
import logging
import pathlib
import shutil
import subprocess
import sys
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.errors import CheckpointWriteError
from mirrax.train import Checkpoint, CheckpointManager, latest_checkpoint
from mirrax.train.checkpoints import array_file, checkpoint_format, manifest


@pytest.fixture
def weight():
    return mirrax.Variable(jnp.zeros(8))


def manage(weight, directory, **options):
    return CheckpointManager(Checkpoint(weight=weight), directory, **options)


def names(manager):
    return [path.rsplit("/", 1)[1] for path in manager.checkpoints]


def test_manager_takes_a_checkpoint_only(tmp_path, weight):
    with pytest.raises(TypeError, match=r"Write Checkpoint\(model=...\)"):
        CheckpointManager(weight, tmp_path)


def test_only_the_newest_are_kept(tmp_path, weight):
    manager = manage(weight, tmp_path, max_to_keep=2)
    for _ in range(4):
        manager.save()
    assert names(manager) == ["ckpt-3", "ckpt-4"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ckpt-3", "ckpt-4"]


def test_numbers_are_compared_as_numbers(tmp_path, weight):
    manager = manage(weight, tmp_path, max_to_keep=2)
    for number in (8, 9, 10):
        manager.save(number)
    assert names(manager) == ["ckpt-9", "ckpt-10"]
    assert manager.latest_checkpoint == latest_checkpoint(tmp_path)
    assert latest_checkpoint(tmp_path).endswith("ckpt-10")


def test_interval_leaves_steps_out(tmp_path, weight):
    manager = manage(weight, tmp_path, save_interval=10)
    saved = [step for step in range(1, 30) if manager.save(step)]
    assert saved == [10, 20]
    assert manager.save(29, check_interval=False)
    assert manager.save().endswith("ckpt-30")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([7, 14, 21, 28], [14, 21]),
        ([25, 50], [25, 50]),
        ([20, 15, 16, 20], [20, 15, 20]),
    ],
    ids=["multiples_left_out", "longer_steps", "rolled_back"],
)
def test_interval_holds_for_any_steps(tmp_path, weight, steps, expected):
    manager = manage(weight, tmp_path, save_interval=10)
    assert [step for step in steps if manager.save(step)] == expected


def test_newest_is_the_one_that_was_saved_last(tmp_path, weight):
    manager = manage(weight, tmp_path, max_to_keep=2)
    for number in (99, 100):
        manager.save(number)
    manager.checkpoint.restore(tmp_path / "ckpt-99")
    path = manager.save(1)
    assert names(manager) == ["ckpt-100", "ckpt-1"]
    assert latest_checkpoint(tmp_path) == manager.latest_checkpoint == path
    assert manage(weight, tmp_path).restore_or_initialize() == path
    assert manager.save().endswith("ckpt-101")


def test_copied_directory_keeps_its_order(tmp_path, weight):
    manager = manage(weight, tmp_path / "from")
    for number in (2, 1):
        manager.save(number)
    for number in (1, 2):
        shutil.copytree(
            tmp_path / "from" / f"ckpt-{number}", tmp_path / "to" / f"ckpt-{number}"
        )
    assert latest_checkpoint(tmp_path / "to").endswith("ckpt-1")


def test_clock_that_is_put_back_does_not_change_the_order(
    tmp_path, weight, monkeypatch
):
    manager = manage(weight, tmp_path)
    manager.save(2)
    monkeypatch.setattr("time.time_ns", lambda: 1)
    manager.save(1)
    assert names(manager) == ["ckpt-2", "ckpt-1"]


@pytest.mark.parametrize("number", [-1, 1.5, "3", float("nan"), float("inf")])
def test_number_that_is_no_step_is_refused(tmp_path, weight, number):
    with pytest.raises(ValueError, match=rf"whole number from 0 on.*: {number!r}"):
        manage(weight, tmp_path).save(number)
    assert not list(tmp_path.iterdir())


def test_removing_leaves_what_others_put_there(tmp_path, weight):
    manager = manage(weight, tmp_path, max_to_keep=1)
    note = pathlib.Path(manager.save(1)) / "note.txt"
    note.write_text("mine")
    manager.save(2)
    assert names(manager) == ["ckpt-2"]
    assert [path.name for path in note.parent.iterdir()] == ["note.txt"]
    with pytest.raises(CheckpointWriteError, match=r"a folder with \['note.txt'\]"):
        manager.save(1)


def test_checkpoint_behind_a_link_is_not_removed(tmp_path, weight):
    manage(weight, tmp_path / "shared").save(1)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "ckpt-1").symlink_to(tmp_path / "shared" / "ckpt-1")
    manager = manage(weight, tmp_path / "own", max_to_keep=1)
    assert manager.restore_or_initialize() == str(tmp_path / "own" / "ckpt-1")
    manager.save(2)
    assert names(manager) == ["ckpt-2"]
    assert latest_checkpoint(tmp_path / "shared") == str(tmp_path / "shared" / "ckpt-1")


def test_folders_without_files_of_ours_stay(tmp_path, weight, caplog):
    (tmp_path / "ckpt-7").mkdir()
    note = tmp_path / "ckpt-8" / "mirrax-arrays-notes.txt"
    note.parent.mkdir()
    note.write_text("mine")
    with caplog.at_level(logging.WARNING, logger="mirrax"):
        manage(weight, tmp_path, max_to_keep=1).save(1)
    assert (tmp_path / "ckpt-7").is_dir()
    assert note.read_text() == "mine"
    assert not caplog.records


def test_nothing_partial_is_removed_where_nothing_can_be_locked(
    tmp_path, weight, monkeypatch
):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    perhaps_written = tmp_path / "ckpt-7" / "mirrax-arrays-1"
    perhaps_written.parent.mkdir()
    perhaps_written.touch()
    manager = manage(weight, tmp_path, max_to_keep=1)
    for number in (1, 2):
        manager.save(number)
    assert perhaps_written.exists()
    assert names(manager) == ["ckpt-2"]


def test_checkpoint_of_another_version_is_not_removed(tmp_path, weight, monkeypatch):
    manager = manage(weight, tmp_path, max_to_keep=1)
    with monkeypatch.context() as context:
        context.setattr(manifest, "_VERSION", 1)
        path = pathlib.Path(manager.save(1))
    files = sorted(path.iterdir())
    for number in (2, 3):
        manager.save(number)
    assert sorted(path.iterdir()) == files
    assert names(manager) == ["ckpt-1", "ckpt-3"]


def test_restore_or_initialize_restores_the_newest(tmp_path, weight):
    manager = manage(weight, tmp_path)
    for value in (1.0, 2.0):
        weight.assign(jnp.full(8, value))
        manager.save()
    weight.assign(jnp.zeros(8))
    fresh = manage(weight, tmp_path)
    assert fresh.restore_or_initialize() == manager.latest_checkpoint
    assert float(weight[0]) == 2.0
    assert fresh.save().endswith("ckpt-3")


def test_restore_or_initialize_follows_a_trainer_that_removes_old_ones(
    tmp_path, weight, monkeypatch
):
    trainer = manage(weight, tmp_path, max_to_keep=1)
    trainer.save(1)

    def read_late(path, read=checkpoint_format.read):
        monkeypatch.undo()
        trainer.save(2)
        return read(path)

    monkeypatch.setattr(checkpoint_format, "read", read_late)
    evaluator = manage(mirrax.Variable(jnp.ones(8)), tmp_path)
    assert evaluator.restore_or_initialize() == str(tmp_path / "ckpt-2")
    assert not evaluator.checkpoint.weight.numpy().any()


def test_restore_or_initialize_initializes_where_there_is_nothing(tmp_path, weight):
    called = []
    manager = manage(weight, tmp_path, init_fn=lambda: called.append(True))
    assert manager.restore_or_initialize() is None
    assert called == [True]


def test_partial_directories_are_ignored_and_removed_with_a_warning(
    tmp_path, weight, caplog
):
    manager = manage(weight, tmp_path)
    manager.save(1)
    partial = tmp_path / "ckpt-2"
    partial.mkdir()
    (partial / "mirrax-arrays-1").touch()
    assert names(manager) == ["ckpt-1"]
    assert latest_checkpoint(tmp_path).endswith("ckpt-1")
    with caplog.at_level(logging.WARNING, logger="mirrax"):
        manager.save(3)
    assert "Removing the incomplete checkpoint" in caplog.text
    assert not partial.exists()
    assert names(manager) == ["ckpt-1", "ckpt-3"]


def test_save_that_goes_on_is_neither_warned_of_nor_removed(
    tmp_path, weight, caplog, monkeypatch
):
    proceed = threading.Event()

    def write(file, arrays, write=array_file.write):
        described = write(file, arrays)
        written.set()
        proceed.wait(timeout=240)
        return described

    manager = manage(weight, tmp_path, asynchronous=True)
    written = threading.Event()
    with monkeypatch.context() as context:
        context.setattr(array_file, "write", write)
        manager.save(1)
        written.wait(timeout=240)
    with caplog.at_level(logging.WARNING, logger="mirrax"):
        assert latest_checkpoint(tmp_path) is None
        manage(weight, tmp_path).save(2)
    proceed.set()
    manager.wait()
    assert names(manager) == ["ckpt-1", "ckpt-2"]
    assert not caplog.records


def test_damaged_checkpoint_is_left_for_the_one_before(tmp_path, weight, caplog):
    manager = manage(weight, tmp_path)
    for value in (1.0, 2.0):
        weight.assign(jnp.full(8, value))
        manager.save()
    (file,) = (tmp_path / "ckpt-2").glob("mirrax-arrays-*")
    file.write_bytes(b"")
    with pytest.raises(
        mirrax.errors.CheckpointDamagedError, match="Restore an older one"
    ):
        manager.checkpoint.restore(manager.latest_checkpoint)
    with caplog.at_level(logging.WARNING, logger="mirrax"):
        assert manager.restore_or_initialize().endswith("ckpt-1")
    assert float(weight[0]) == 1.0
    assert "Trying the one before it" in caplog.text


def test_background_saves_are_whole_after_wait(tmp_path, weight):
    manager = manage(weight, tmp_path, asynchronous=True, max_to_keep=2)
    for _ in range(4):
        manager.save()
    manager.wait()
    assert names(manager) == ["ckpt-3", "ckpt-4"]


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("return", 0),
        pytest.param("raise", 1, marks=pytest.mark.slow),
        pytest.param("exit", 3, marks=pytest.mark.slow),
    ],
)
def test_program_that_ends_without_wait_keeps_its_newest(tmp_path, ending, code):
    ended = end_without_wait(tmp_path, ending)
    assert (ended.returncode, ended.stdout) == (code, "handlers have run\n"), ended
    assert [path.name for path in tmp_path.glob("ckpt-*")] == ["ckpt-1"]


def test_program_that_ends_without_wait_reports_a_failed_save(tmp_path):
    ended = end_without_wait(tmp_path, "fail")
    assert (ended.returncode, ended.stdout) == (1, "handlers have run\n"), ended
    assert "CheckpointWriteError" in ended.stderr
    assert "OSError: No space left on device" in ended.stderr
    assert latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-0")


def test_failed_save_of_a_program_without_standard_output_has_its_exit_code(tmp_path):
    shell = ("sh", "-c", 'exec "$@" >&-', "sh")
    ended = end_without_wait(tmp_path, "fail", *shell)
    assert ended.returncode == 1
    assert "CheckpointWriteError" in ended.stderr


@pytest.mark.parametrize(
    "ending", [pytest.param("thread", marks=pytest.mark.slow), "only thread"]
)
def test_thread_may_save_after_the_main_thread_has_ended(tmp_path, ending):
    ended = end_without_wait(tmp_path, ending)
    assert (ended.returncode, ended.stdout) == (0, "handlers have run\n"), ended
    assert [path.name for path in tmp_path.glob("ckpt-*")] == ["ckpt-2"]


def end_without_wait(directory, ending, *before):
    program = pathlib.Path(__file__).with_name("unfinished.py")
    command = [*before, sys.executable, program, str(directory), ending]
    options = {"capture_output": True, "text": True, "timeout": 240}
    return subprocess.run(command, check=False, **options)


@pytest.mark.parametrize("name", ["", "a/b", "a/"])
def test_name_that_is_no_file_name_is_refused(tmp_path, weight, name):
    with pytest.raises(ValueError, match=rf"without a folder. Received: '{name}'"):
        manage(weight, tmp_path, checkpoint_name=name)


def test_number_to_keep_may_be_a_whole_float(tmp_path, weight):
    manager = manage(weight, tmp_path, max_to_keep=2.0)
    for _ in range(3):
        manager.save()
    assert names(manager) == ["ckpt-2", "ckpt-3"]


def test_nothing_to_keep_is_refused(tmp_path, weight):
    with pytest.raises(ValueError, match=r"from 1 on, or None.*Received: 0"):
        manage(weight, tmp_path, max_to_keep=0)
    with pytest.raises(ValueError, match=r"from 1 on.*Received: 0"):
        manage(weight, tmp_path, save_interval=0)
    with pytest.raises(ValueError, match=r"from 1 on, or None.*Received: 1.5"):
        manage(weight, tmp_path, max_to_keep=1.5)


@pytest.mark.parametrize("number", [np.int64(7), jnp.array(7), 7.0])
def test_number_may_be_any_whole_one(tmp_path, weight, number):
    assert manage(weight, tmp_path).save(number).endswith("ckpt-7")


def test_refused_save_does_not_count(tmp_path, weight):
    manager = manage(weight, tmp_path)
    manager.save(3)
    for name in ("ckpt-4", "ckpt-5"):
        (tmp_path / name).touch()
    with pytest.raises(CheckpointWriteError, match="there is a file"):
        manager.save(5)
    with pytest.raises(CheckpointWriteError, match="there is a file"):
        manager.checkpoint.save(tmp_path / "ckpt")
    assert manager.checkpoint.save_counter == 3


def test_latest_of_nothing_is_none(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "missing") is None


@pytest.mark.parametrize("method", ["save", "restore_or_initialize"])
def test_unusable_directory_is_noticed_at_the_start(tmp_path, weight, method):
    (tmp_path / "file").touch()
    manager = manage(weight, tmp_path / "file", save_interval=1000)
    with pytest.raises(CheckpointWriteError, match="where this process may write"):
        manager.save(1) if method == "save" else manager.restore_or_initialize()
