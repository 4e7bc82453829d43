"""`tf.compat.v1`."""

from mirrax.tf.compat import v1_distribute as distribute

__all__ = ["distribute"]
