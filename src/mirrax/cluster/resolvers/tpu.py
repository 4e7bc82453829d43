"""Cluster resolver for the machines of a Cloud TPU."""

from __future__ import annotations

import os

from typing_extensions import override

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.devices.physical_devices import count_physical_devices

_PORT = 8470


class TPUClusterResolver(ClusterResolver):
    """Resolves the machines that share a Cloud TPU.

    JAX runs one process on each machine of the TPU. TPU_WORKER_HOSTNAMES lists them,
    and TPU_WORKER_ID is the index of this one; without them there is one machine.

    Args:
        tpu: "local" or None.
        zone: Ignored.
        project: Ignored.
        job_name: The job of the machines.
        coordinator_name: An additional job with one task.
        coordinator_address: The address of that task.

    >>> TPUClusterResolver("local").cluster_spec()
    ClusterSpec({})
    """

    def __init__(
        self,
        tpu: str | None = None,
        zone: str | None = None,
        project: str | None = None,
        job_name: str = "worker",
        coordinator_name: str | None = None,
        coordinator_address: str | None = None,
    ) -> None:
        del zone, project
        if tpu not in (None, "", "local"):
            raise ValueError(
                "JAX uses a TPU from the machines that it is attached to, not over the "
                f"network. Received: tpu={tpu!r}. Run the script on every machine of "
                "the TPU, with tpu='local'."
            )
        hosts = os.environ.get("TPU_WORKER_HOSTNAMES", "")
        self._hosts = [host.strip() for host in hosts.split(",") if host.strip()]
        self._coordinator = (coordinator_name, coordinator_address)
        self._task_type = job_name
        self.rpc_layer = "grpc"
        self._task_id = int(os.environ.get("TPU_WORKER_ID") or 0)

    @staticmethod
    def connect(
        tpu: str | None = None, zone: str | None = None, project: str | None = None
    ) -> TPUClusterResolver:
        """Returns a resolver; JAX needs no connection step."""
        return TPUClusterResolver(tpu, zone, project)

    @override
    def cluster_spec(self) -> ClusterSpec:
        if len(self._hosts) <= 1:
            return ClusterSpec({})
        cluster = {str(self._task_type): [f"{host}:{_PORT}" for host in self._hosts]}
        name, address = self._coordinator
        if name is not None and address is not None:
            cluster[name] = [address]
        return ClusterSpec(cluster)

    @override
    def _find_address(self, task_type: str | None, task_id: int | None) -> str:
        return super()._find_address(task_type, task_id) if self._hosts[1:] else ""

    def get_master(self) -> str:
        """Returns the address of this process."""
        return self.master()

    def get_job_name(self) -> str | None:
        """Returns the job of the machines."""
        return self.task_type

    @override
    def _accelerators(self) -> dict[str, int]:
        return {"TPU": count_physical_devices("TPU")}
