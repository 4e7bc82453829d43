"""Checkpoints whose files were changed, cut, lost or found after they were saved."""

import errno
import fcntl
import functools
import json
import os
import pathlib
import shutil
import threading

import numpy as np
import pytest

import mirrax
from mirrax.errors import CheckpointDamagedError, CheckpointWriteError, NotFoundError
from mirrax.train import Checkpoint, CheckpointManager
from mirrax.train.checkpoints import array_file, checkpoint_format, cleanup, manifest
from mirrax.train.checkpoints.checkpoint_format import CheckpointData


def build():
    return Checkpoint(
        weight=mirrax.Variable(np.zeros(3, np.float32)),
        data=iter(mirrax.data.Dataset.range(1000)),
        step=0,
    )


def state(checkpoint):
    return checkpoint.weight.numpy().tolist(), checkpoint.step, next(checkpoint.data)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A directory with two checkpoints, of 5 and of 10 steps."""
    directory = tmp_path_factory.mktemp("originals")
    checkpoint = build()
    manager = CheckpointManager(checkpoint, directory)
    for number in (1, 2):
        for _ in range(5):
            next(checkpoint.data)
        checkpoint.weight.assign(np.full(3, number, np.float32))
        checkpoint.step = number * 5
        manager.save(number)
    return directory


@pytest.fixture
def directory(originals, tmp_path):
    return pathlib.Path(shutil.copytree(originals, tmp_path / "checkpoints"))


def all_files(directory):
    return [file for file in sorted(directory.rglob("*")) if file.is_file()]


def flip_bit(position, file):
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << position % 8
    file.write_bytes(data)


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def lengthen(file):
    file.write_bytes(file.read_bytes() + b"\n")


def test_no_flipped_bit_goes_unnoticed(directory):
    path = directory / "ckpt-2"
    for file in all_files(path):
        whole = file.read_bytes()
        for position in range(len(whole)):
            file.write_bytes(whole)
            flip_bit(position, file)
            with pytest.raises(
                CheckpointDamagedError, match=f"written in .*{file.name}"
            ):
                checkpoint_format.read(path)
        file.write_bytes(whole)
    assert checkpoint_format.read(path).plain["step"] == 10


@pytest.mark.parametrize(
    "damage",
    [functools.partial(flip_bit, 9), cut, lengthen, pathlib.Path.unlink],
    ids=["bit", "cut", "longer", "lost"],
)
def test_damaged_file_leads_to_the_checkpoint_before(directory, damage):
    for file in all_files(directory / "ckpt-2"):
        whole = file.read_bytes()
        damage(file)
        fresh = build()
        with pytest.raises((CheckpointDamagedError, NotFoundError)):
            fresh.restore(directory / "ckpt-2")
        assert state(fresh) == ([0.0] * 3, 0, 0)
        restored = build()
        manager = CheckpointManager(restored, directory)
        assert manager.restore_or_initialize() == str(directory / "ckpt-1")
        assert state(restored) == ([1.0] * 3, 5, 5)
        file.write_bytes(whole)


def test_files_that_do_not_belong_there_are_not_read(directory):
    for folder in [p for p in (directory / "ckpt-2").rglob("*") if p.is_dir()]:
        (folder / "_sharding").write_bytes(b"other")
    restored = build()
    manager = CheckpointManager(restored, directory)
    assert manager.restore_or_initialize() == str(directory / "ckpt-2")
    assert state(restored) == ([2.0] * 3, 10, 10)


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 1, 3)])
def test_arrays_of_every_dtype_keep_their_bits(tmp_path, shape):
    random = np.random.default_rng(0)
    names = ["bool", "int4", "uint2", "int64", "bfloat16", "float8_e4m3fn", ">f4"]
    arrays = {}
    for name in (*names, "complex128"):
        kind = np.dtype(name)
        if name in {"bool", "int4", "uint2"}:
            arrays[name] = random.integers(0, 2, shape).astype(kind)
        else:
            data = random.bytes(int(np.prod(shape)) * kind.itemsize)
            arrays[name] = np.frombuffer(data, kind).reshape(shape)
    arrays["transposed"] = arrays["complex128"].T
    described = array_file.write(tmp_path / "arrays", arrays)
    described = json.loads(json.dumps(described))
    for name, array in array_file.read(tmp_path / "arrays", described).items():
        assert (array.dtype, array.shape) == (arrays[name].dtype, arrays[name].shape)
        assert array.tobytes() == arrays[name].tobytes()


def test_array_larger_than_a_chunk_is_checked_to_its_end(tmp_path):
    arrays = {"v": np.arange((1 << 18) + 5, dtype=np.float32)}
    described = array_file.write(tmp_path / "arrays", arrays)
    read = array_file.read(tmp_path / "arrays", described)
    np.testing.assert_array_equal(read["v"], arrays["v"])
    flip_bit(-1, tmp_path / "arrays")
    with pytest.raises(ValueError, match="other bits"):
        array_file.read(tmp_path / "arrays", described)


def test_crafted_kinds_of_arrays_are_refused(tmp_path):
    file = tmp_path / "arrays"
    file.write_bytes(bytes(16))
    for dtype, shape in (("O", [2]), ("f4", [1 << 40]), ("f4", [-2, -2]), ("f4", [3])):
        with pytest.raises(ValueError, match=r"an array of|other bits"):
            array_file.read(file, {"v": [dtype, shape, 0]})


def test_position_that_does_not_fit_restores_nothing(originals):
    weight = mirrax.Variable(np.zeros(3, np.float32))
    short = iter(mirrax.data.Dataset.range(3))
    next(short)
    run = Checkpoint(weight=weight, data=short, step=0)
    with pytest.raises(ValueError, match="position"):
        run.restore(originals / "ckpt-2")
    assert state(run) == ([0.0] * 3, 0, 1)
    # The same if it comes later.
    late = Checkpoint(weight=weight, step=0)
    late.restore(originals / "ckpt-2")
    with pytest.raises(ValueError, match="position"):
        late.data = short
    assert next(short) == 2


def test_iterator_goes_back_if_the_next_one_cannot_be_moved(tmp_path):
    def make(num_later):
        first, later = (iter(mirrax.data.Dataset.range(n)) for n in (9, num_later))
        next(first)
        return Checkpoint(first=first, later=later)

    run = make(num_later=9)
    for _ in range(5):
        next(run.first), next(run.later)
    path = run.save(tmp_path / "ckpt")
    other = make(num_later=3)
    with pytest.raises(ValueError, match="position"):
        other.restore(path)
    assert (next(other.first), next(other.later)) == (1, 0)


def test_other_kinds_of_values_are_differences(originals):
    weight = mirrax.Variable(np.zeros(3, np.float32))
    run = Checkpoint(weight=weight, data=1, step="ten")
    with pytest.raises(mirrax.errors.CheckpointMismatchError) as caught:
        run.restore(originals / "ckpt-2")
    assert "'data' is 1, but a position was saved" in str(caught.value)
    assert "'step' is 'ten', but 10 was saved" in str(caught.value)
    run = Checkpoint(weight=weight, step=iter(mirrax.data.Dataset.range(3)))
    with pytest.raises(mirrax.errors.CheckpointMismatchError) as caught:
        run.restore(originals / "ckpt-2")
    assert "'step' is an iterator, but 10 was saved" in str(caught.value)
    assert not weight.numpy().any()


def test_numbers_and_texts_come_back_as_they_were(tmp_path):
    values = {"large": 10**400, "odd": 2**53 + 1, "text": "\ud800\0é", "zero": -0.0}
    path = Checkpoint(**values).save(tmp_path / "ckpt")
    run = Checkpoint(large=0, odd=0, text="", zero=1.0)
    run.restore(path)
    assert {name: getattr(run, name) for name in values} == values
    assert str(run.zero) == "-0.0"


def test_fraction_does_not_become_a_whole_number(tmp_path):
    path = Checkpoint(rate=0.5).save(tmp_path / "ckpt")
    with pytest.raises(
        mirrax.errors.CheckpointMismatchError, match=r"'rate' is 0, but 0.5 was saved"
    ):
        Checkpoint(rate=0).restore(path)


def test_names_of_files_are_on_disk_when_a_save_returns(tmp_path, monkeypatch):
    events = []

    def sync(descriptor, fsync=os.fsync):
        events.append(pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def replace(old, new, replace=os.replace):
        events.append("renamed")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(manifest.os, "replace", replace)
    path = pathlib.Path(Checkpoint(weight=np.ones(3)).write(tmp_path / "ckpt-1"))
    renamed = events.index("renamed")
    (arrays,) = path.glob("mirrax-arrays-*")
    assert arrays in events[:renamed]
    assert events[renamed + 1 :] == [path, tmp_path]


def test_saves_to_one_path_do_not_mix(tmp_path, monkeypatch):
    ended = threading.Event()

    def write(file, arrays, write=array_file.write):
        described = write(file, arrays)
        if "first" in arrays:
            started.set()
            ended.wait(timeout=0.5)
        return described

    started = threading.Event()
    monkeypatch.setattr(array_file, "write", write)
    first, second = Checkpoint(first=np.ones(3)), Checkpoint(second=np.ones(3))
    first.write(tmp_path / "ckpt", asynchronous=True)
    started.wait(timeout=240)
    second.write(tmp_path / "ckpt")
    ended.set()
    first.wait()
    assert list(checkpoint_format.read(tmp_path / "ckpt").arrays) == ["second"]
    assert len(list((tmp_path / "ckpt").iterdir())) == 2


def test_arrays_of_another_save_of_the_same_order_stay(tmp_path):
    saved = CheckpointData({"v": np.ones(3)}, {})
    checkpoint_format.write(tmp_path / "ckpt", saved, order=1)
    with pytest.raises(FileExistsError):
        checkpoint_format.write(tmp_path / "ckpt", saved, order=1)
    assert checkpoint_format.read(tmp_path / "ckpt").arrays["v"].all()


def test_checkpoint_that_is_replaced_meanwhile_is_read(tmp_path, monkeypatch):
    run = Checkpoint(weight=np.ones(3), step=1)
    run.write(tmp_path / "ckpt")

    def read_late(file, described, read=array_file.read):
        monkeypatch.undo()
        run.step = 2
        run.write(tmp_path / "ckpt")
        return read(file, described)

    monkeypatch.setattr(array_file, "read", read_late)
    assert checkpoint_format.read(tmp_path / "ckpt").plain["step"] == 2


def test_folder_that_cannot_be_synced_does_not_damage_what_is_complete(
    tmp_path, monkeypatch
):
    def refuse(path, *args, open=os.open, **options):
        if pathlib.Path(path) == tmp_path:
            raise PermissionError("Permission denied")
        return open(path, *args, **options)

    run = Checkpoint(weight=np.ones(3))
    monkeypatch.setattr(os, "open", refuse)
    path = run.write(tmp_path / "ckpt")
    assert checkpoint_format.read(pathlib.Path(path)).arrays["weight"].sum() == 3


@pytest.mark.parametrize("has_older", [True, False])
def test_failed_save_says_whether_an_older_one_is_whole(
    tmp_path, monkeypatch, has_older
):
    checkpoint = Checkpoint(weight=np.ones(3))
    if has_older:
        checkpoint.write(tmp_path / "ckpt")

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(array_file, "write", fail)
    with pytest.raises(CheckpointWriteError, match="No space left on") as info:
        checkpoint.write(tmp_path / "ckpt")
    assert ("older checkpoint there is still whole" in str(info.value)) is has_older


def test_file_system_that_does_not_answer_is_no_other_writer(tmp_path, monkeypatch):
    def fail(*_):
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(array_file, "write", fail)
    with pytest.raises(CheckpointWriteError, match=r"timed out.*choose another folder"):
        Checkpoint(weight=np.ones(3)).write(tmp_path / "ckpt")


def test_save_gives_up_on_a_path_that_another_writer_never_leaves(
    tmp_path, monkeypatch
):
    path = tmp_path / "ckpt"
    path.mkdir()
    monkeypatch.setattr(checkpoint_format, "LOCK_SECONDS", 0.0)
    saved = checkpoint_format.CheckpointData({}, {})
    with (
        checkpoint_format.locked(path, seconds=0),
        pytest.raises(
            CheckpointWriteError, match=r"another process is writing there.*Let it end"
        ),
        checkpoint_format.write_errors(path),
    ):
        checkpoint_format.write(path, saved, order=1)


def test_folder_that_is_removed_while_a_save_waits_for_it_is_made_again(
    tmp_path, monkeypatch
):
    path = tmp_path / "ckpt"

    def lock_late(descriptor, operation, flock=fcntl.flock):
        # Another process had the lock until now.
        monkeypatch.undo()
        path.rmdir()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    Checkpoint(weight=np.ones(3)).write(path)
    assert checkpoint_format.read(path).arrays["weight"].sum() == 3


def test_checkpoint_that_another_job_has_removed_is_no_warning(tmp_path, caplog):
    cleanup.remove(tmp_path / "ckpt-1")
    assert not caplog.records


def test_folder_that_is_removed_before_a_save_locks_it_is_made_again(
    tmp_path, monkeypatch
):
    path = tmp_path / "ckpt"

    def open_late(folder, *args, open=os.open, **options):
        monkeypatch.undo()
        path.rmdir()
        return open(folder, *args, **options)

    monkeypatch.setattr(os, "open", open_late)
    Checkpoint(weight=np.ones(3)).write(path)
    assert checkpoint_format.read(path).arrays["weight"].sum() == 3
