"""`tf.experimental`: only `numpy` is available."""

from mirrax.tf.experimental import numpy as numpy
from mirrax.tf.missing_names import names_of

__getattr__ = names_of("tf.experimental")
