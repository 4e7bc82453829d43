"""A coordinator in its own process, and workers that are threads of the test."""

import pytest

from mirrax.cluster.coordinator.process import Coordinator
from mirrax.cluster.job_options import JobOptions
from mirrax.cluster.membership import Membership, Worker
from mirrax.cluster.net.handshake import derive_key
from mirrax.cluster.worker import heartbeat
from mirrax.cluster.worker.coordinator_client import connect
from mirrax.cluster.worker.job import Job
from mirrax.testing import run_in_processes as run_in_processes

KEY = derive_key("", "token", "")


class Cluster:
    """Workers of a job in this process, without JAX between them."""

    def __init__(self, num_workers, job_silence=30.0, **options):
        settings = JobOptions(**{"join_timeout": 120.0, **options})
        self.workers = tuple(
            Worker("worker", index, f"127.0.0.1:{1000 + index}")
            for index in range(num_workers)
        )
        self.coordinator = Coordinator(
            host="127.0.0.1", port=0, key=KEY, workers=self.workers, options=settings
        )
        self.address = f"127.0.0.1:{self.coordinator.port}"
        self.jobs = []
        self.job_silence = job_silence

    def body(self, index, role="worker"):
        return {
            "role": role,
            "worker": index,
            "pid": 100 + index,
            "hostname": f"machine{index}",
            "configuration": {},
        }

    def connect(self, index, key=KEY, timeout=120.0, **fields):
        return connect(self.address, key, {**self.body(index), **fields}, timeout)

    def join(self, index, stuck_timeout=None):
        membership = Membership(self.workers, index)
        job = Job(membership, self.connect(index), stuck_timeout, self.job_silence)
        self.jobs.append(job)
        return job

    def start(self, stuck_timeout=None):
        for index in range(len(self.workers)):
            self.join(index, stuck_timeout)
        for job in self.jobs:
            job.wait_for_start()
        return self.jobs

    def close(self):
        for job in self.jobs:
            job.leave()
        self.coordinator.stop()


@pytest.fixture
def make_cluster(monkeypatch):
    """Makes clusters, and takes them down after the test."""
    # A worker that misses a failure for so long ends its process: this one.
    monkeypatch.setattr(heartbeat, "_UNBLOCK_SECONDS", 240.0)
    clusters = []

    def make(num_workers, **options):
        clusters.append(Cluster(num_workers, **options))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()
