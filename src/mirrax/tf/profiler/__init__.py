"""`tf.profiler`."""

from mirrax.tf.missing_names import names_of
from mirrax.tf.profiler import experimental as experimental

__getattr__ = names_of("tf.profiler")
