"""`tf.contrib`: only `distribute` is available."""

from mirrax.tf.absent import names_of
from mirrax.tf.contrib import distribute as distribute

__getattr__ = names_of("tf.contrib")
