"""`tf.errors`."""

from mirrax.errors import InvalidArgumentError as InvalidArgumentError
from mirrax.errors import OutOfRangeError as OutOfRangeError
