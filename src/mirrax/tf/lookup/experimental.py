"""`tf.lookup.experimental`."""

from mirrax.tf.lookup.mutable_tables import DenseHashTable as DenseHashTable
from mirrax.tf.lookup.mutable_tables import MutableHashTable as MutableHashTable
