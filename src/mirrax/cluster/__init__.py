"""Who takes part: resolvers, the job of several workers, their failures."""

from mirrax.cluster.cluster_spec import ClusterSpec as ClusterSpec
from mirrax.cluster.membership import Worker as Worker
from mirrax.cluster.worker.job import Job as Job
from mirrax.cluster.worker.join import current_job as current_job
from mirrax.cluster.worker.join import join as join
