"""The hooks of this layer accept whatever Keras' methods accept."""

import keras

from mirrax.tf.keras_support import steps
from tests.integrations.test_hook_signatures import keras_hooks, refused_calls


def test_hooks_accept_what_the_originals_accept():
    steps.install(keras.Model)
    hooks = list(keras_hooks())
    assert any("Model" in original.__qualname__ for _, original in hooks)
    assert refused_calls(hooks) == []
