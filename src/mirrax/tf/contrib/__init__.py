"""`tf.contrib`: only `distribute` is available."""

from mirrax.tf.contrib import distribute as distribute
