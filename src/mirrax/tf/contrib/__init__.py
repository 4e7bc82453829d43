"""`tf.contrib`: only `distribute` is available."""

from mirrax.tf.contrib import distribute as distribute
from mirrax.tf.missing_names import names_of

__getattr__ = names_of("tf.contrib")
