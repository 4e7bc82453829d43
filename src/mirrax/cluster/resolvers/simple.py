"""Cluster resolver for a given `ClusterSpec`."""

from __future__ import annotations

from typing_extensions import override

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.resolvers.base import ClusterResolver


class SimpleClusterResolver(ClusterResolver):
    """Returns the cluster it was given.

    Args:
        cluster_spec: The tasks of the cluster.
        master: What `master()` returns without arguments.
        task_type: The job of this process.
        task_id: The index of this process in its job.
        environment: The environment, such as "google".
        num_accelerators: The number of accelerators of each worker, by kind.
        rpc_layer: The protocol prefix of addresses.

    >>> spec = ClusterSpec({"worker": ["a:1", "b:1"]})
    >>> SimpleClusterResolver(spec, task_type="worker", task_id=1).task_id
    1
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError(
                "cluster_spec must be a ClusterSpec. "
                f"Received: {cluster_spec!r}. Use ClusterSpec({cluster_spec!r})."
            )
        if not isinstance(master, str):
            raise TypeError(f"master must be a string. Received: {master!r}.")
        self._cluster_spec = cluster_spec
        self._master = master
        self._task_type = task_type
        self._task_id = task_id
        self._environment = environment
        self._num_accelerators = num_accelerators
        self.rpc_layer = rpc_layer

    @override
    def cluster_spec(self) -> ClusterSpec:
        return self._cluster_spec

    @override
    def _find_address(self, task_type: str | None, task_id: int | None) -> str:
        if task_type is None or task_id is None:
            return self._master
        return self._cluster_spec.task_address(task_type, task_id)

    @override
    def _accelerators(self) -> dict[str, int]:
        if self._num_accelerators is None:
            return super()._accelerators()
        return dict(self._num_accelerators)
