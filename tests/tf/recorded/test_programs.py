"""The same programs give the losses that TensorFlow gave, step by step."""

import json

import numpy as np
import pytest

from mirrax import tf
from tests.tf.recorded.record_programs import PROGRAMS, RESULTS, load

EXPECTED = json.loads(RESULTS.read_text())
# They take longest to compile.
SLOW = {"adversarial_networks", "attention", "recurrent_network"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow) if path.stem in SLOW else path
        for path in PROGRAMS
    ],
    ids=lambda path: path.stem,
)
def test_program_gives_the_losses_of_tensorflow(path):
    losses = load(path).train(tf, np)
    assert len(losses) == 20
    np.testing.assert_allclose(losses, EXPECTED[path.stem], rtol=1e-4)
