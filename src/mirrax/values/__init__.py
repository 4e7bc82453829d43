"""Values held on replicas: per-replica and mirrored."""

from mirrax.values.distributed_values import DistributedValues as DistributedValues
from mirrax.values.mirrored import Mirrored as Mirrored
from mirrax.values.per_replica import PerReplica as PerReplica
