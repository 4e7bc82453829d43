"""`tf.summary.experimental`."""

from mirrax.tf.missing_names import names_of
from mirrax.tf.summary.recording import get_step as get_step
from mirrax.tf.summary.recording import set_step as set_step

__getattr__ = names_of("tf.summary.experimental")
