"""Auto-sharding: rewrites a dataset's plan to one worker's shard."""

from __future__ import annotations

import dataclasses

from mirrax.data.dataset_options import AutoShardPolicy
from mirrax.data.nodes.caching import Cache, CachedColumns
from mirrax.data.nodes.combining import Choose
from mirrax.data.nodes.files import FileNode
from mirrax.data.nodes.interleaving import Interleave
from mirrax.data.nodes.slicing import HintedShard, Shard
from mirrax.data.nodes.sources import Range
from mirrax.data.plan.node import INFINITE, Node, replace_inputs


def resolve_policy(plan: Node, policy: AutoShardPolicy) -> AutoShardPolicy:
    """Resolves AUTO: FILE if all elements come from files, else DATA."""
    if policy is not AutoShardPolicy.AUTO:
        return policy
    return AutoShardPolicy.FILE if _reads_only_files(plan) else AutoShardPolicy.DATA


def auto_shard(
    plan: Node, policy: AutoShardPolicy, num_workers: int, index: int
) -> Node:
    """Returns the plan for worker `index`.

    With FILE, each worker reads some of the files; with HINT, what `shard` leaves.
    Otherwise each reads everything: with DATA it then takes its rows of every batch.
    """
    if policy is AutoShardPolicy.HINT:
        return _fill_hints(plan, num_workers, index)
    if num_workers == 1 or resolve_policy(plan, policy) is not AutoShardPolicy.FILE:
        return plan
    if not reads_files(plan):
        raise _no_files_error(plan)
    return _shard_files(plan, num_workers, index)


def reads_files(plan: Node) -> bool:
    """Returns whether a plan reads files, directly or through `interleave`."""
    if isinstance(plan, FileNode):
        return True
    inner = plan.first() if isinstance(plan, Interleave) else None
    nodes = plan.inputs if inner is None else (*plan.inputs, inner)
    return any(reads_files(node) for node in nodes)


def _reads_only_files(plan: Node) -> bool:
    """Returns whether nothing but files would be read twice if workers share them."""
    if not plan.inputs or isinstance(plan, Interleave):
        return reads_files(plan)
    return all(
        _reads_only_files(node) for node in plan.inputs if node is not _choices(plan)
    )


def _choices(plan: Node) -> Node | None:
    """Returns the input that only says which of the others comes next."""
    return plan.choices if isinstance(plan, Choose) else None


def _shard_files(plan: Node, num_workers: int, index: int) -> Node:
    if isinstance(plan, FileNode):
        _require_enough(len(plan.files), num_workers)
        return dataclasses.replace(plan, files=plan.files[index::num_workers])
    if isinstance(plan, Interleave) and not reads_files(plan.source):
        _require_enough(plan.source.cardinality, num_workers)
        return dataclasses.replace(plan, source=Shard(plan.source, num_workers, index))
    if isinstance(plan, Range) and plan.cardinality == INFINITE:
        # Each worker enumerates its own elements.
        return plan
    if not plan.inputs:
        raise _no_files_error(plan)
    # All workers make the same choices, each from its own files.
    choices = _choices(plan)
    own = replace_inputs(
        plan,
        lambda node: (
            node if node is choices else _shard_files(node, num_workers, index)
        ),
    )
    return _with_own_cache(own, num_workers, index)


def _fill_hints(plan: Node, num_workers: int, index: int) -> Node:
    if isinstance(plan, HintedShard):
        return Shard(plan.source, num_workers, index)
    own = replace_inputs(plan, lambda node: _fill_hints(node, num_workers, index))
    if own.inputs == plan.inputs:
        return plan
    return _with_own_cache(own, num_workers, index)


def _with_own_cache(node: Node, num_workers: int, index: int) -> Node:
    """Returns a node that, if it is a cache, holds the shard of one worker."""
    if not isinstance(node, Cache):
        return node
    file = node.file and f"{node.file}.{index}-of-{num_workers}"
    return dataclasses.replace(node, file=file, memory=CachedColumns())


def _require_enough(num_files: int, num_workers: int) -> None:
    if 0 <= num_files < num_workers:
        raise ValueError(
            "Sharding by files needs at least one file for each worker. Received: "
            f"{num_files} file(s) for {num_workers} workers. Use AutoShardPolicy.DATA "
            "or OFF, or write more files."
        )


def _no_files_error(plan: Node) -> ValueError:
    return ValueError(
        "Sharding by files needs a dataset that reads files, and nothing else. "
        f"Received: a plan with something else:\n{plan.explain()}\nUse "
        "AutoShardPolicy.DATA."
    )
