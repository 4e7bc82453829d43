"""Multi-worker jobs: cluster resolvers, joining, coordination and failures."""

from mirrax.cluster.cluster_spec import ClusterSpec as ClusterSpec
from mirrax.cluster.membership import Worker as Worker
from mirrax.cluster.worker.job import Job as Job
from mirrax.cluster.worker.join import current_job as current_job
from mirrax.cluster.worker.join import join_job as join_job
