"""`tf.compat`."""

from mirrax.tf.compat import v1 as v1
