"""Who takes part: resolvers, the job of several workers, their failures."""

from mirrax.cluster.bootstrap import current_job as current_job
from mirrax.cluster.bootstrap import join as join
from mirrax.cluster.job import Job as Job
from mirrax.cluster.spec import ClusterSpec as ClusterSpec
from mirrax.cluster.workers import Worker as Worker
