"""Names that TensorFlow keeps apart."""

from mirrax.data.dataset_options import AutoShardPolicy as AutoShardPolicy
from mirrax.data.dataset_options import DistributeOptions as DistributeOptions
