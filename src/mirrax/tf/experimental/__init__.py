"""`tf.experimental`: only `numpy` is available."""

from mirrax.tf.experimental import numpy as numpy
