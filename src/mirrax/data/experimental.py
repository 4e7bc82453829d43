"""Names that TensorFlow keeps apart."""

from mirrax.data.options import AutoShardPolicy as AutoShardPolicy
from mirrax.data.options import DistributeOptions as DistributeOptions
