"""Checkpoints of several workers, in real processes."""

import pytest

from mirrax.testing import launch_processes
from tests.train import programs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_save_together_and_any_number_restores(tmp_path, num_workers):
    saved = launch_processes(programs.save, 2, args=(str(tmp_path),))
    assert [path for path, _ in saved] == [str(tmp_path / "ckpt-3")] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["ckpt-3"]
    restored = launch_processes(programs.restore, num_workers, args=(str(tmp_path),))
    for answer in restored:
        assert answer == {
            "path": str(tmp_path / "ckpt-3"),
            "weight": [4.0, 5.0],
            "count": 12,
            "step": 3,
            "next": saved[0][1],
        }


def test_failure_to_write_is_raised_on_all_workers(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    answers = launch_processes(
        programs.fail_to_save,
        2,
        args=(str(tmp_path),),
        environment={"MIRRAX_STUCK_TIMEOUT": "30"},
    )
    for answer in answers:
        assert [kind for kind, _ in answer] == ["CheckpointWriteError"] * 4
        for (_, message), part in zip(
            answer, ["nothing but another", "/proc/ckpt", "too large", "too large"]
        ):
            assert part in message
            # The cause is relayed without another error around it.
            assert message.count("Received:") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_workers_with_temporary_directories_save_and_restore(tmp_path):
    answers = launch_processes(programs.save_to_own_directories, 2, (str(tmp_path),))
    assert answers == [(["ckpt-1"], 7.0), ([], 7.0)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt-1"]


def test_save_that_only_the_chief_calls_is_an_error(tmp_path):
    answers = launch_processes(
        programs.save_on_the_chief_only,
        2,
        args=(str(tmp_path),),
        environment={"MIRRAX_STUCK_TIMEOUT": "5"},
    )
    assert all(answer != "nothing" for answer in answers)
