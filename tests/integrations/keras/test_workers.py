"""Keras models on many workers, in real processes."""

import csv

import numpy as np
import pytest

import mirrax
from mirrax.testing import launch_processes
from tests.integrations.keras import programs, restarted, worker_programs
from tests.integrations.keras.test_models import assert_same, on_one_device

pytestmark = pytest.mark.slow


def launch(program, num_workers, *args):
    return launch_processes(program, num_workers, args)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    return folder, launch(worker_programs.train, 2, str(folder))


@pytest.fixture(scope="module")
def experiences():
    """What two workers see of a model of each kind, of one job."""
    return launch(worker_programs.equal_one_device, 2)


@pytest.mark.parametrize("name", programs.OPTIMIZERS)
def test_training_equals_one_device_on_every_worker(experiences, name):
    for answer in experiences:
        assert_same(answer[name], on_one_device(name))


def test_single_batches_equal_one_device_on_every_worker(experiences):
    expected = programs.experience_of_batches(programs.build("linear", "sgd"))
    for answer in experiences:
        assert_same(answer["batches"], expected)


def test_workers_start_alike_whatever_their_seeds(trained):
    first, second = trained[1]
    assert_same(first["weights"], second["weights"])
    assert_same(first["evaluate"], second["evaluate"])


def test_only_the_first_worker_prints_and_writes(trained):
    folder, (first, second) = trained
    assert "loss" in first["printed"]
    assert second["printed"] == ""
    assert (folder / "model_of_0.keras").exists()
    assert not list(folder.glob("*_of_1.keras"))
    # Programs written for TensorFlow expect the folder, and remove it.
    assert list((folder / "of_1").iterdir()) == []
    with open(folder / "log.csv") as file:
        assert len(list(csv.DictReader(file))) == 2


def test_files_are_there_when_save_and_fit_return_on_any_worker(trained):
    for answer in trained[1]:
        assert_same(answer["saved"], answer["weights"])
        assert_same(answer["best"], answer["weights"])


def test_fit_ends_on_all_workers_if_one_stops(trained):
    for answer in trained[1]:
        assert answer["epochs until one stops"] == [1, 1, 1, 1]


def test_failure_to_write_is_raised_on_every_worker(trained):
    first, second = trained[1]
    assert "missing" in first["failed save"]
    assert "The chief could not write 'model.save'" in second["failed save"]


def test_backup_of_the_first_worker_is_restored_on_all(trained):
    first, second = trained[1]
    assert (first["epochs left"], second["epochs left"]) == (2, 2)
    assert_same(first["resumed"], second["resumed"])
    assert any(np.abs(w).max() > 0 for w in first["resumed"])


def test_models_go_on_from_what_was_saved_in_any_way(tmp_path):
    first, second = launch(worker_programs.save_and_load, 2, str(tmp_path))
    assert_same(first, second)
    assert first.pop("exists")
    assert len(first.pop("history")["loss"]) == 2
    first.pop("early")
    assert {name: same for name, (same, _) in first.items() if not same} == {}


@pytest.mark.parametrize("which", ["other batches", "other later batches"])
def test_other_batches_on_another_worker_are_refused(trained, which):
    for answer in trained[1]:
        assert "All workers must get the same batches" in answer[which]


def test_custom_loop_equals_one_worker():
    (alone,) = launch(worker_programs.custom_loop, 1)
    for answer in launch(worker_programs.custom_loop, 2):
        assert_same(answer, alone)


def test_backup_is_restored_after_a_restart(tmp_path):
    (tmp_path / "other").mkdir()
    expected = mirrax.launch.run(restarted.train, 2, (str(tmp_path / "other"), None))
    lines = []
    answers = mirrax.launch.run(
        restarted.train,
        2,
        (str(tmp_path), 1),
        max_restarts=1,
        show=lines.append,
        timeout=240,
    )
    assert [num_epochs for num_epochs, _ in answers] == [2, 2]
    assert [weights for _, weights in answers] == [weights for _, weights in expected]
    said = [line for line in lines if line.startswith("mirrax launch: ")]
    assert said[0] == (
        "mirrax launch: worker 1: killed by SIGKILL, after step 4. Restart 1 of 1."
    )
    assert "resumed after step 4 (steps lost: 0)" in said[1]
