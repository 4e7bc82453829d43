"""`tf.compat`."""

from mirrax.tf.absent import names_of
from mirrax.tf.compat import v1 as v1

__getattr__ = names_of("tf.compat")
