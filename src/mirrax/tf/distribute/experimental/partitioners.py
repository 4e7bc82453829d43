"""`tf.distribute.experimental.partitioners`: variables split over parameter servers."""

from mirrax.tf.namespaces.missing_names import unavailable

_MODULE = "tf.distribute.experimental.partitioners"

FixedShardsPartitioner = unavailable(f"{_MODULE}.FixedShardsPartitioner")
MaxSizePartitioner = unavailable(f"{_MODULE}.MaxSizePartitioner")
MinSizePartitioner = unavailable(f"{_MODULE}.MinSizePartitioner")
Partitioner = unavailable(f"{_MODULE}.Partitioner")
