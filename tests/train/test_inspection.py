"""Looking into a checkpoint without the objects that were saved."""

import pytest

import mirrax
from mirrax.train import Checkpoint, list_variables, load_variable


@pytest.fixture
def path(tmp_path):
    weight = mirrax.Variable([1.0, 2.0, 3.0])
    return Checkpoint(weight=weight, step=7).save(tmp_path / "ckpt")


def test_it_lists_names_and_shapes(path):
    expected = [("save_counter", []), ("step", []), ("weight", [3])]
    assert list_variables(path) == expected


def test_it_takes_the_newest_of_a_directory(path, tmp_path):
    assert list_variables(tmp_path) == list_variables(path)


def test_it_loads_by_name(path):
    assert load_variable(path, "weight").tolist() == [1.0, 2.0, 3.0]
    assert load_variable(path, "step") == 7


def test_what_was_not_saved_cannot_be_loaded(path):
    with pytest.raises(KeyError, match=r"'bias'.*save_counter, step, weight"):
        load_variable(path, "bias")


def test_a_place_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no complete checkpoint"):
        list_variables(tmp_path / "none")


def test_objects_that_were_not_saved_are_found(path):
    weight, bias = mirrax.Variable([0.0, 0.0, 0.0]), mirrax.Variable(1.0)
    known = Checkpoint(weight=weight, step=0).restore(path)
    assert known.assert_existing_objects_matched() is known
    status = Checkpoint(weight=weight, bias=bias).restore(path, partial=True)
    with pytest.raises(AssertionError, match=r"no values for bias\. Make"):
        status.assert_existing_objects_matched()


def test_checks_of_what_was_not_restored_raise(path):
    bias = Checkpoint(bias=mirrax.Variable(1.0))
    status = bias.restore(path, partial=True).expect_partial()
    with pytest.raises(
        AssertionError, match=r"a checkpoint with .*step, weight\. Give"
    ):
        status.assert_nontrivial_match()
    found = Checkpoint(step=0).restore(path)
    assert found.assert_nontrivial_match() is found
    nothing = bias.restore(None).expect_partial()
    for check in (
        nothing.assert_consumed,
        nothing.assert_existing_objects_matched,
        nothing.assert_nontrivial_match,
    ):
        with pytest.raises(AssertionError, match=r"Received: restore\(None\)"):
            check()
