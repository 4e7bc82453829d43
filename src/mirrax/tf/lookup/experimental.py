"""`tf.lookup.experimental`."""

from mirrax.tf.lookup.mutable_tables import DenseHashTable as DenseHashTable
from mirrax.tf.lookup.mutable_tables import MutableHashTable as MutableHashTable
from mirrax.tf.missing_names import names_of

__getattr__ = names_of("tf.lookup.experimental")
