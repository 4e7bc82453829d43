"""Programs to which TensorFlow's answers are known."""

import json
import pathlib

import numpy as np
import pytest

from mirrax import tf
from tests.conformance.check import same
from tests.tf.recorded import answers

RECORDED = json.loads(pathlib.Path(__file__).with_name("answers.json").read_text())


@pytest.mark.parametrize("program", answers.PROGRAMS, ids=lambda p: p.__name__)
def test_answers_are_those_of_tensorflow(program):
    got = json.loads(json.dumps(program(tf, np), default=str))
    want = RECORDED[program.__name__]
    assert same(got, want), f"{got} in place of {want}"


def test_every_answer_has_a_program():
    assert sorted(RECORDED) == sorted(p.__name__ for p in answers.PROGRAMS)
