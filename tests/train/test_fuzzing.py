"""Damaged checkpoints: documented errors, and nothing is changed."""

import json

import google_crc32c
import pytest

import mirrax
from mirrax.errors import CheckpointDamagedError, CheckpointMismatchError
from mirrax.train import Checkpoint, latest_checkpoint
from tests.data import fuzzing


@pytest.fixture
def saved(tmp_path):
    """A checkpoint with something of each kind, and its manifest without checksum."""
    iterator = iter(mirrax.data.Dataset.range(9).batch(2))
    objects = Checkpoint(v=mirrax.Variable([1.0, 2.0]), data=iterator, step=3, note="n")
    path = objects.save(tmp_path / "ckpt")
    objects.v.assign([0.0, 0.0])
    manifest = tmp_path / "ckpt-1" / "mirrax-manifest"
    return objects, path, manifest, manifest.read_bytes().partition(b"\n")[2]


def restore(saved, data):
    """Restores a manifest; says whether that was possible."""
    objects, path, manifest, _ = saved
    manifest.write_bytes(data)
    assert latest_checkpoint(manifest.parent.parent) == path
    try:
        objects.restore(path)
    except (CheckpointDamagedError, CheckpointMismatchError, ValueError):
        assert objects.v.numpy().tolist() == [0.0, 0.0]
        return False
    objects.v.assign([0.0, 0.0])
    return True


def test_damaged_manifests_are_refused(saved):
    good = b"%08x\n" % google_crc32c.value(saved[3]) + saved[3]
    assert restore(saved, good)
    with fuzzing.limits():
        for data in fuzzing.damaged_bytes(good, 150):
            assert data == good or not restore(saved, data)


def test_manifests_with_right_checksums_raise_documented_errors(saved):
    good = json.loads(saved[3])
    with fuzzing.limits():
        for value in fuzzing.damaged_json(good, 60):
            data = json.dumps(value).encode()
            restore(saved, b"%08x\n" % google_crc32c.value(data) + data)
        for data in fuzzing.damaged_bytes(saved[3], 60):
            restore(saved, b"%08x\n" % google_crc32c.value(data) + data)
