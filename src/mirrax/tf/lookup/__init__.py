"""`tf.lookup`: tables that are read on the host, for example in `Dataset.map`."""

from mirrax.tf.lookup import experimental as experimental
from mirrax.tf.lookup.initializers import (
    KeyValueTensorInitializer as KeyValueTensorInitializer,
)
from mirrax.tf.lookup.initializers import TextFileIndex as TextFileIndex
from mirrax.tf.lookup.initializers import TextFileInitializer as TextFileInitializer
from mirrax.tf.lookup.static_tables import StaticHashTable as StaticHashTable
from mirrax.tf.lookup.static_tables import (
    StaticVocabularyTable as StaticVocabularyTable,
)
