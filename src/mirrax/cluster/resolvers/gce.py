"""Cluster resolver for instance groups of Google Compute Engine."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.resolvers.base import ClusterResolver, import_client


class GCEClusterResolver(ClusterResolver):
    """Resolves the machines of an instance group of Google Compute Engine.

    Args:
        project: The name of the project.
        zone: The zone of the instance group.
        instance_group: The name of the instance group.
        port: The port of every worker.
        task_type: The job of the machines.
        task_id: The index of this process; each machine needs its own.
        rpc_layer: The protocol prefix of addresses.
        credentials: The credentials; "default" for those of this machine.
        service: A Compute Engine service of the package google-api-python-client.
    """

    def __init__(
        self,
        project: str,
        zone: str,
        instance_group: str,
        port: int,
        task_type: str = "worker",
        task_id: int = 0,
        rpc_layer: str | None = "grpc",
        credentials: Any = "default",
        service: Any = None,
    ) -> None:
        self._project = project
        self._zone = zone
        self._instance_group = instance_group
        self._port = port
        self._task_type = task_type
        self._task_id = task_id
        self._service = service or _make_service(credentials)
        self.rpc_layer = rpc_layer

    @override
    def cluster_spec(self) -> ClusterSpec:
        groups = self._service.instanceGroups()
        request = groups.listInstances(
            project=self._project,
            zone=self._zone,
            instanceGroups=self._instance_group,
            body={"instanceState": "RUNNING"},
            orderBy="name",
        )
        addresses = []
        while request is not None:
            response = request.execute()
            for item in response.get("items", []):
                ip = self._find_ip(item["instance"].rpartition("/")[2])
                addresses.append(f"{ip}:{self._port}")
            request = groups.listInstances_next(
                previous_request=request, previous_response=response
            )
        return ClusterSpec({str(self._task_type): sorted(addresses)})

    @property
    def task_type(self) -> str | None:
        """The job of the machines."""
        return self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        raise RuntimeError(
            "You cannot reset the task_type of the GCEClusterResolver after it has "
            f"been created. Received: {task_type!r}. Pass it to the constructor."
        )

    def _find_ip(self, instance: str) -> str:
        request = self._service.instances().get(
            project=self._project, zone=self._zone, instance=instance
        )
        return str(request.execute()["networkInterfaces"][0]["networkIP"])


def _make_service(credentials: Any) -> Any:
    modules = "googleapiclient.discovery", "google.auth"
    discovery, auth = import_client("google-api-python-client", modules)
    if credentials == "default":
        credentials, _ = auth.default()
    return discovery.build("compute", "v1", credentials=credentials)
