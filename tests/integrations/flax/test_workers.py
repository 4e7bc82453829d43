"""Flax NNX on several workers, in real processes."""

import numpy as np
import pytest

from mirrax.testing import launch_processes
from tests.integrations.flax import programs


@pytest.mark.slow
def test_workers_train_a_model_as_one_device_does():
    kernel, loss = programs.train_nnx_alone()
    first, second = launch_processes(programs.train_nnx, 2)
    for found, found_loss in (*first, *second):
        np.testing.assert_allclose(found, kernel, rtol=1e-4)
        np.testing.assert_allclose(found_loss, loss, rtol=1e-4)
