"""Cluster resolver for the pods of a Kubernetes job."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.resolvers.base import ClusterResolver, import_client


class KubernetesExecutableLocation(enum.Enum):
    """Where the program that queries Kubernetes runs."""

    WITHIN_CLUSTER = 0
    OFF_CLUSTER = 1


class KubernetesClusterResolver(ClusterResolver):
    """Resolves the addresses of running Kubernetes pods.

    It cannot tell which pod this process is: set `task_type` and `task_id`.

    Args:
        job_to_label_mapping: The label selectors of each job's pods.
        tf_server_port: The port of every worker.
        rpc_layer: The protocol prefix of addresses.
        override_client: A configured client of the package kubernetes.
        executable_location: Where this program runs.
    """

    def __init__(
        self,
        job_to_label_mapping: Mapping[str, Sequence[str]] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str | None = "grpc",
        override_client: Any = None,
        executable_location: KubernetesExecutableLocation = (
            KubernetesExecutableLocation.WITHIN_CLUSTER
        ),
    ) -> None:
        self._labels = job_to_label_mapping or {"worker": ["job-name=tensorflow"]}
        self._port = tf_server_port
        self._client = override_client or _make_client(executable_location)
        self.rpc_layer = rpc_layer

    @override
    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec(
            {
                job: [
                    f"{_find_address(pod)}:{self._port}"
                    for selector in selectors
                    for pod in self._list_pods(selector)
                ]
                for job, selectors in self._labels.items()
            }
        )

    def _list_pods(self, selector: str) -> list[Any]:
        answer = self._client.list_pod_for_all_namespaces(label_selector=selector)
        # Sorted, so that all workers see the same order.
        return sorted(answer.items, key=lambda pod: str(pod.metadata.name))


def _find_address(pod: Any) -> str:
    if pod.status.phase != "Running":
        raise RuntimeError(
            f'Pod "{pod.metadata.name}" is not running; phase: "{pod.status.phase}". '
            "Start the workers when all pods run, or wait and ask again."
        )
    # The machine's address, TensorFlow's choice, reaches a pod only if it uses the
    # network of the machine; its own address is then the same.
    address = pod.status.pod_ip
    return address if isinstance(address, str) else str(pod.status.host_ip)


def _make_client(location: KubernetesExecutableLocation) -> Any:
    if not isinstance(location, KubernetesExecutableLocation):
        raise ValueError(
            "`executable_location` is WITHIN_CLUSTER or OFF_CLUSTER of "
            f"KubernetesExecutableLocation. Received: {location!r}."
        )
    modules = "kubernetes.config", "kubernetes.client"
    config, client = import_client("kubernetes", modules)
    if location is KubernetesExecutableLocation.OFF_CLUSTER:
        config.load_kube_config()
    else:
        config.load_incluster_config()
    return client.CoreV1Api()
