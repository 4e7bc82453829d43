"""`tf.tpu`: what programs call before they create a `TPUStrategy`."""

from mirrax.tf.tpu import experimental as experimental
