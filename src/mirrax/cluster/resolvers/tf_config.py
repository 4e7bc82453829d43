"""Cluster resolver for the environment variable TF_CONFIG.

The raw format:

    {"cluster": {"worker": ["host1:port", "host2:port"], "ps": ["host3:port"]},
     "task": {"type": "worker", "index": 0}}

Addresses may also be numbered, {"0": "host1:port", "3": "host2:port"}.
Errors name the first invalid field.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import reprlib
from typing import Any

from typing_extensions import override

from mirrax.cluster.cluster_spec import ClusterSpec
from mirrax.cluster.membership import CHIEFS, WORKER, split_address
from mirrax.cluster.resolvers.base import ClusterResolver
from mirrax.errors import ConfigurationError

VARIABLE = "TF_CONFIG"
_TEXTS = ("rpc_layer", "environment", "session_master")
# Shows what was received, however long or deeply nested.
_SHORT = reprlib.Repr()
_SHORT.maxdict = _SHORT.maxlist = 20
_SHORT.maxstring = _SHORT.maxlong = 300


class TFConfigClusterResolver(ClusterResolver):
    """Reads the cluster from TF_CONFIG, anew at each call.

    Args:
        task_type: In place of the type in TF_CONFIG.
        task_id: In place of the index in TF_CONFIG.
        rpc_layer: In place of that of TF_CONFIG.
        environment: In place of that of TF_CONFIG.

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

    @override
    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """Returns `session_master` of TF_CONFIG, else the address of a task.

        By default the task is this process; "" if it is alone in the cluster. Raises
        if the task is unknown.
        """
        config = _read()
        if config.session_master is not None:
            return config.session_master
        if sum(map(len, config.cluster.values())) <= 1:
            return ""
        task_type = self.task_type if task_type is None else task_type
        task_id = self.task_id if task_id is None else task_id
        if task_type is None or task_id is None:
            raise ConfigurationError(
                "The address of a task needs its type and index. Received: "
                f"task_type={task_type!r}, task_id={task_id!r}, and a TF_CONFIG "
                "without `task`. Pass both, or add `task` to TF_CONFIG."
            )
        return super().master(task_type, task_id, rpc_layer)

    @override
    def _default_task(self) -> tuple[str | None, int | None]:
        config = _read()
        return config.task_type, config.task_id

    @property
    def rpc_layer(self) -> str | None:
        """The protocol prefix of addresses."""
        return _read().rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    @property
    @override
    def environment(self) -> str | None:
        return _read().environment if self._environment is None else self._environment


@dataclasses.dataclass(frozen=True)
class TFConfig:
    """A parsed TF_CONFIG; empty if there is none."""

    cluster: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)
    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment: str | None = None
    session_master: str | None = None


@functools.lru_cache(maxsize=8)
def parse(text: str) -> TFConfig:
    """Parses a TF_CONFIG; a ValueError names the first invalid field and the fix.

    >>> parse('{"cluster": {"worker": ["a:1"]}}').cluster
    {'worker': {0: 'a:1'}}
    """
    if not text.strip():
        return TFConfig()
    try:
        fields = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        rule = f"is JSON, and this is not: {error}"
        fix = "Write it with json.dumps; names and strings have double quotes."
        raise _make_error("", text, rule, fix) from None
    _check_kind("", fields, dict, "an object", '{"cluster": {...}, "task": {...}}')
    if not fields:
        return TFConfig()
    cluster = _read_cluster(fields)
    task = _read_task(fields, cluster)
    texts = {name: fields[name] for name in _TEXTS if fields.get(name) is not None}
    for name, value in texts.items():
        _check_kind(name, value, str, "a string", "a string, or leave it out")
    return TFConfig(cluster, *task, **texts)


def _read() -> TFConfig:
    return parse(os.environ.get(VARIABLE, ""))


def _read_cluster(fields: dict[str, Any]) -> dict[str, dict[int, str]]:
    _require(
        "cluster" in fields,
        "cluster",
        sorted(fields),
        "is given, or the process would train alone",
        "Name all workers: {'worker': ['host:port', ...]}. Without TF_CONFIG the "
        "process trains alone.",
    )
    cluster = fields["cluster"]
    _check_kind("cluster", cluster, dict, "an object", "{'worker': ['host:port']}")
    if not cluster and "task" not in fields:
        return {}
    cluster = {job: _read_addresses(job, cluster[job]) for job in cluster}
    fix = "Add 'worker': ['host:port', ...]."
    has_worker = any(job in cluster for job in (*CHIEFS, WORKER))
    _require(has_worker, "cluster", cluster, "has a worker", fix)
    chiefs = {job: cluster[job] for job in CHIEFS if job in cluster}
    _require(
        sum(map(len, chiefs.values())) <= 1,
        f"cluster.{next(reversed(chiefs), '')}",
        chiefs,
        "names one process, there is one chief",
        "Move the others to 'worker'.",
    )
    seen: dict[str, str] = {}
    for job, addresses in cluster.items():
        for index, address in addresses.items():
            field = f"cluster.{job}[{index}]"
            rule = f"differs from {seen.get(address)}"
            fix = "Give each process an address of its own."
            _require(address not in seen, field, address, rule, fix)
            seen[address] = field
    return cluster


def _read_addresses(job: str, addresses: Any) -> dict[int, str]:
    field = f"cluster.{job}"
    if isinstance(addresses, dict) and all(
        name.isdecimal() and len(name) < 10 for name in addresses
    ):
        numbered = {int(index): addresses[index] for index in addresses}
    else:
        _check_kind(field, addresses, list, "a list", "['host:port', ...]")
        numbered = dict(enumerate(addresses))
    has_address = bool(numbered) or job not in (*CHIEFS, WORKER)
    fix = "Add one, or leave the job out."
    _require(has_address, field, addresses, "has an address", fix)
    for index, address in numbered.items():
        _check_kind(f"{field}[{index}]", address, str, "a string", "'host:port'")
        try:
            split_address(address)
        except ValueError:
            rule = "is 'host:port' with a port from 1 to 65535 and nothing else"
            fix = "Use a form such as 'worker-0.example:2222'."
            raise _make_error(f"{field}[{index}]", address, rule, fix) from None
    return dict(sorted(numbered.items()))


def _read_task(
    fields: dict[str, Any], cluster: dict[str, dict[int, str]]
) -> tuple[str | None, int | None]:
    if "task" not in fields:
        return None, None
    task = fields["task"]
    example = "{'type': 'worker', 'index': 0}"
    _check_kind("task", task, dict, "an object", example)
    for name in ("type", "index"):
        _require(name in task, f"task.{name}", task, "is given", f"Use {example}.")
    kind, index = task["type"], task["index"]
    _check_kind("task.type", kind, str, "a string", "'worker'")
    _require(
        # An evaluator is not part of the cluster and need not be listed.
        kind in cluster or kind == "evaluator",
        "task.type",
        kind,
        f"is a job of the cluster, which has {', '.join(cluster) or 'none'}",
        "Correct one of the two.",
    )
    if isinstance(index, str) and index.isdecimal() and len(index) < 10:
        index = int(index)
    is_index = isinstance(index, int) and not isinstance(index, bool) and index >= 0
    rule = "is a whole number from 0"
    _require(is_index, "task.index", index, rule, "Use 0, 1, ...")
    known = cluster.get(kind, {index: ""})
    rule = f"is one of {sorted(known)}, the addresses in cluster.{kind}"
    fix = "Count from 0, or add the missing address."
    _require(index in known, "task.index", index, rule, fix)
    return kind, index


def _check_kind(field: str, value: Any, kind: type, rule: str, example: str) -> None:
    _require(isinstance(value, kind), field, value, f"is {rule}", f"Use {example}.")


def _require(is_met: bool, field: str, value: Any, rule: str, fix: str) -> None:
    if not is_met:
        raise _make_error(field, value, rule, fix)


def _make_error(field: str, value: Any, rule: str, fix: str) -> ConfigurationError:
    name = f"{VARIABLE}: `{field}`" if field else VARIABLE
    shown = _SHORT.repr(value)
    if len(shown) > 200:
        shown = f"{shown[:200]}..."
    return ConfigurationError(f"{name} {rule}. Received: {shown}. {fix}")
