"""`tf.profiler`."""

from mirrax.tf.profiler import experimental as experimental
