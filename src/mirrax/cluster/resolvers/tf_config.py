"""Cluster resolver for the environment variable TF_CONFIG."""

from __future__ import annotations

import os

from typing_extensions import override

from mirrax.cluster import tf_config_parser
from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.resolvers.base import ClusterResolver


class TFConfigClusterResolver(ClusterResolver):
    """Reads the cluster from TF_CONFIG, anew at each call.

    Args:
        task_type, task_id, rpc_layer, environment: Override those of TF_CONFIG.

    >>> TFConfigClusterResolver().cluster_spec()
    ClusterSpec({})
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._environment = environment

    @override
    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec(_read().cluster)

    @property
    def task_type(self) -> str | None:
        """The job of this process."""
        return _read().task_type if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """The index of this process in its job."""
        return _read().task_id if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        """The protocol prefix of addresses."""
        return _read().rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    @property
    @override
    def environment(self) -> str:
        return _read().environment if self._environment is None else self._environment


def _read() -> tf_config_parser.TFConfig:
    return tf_config_parser.parse(os.environ.get(tf_config_parser.VARIABLE, ""))
