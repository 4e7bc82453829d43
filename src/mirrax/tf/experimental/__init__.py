"""`tf.experimental`: `numpy` and `Optional` are available."""

from mirrax.tf.data.experimental import Optional as Optional
from mirrax.tf.experimental import numpy as numpy
