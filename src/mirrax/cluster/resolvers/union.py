"""Cluster resolver that merges others."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.resolvers.base import ClusterResolver


class UnionResolver(ClusterResolver):
    """Merges the tasks of several resolvers; the first one identifies this process.

    Lists of tasks are concatenated. Dictionaries of tasks keep their indices, which
    must be distinct.

    Args:
        resolvers: One or more resolvers.
        task_type: In place of that of the first resolver.
        task_id: In place of that of the first resolver.
        rpc_layer: In place of that of the first resolver.

    >>> from mirrax.cluster_resolver import SimpleClusterResolver
    >>> a = SimpleClusterResolver(ClusterSpec({"worker": ["a:1"]}), task_type="worker")
    >>> b = SimpleClusterResolver(ClusterSpec({"worker": ["b:1"]}))
    >>> UnionResolver(a, b).cluster_spec().as_dict()
    {'worker': ['a:1', 'b:1']}
    """

    def __init__(
        self,
        *resolvers: ClusterResolver,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not resolvers:
            raise ValueError(
                "At least one ClusterResolver is required. Received: none. "
                "Use UnionResolver(first, second)."
            )
        for resolver in resolvers:
            if not isinstance(resolver, ClusterResolver):
                raise TypeError(
                    "All arguments must be a sub-class of `ClusterResolver`. "
                    f"Received: {resolver!r}."
                )
        first = resolvers[0]
        self._resolvers = resolvers
        self._environment = first.environment
        self._task_type = first.task_type if task_type is None else task_type
        self._task_id = first.task_id if task_id is None else task_id
        self._own_rpc_layer = rpc_layer
        self.rpc_layer = first.rpc_layer if rpc_layer is None else rpc_layer

    @override
    def cluster_spec(self) -> ClusterSpec:
        merged: dict[str, Any] = {}
        for resolver in self._resolvers:
            for job, tasks in resolver.cluster_spec().as_dict().items():
                merged[job] = (
                    _merge(job, merged[job], tasks) if job in merged else tasks
                )
        return ClusterSpec(merged)

    @override
    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        if task_type is None or task_id is None:
            return self._resolvers[0].master(rpc_layer=rpc_layer)
        rpc_layer = rpc_layer or self._own_rpc_layer
        address = self.cluster_spec().task_address(task_type, task_id)
        return f"{rpc_layer}://{address}" if rpc_layer else address

    @override
    def _accelerators(self) -> dict[str, int]:
        return self._resolvers[0].num_accelerators()


Tasks = list[str] | dict[int, str]


def _merge(job: str, first: Tasks, second: Tasks) -> Tasks:
    if isinstance(first, list) and isinstance(second, list):
        return first + second
    numbered, more = (dict(_number(tasks)) for tasks in (first, second))
    clash = sorted(numbered.keys() & more.keys())
    if clash:
        raise KeyError(
            f"The tasks of a job must have different indices. Received: {clash} twice "
            f"in job {job!r}. Renumber them, or use lists."
        )
    return numbered | more


def _number(tasks: Tasks) -> list[tuple[int, str]]:
    return list(tasks.items() if isinstance(tasks, dict) else enumerate(tasks))
