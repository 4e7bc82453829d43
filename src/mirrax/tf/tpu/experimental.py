"""`tf.tpu.experimental`."""

from __future__ import annotations

from typing import Any

from mirrax import config


def initialize_tpu_system(cluster_resolver: Any = None) -> None:
    """Raises if there are no TPUs, so that programs choose another strategy."""
    if not config.list_logical_devices("TPU"):
        # TensorFlow's resolver raises this class, which programs catch.
        raise ValueError(
            "There must be TPU devices. Received: a machine without. Install "
            "`jax[tpu]` on a TPU host, or use MirroredStrategy."
        )


def shutdown_tpu_system(cluster_resolver: Any = None) -> None:
    """Does nothing: JAX stops the TPUs when the process ends."""
