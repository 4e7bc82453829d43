"""Parser of TF_CONFIG that names the first invalid field.

The raw format:

    {"cluster": {"worker": ["host1:port", "host2:port"], "ps": ["host3:port"]},
     "task": {"type": "worker", "index": 0}}
"""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any, NoReturn

from mirrax.cluster.membership import CHIEFS, NON_TRAINING_JOBS, WORKER, split_address

VARIABLE = "TF_CONFIG"
JOBS = (*CHIEFS, WORKER, *NON_TRAINING_JOBS)


@dataclasses.dataclass(frozen=True)
class TFConfig:
    """A parsed TF_CONFIG; empty if there is none."""

    cluster: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment: str = ""


@functools.lru_cache(maxsize=8)
def parse(text: str) -> TFConfig:
    """Parses a TF_CONFIG; a ValueError names the first invalid field and the fix.

    >>> parse('{"cluster": {"worker": ["a:1"]}}').cluster
    {'worker': ['a:1']}
    """
    if not text.strip():
        return TFConfig()
    fields = _load(text)
    _check_kind("", fields, dict, "an object", '{"cluster": {...}, "task": {...}}')
    if not fields:
        return TFConfig()
    cluster = _read_cluster(fields)
    task_type, task_id = _read_task(fields, cluster)
    return TFConfig(
        cluster=cluster,
        task_type=task_type,
        task_id=task_id,
        rpc_layer=_read_text(fields, "rpc_layer"),
        environment=_read_text(fields, "environment") or "",
    )


def _load(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_reject_repeated_names)
    except (json.JSONDecodeError, RecursionError) as error:
        _raise_error(
            "",
            text,
            f"is JSON, and this is not: {error}",
            "Write it with json.dumps; names and strings have double quotes.",
        )


def _reject_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            _raise_error(name, dict(pairs)[name], "is given once", "Leave one of them.")
    return dict(pairs)


def _read_cluster(fields: dict[str, Any]) -> dict[str, list[str]]:
    if "cluster" not in fields:
        _raise_error(
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
    cluster = {job: _as_list(addresses) for job, addresses in cluster.items()}
    for job, addresses in cluster.items():
        _check_job(job, addresses)
    if not any(job in cluster for job in (*CHIEFS, WORKER)):
        _raise_error(
            "cluster", cluster, "has a worker", "Add 'worker': ['host:port', ...]."
        )
    chiefs = [job for job in CHIEFS if job in cluster]
    if sum(len(cluster[job]) for job in chiefs) > 1:
        _raise_error(
            f"cluster.{chiefs[-1]}",
            {job: cluster[job] for job in chiefs},
            "names one process, there is one chief",
            "Move the others to 'worker'.",
        )
    _check_distinct(cluster)
    return dict(cluster)


def _as_list(addresses: Any) -> Any:
    """Returns {"0": a, "1": b} as [a, b], and anything else as it is."""
    if not isinstance(addresses, dict) or not addresses:
        return addresses
    indices = [str(index) for index in range(len(addresses))]
    is_complete = set(indices) == set(addresses)
    return [addresses[index] for index in indices] if is_complete else addresses


def _check_job(job: str, addresses: Any) -> None:
    if job not in JOBS:
        _raise_error(
            f"cluster.{job}",
            addresses,
            f"is one of {', '.join(JOBS)}",
            "Correct the name of the job.",
        )
    field = f"cluster.{job}"
    _check_kind(field, addresses, list, "a list", "['host:port', ...]")
    if not addresses and job not in NON_TRAINING_JOBS:
        _raise_error(
            field, addresses, "has an address", "Add one, or leave the job out."
        )
    for index, address in enumerate(addresses):
        _check_kind(f"{field}[{index}]", address, str, "a string", "'host:port'")
        try:
            split_address(address)
        except ValueError:
            _raise_error(
                f"{field}[{index}]",
                address,
                "is 'host:port' with a port from 1 to 65535 and nothing else",
                "Use a form such as 'worker-0.example:2222'.",
            )


def _check_distinct(cluster: dict[str, list[str]]) -> None:
    seen: dict[str, str] = {}
    for job, addresses in cluster.items():
        for index, address in enumerate(addresses):
            field = f"cluster.{job}[{index}]"
            if address in seen:
                _raise_error(
                    field,
                    address,
                    f"differs from {seen[address]}",
                    "Give each process an address of its own.",
                )
            seen[address] = field


def _read_task(
    fields: dict[str, Any], cluster: dict[str, list[str]]
) -> tuple[str | None, int | None]:
    if "task" not in fields:
        return None, None
    task = fields["task"]
    _check_kind("task", task, dict, "an object", "{'type': 'worker', 'index': 0}")
    for name in ("type", "index"):
        if name not in task:
            _raise_error(
                f"task.{name}", task, "is given", "Use {'type': 'worker', 'index': 0}."
            )
    kind, index = task["type"], task["index"]
    _check_kind("task.type", kind, str, "a string", "'worker'")
    # An evaluator is not part of the cluster and need not be listed.
    if kind not in cluster and kind != "evaluator":
        _raise_error(
            "task.type",
            kind,
            f"is a job of the cluster, which has {', '.join(cluster) or 'none'}",
            "Correct one of the two.",
        )
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        _raise_error("task.index", index, "is a whole number from 0", "Use 0, 1, ...")
    if kind in cluster and index >= len(cluster[kind]):
        _raise_error(
            "task.index",
            index,
            f"is below {len(cluster[kind])}, the number of addresses in cluster.{kind}",
            "Count from 0, or add the missing address.",
        )
    return kind, index


def _read_text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None:
        _check_kind(name, value, str, "a string", "a string, or leave it out")
    return value


def _check_kind(field: str, value: Any, kind: type, rule: str, example: str) -> None:
    if not isinstance(value, kind):
        _raise_error(field, value, f"is {rule}", f"Use {example}.")


def _raise_error(field: str, value: Any, rule: str, fix: str) -> NoReturn:
    name = f"{VARIABLE}: `{field}`" if field else VARIABLE
    shown = repr(value)
    if len(shown) > 200:
        shown = f"{shown[:200]}..."
    raise ValueError(f"{name} {rule}. Received: {shown}. {fix}")
