"""The examples run as they stand, and their results do not depend on the replicas."""

import importlib.util
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def main_of(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


@pytest.mark.slow
def test_fit_learns_the_same_on_any_number_of_replicas(capsys):
    main = main_of("keras_fit")
    losses = [main(["--replicas", number, "--epochs", "1"]) for number in "12"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert "accuracy on unseen digits 0." in capsys.readouterr().out


@pytest.mark.slow
def test_custom_loop_learns(capsys):
    assert main_of("keras_custom_loop")(["--replicas", "4", "--epochs", "3"]) < 0.5
    assert "epoch 3: loss 0." in capsys.readouterr().out
