"""Small models take their time to compile: here speed counts before it pays off."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
