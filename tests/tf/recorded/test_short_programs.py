"""Short programs give the answers of TensorFlow."""

import json

import numpy as np
import pytest

from mirrax import tf
from tests.conformance.check import same
from tests.tf.recorded.record_short_programs import (
    MODULES,
    RESULTS,
    answer_of,
    functions_of,
)

RECORDED = json.loads(RESULTS.read_text())
PROGRAMS = {
    f"{path.stem}.{name}": function
    for path in MODULES
    for name, function in functions_of(path).items()
}


# Old names warn; that they do is tested elsewhere.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_answers_as_tensorflow_does(name):
    got, want = answer_of(PROGRAMS[name], tf, np), RECORDED[name]
    if isinstance(want, dict) and "error" in want:
        # Ours may be a class of its own that is also TensorFlow's.
        assert want["error"] in got.get("kinds", []), f"{got} in place of {want}"
    else:
        assert same(got, want), f"{got} in place of {want}"


def test_every_answer_has_a_program():
    assert sorted(RECORDED) == sorted(PROGRAMS)
