import random

import pytest

from mirrax.train import latest_checkpoint
from mirrax.train.checkpoints import manifest
from tests.train import killed
from tests.train.killing import kill_while_saving, run_program

pytestmark = pytest.mark.slow


def test_killed_process_leaves_its_newest_whole_checkpoint(tmp_path):
    moments = random.Random(1)
    numbers = [
        kill_while_saving(tmp_path, moments.uniform(0.2, 0.6), asynchronous=True)
        for _ in range(2)
    ]
    assert 0 < numbers[0] < numbers[1]


def test_checkpoint_that_is_replaced_is_never_lost(tmp_path):
    num_changes = int(run_program(killed.__file__, str(tmp_path)))
    assert num_changes > 10
    seen = []
    for change in range(1, num_changes + 1):
        directory = tmp_path / str(change)
        run, manager = killed.manage(directory)
        path = manager.restore_or_initialize()
        assert path == latest_checkpoint(directory)
        seen.append((path.rsplit("/")[-1], run.round))
        assert run.weight.tolist() == [run.round] * 3
        assert manifest.is_complete(directory / seen[-1][0])
        # The next save removes what is left of the killed one. Only an empty folder
        # stays, because it could be the user's.
        manager.save(3)
        assert {path.parent.name for path in directory.glob("*/*")} == {"ckpt-3"}
        assert len(list((directory / "ckpt-3").iterdir())) == 2
    assert sorted(set(seen)) == [("ckpt-1", 1), ("ckpt-1", 2), ("ckpt-2", 3)]
    assert seen == sorted(seen)
