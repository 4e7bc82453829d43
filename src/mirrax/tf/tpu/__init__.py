"""`tf.tpu`: what programs call before they create a `TPUStrategy`."""

from mirrax.tf.missing_names import names_of
from mirrax.tf.tpu import experimental as experimental

__getattr__ = names_of("tf.tpu")
