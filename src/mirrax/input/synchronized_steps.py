"""Steps that all workers take together; those without data get empty batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mirrax import trees
from mirrax.devices.peers import Peers, exchange_json
from mirrax.input.batch_digest import BatchLog
from mirrax.input.prefetched_steps import Step
from mirrax.trees import Tree
from mirrax.values.layouts import Parts, ShapeDtype
from mirrax.values.per_replica import PerReplica
from mirrax.values.tensor_spec import TensorSpec

Synchronize = Callable[[Step | None], Step | None]
"""Returns this worker's next step, given what it read; None at the end of all."""


def log_batch(log: BatchLog, step: Step | None) -> Step | None:
    """Logs the batch that all workers read, to be compared now and then."""
    if step is not None and step.digest is not None:
        log.append(step.digest)
    return step


class StepSynchronizer:
    """Gives workers without data empty batches until all are done.

    At each step the workers exchange the shapes of their parts.
    """

    def __init__(self, peers: Peers, make_empty: Callable[[], Tree]) -> None:
        self._peers = peers
        self._make_empty = make_empty

    def __call__(self, step: Step | None) -> Step | None:
        """Returns this worker's next step; None when all workers have ended."""
        own = None if step is None else _kinds(step.element)
        answers = exchange_json(self._peers, "the next step of a dataset", own)
        if all(answer is None for answer in answers):
            return None
        if None in answers:
            empty = self._make_empty()
            answers = [_kinds(empty) if a is None else a for a in answers]
            step = Step(empty) if step is None else step
        assert step is not None
        columns = zip(*answers, strict=True)
        for leaf, column in zip(_distributed(step.element), columns, strict=True):
            kinds = tuple(
                (tuple(shape), dtype) for own in column for shape, dtype in own
            )
            assert isinstance(leaf.layout, Parts)
            leaf.layout = dataclasses.replace(leaf.layout, shapes=kinds)
        return step


def empty_parts(spec: Tree, count: int) -> list[Tree]:
    """Returns empty batches, for the replicas of a worker without data."""
    return [jax.tree.map(_no_rows, spec)] * count


def _no_rows(spec: TensorSpec) -> Any:
    if not spec.shape:
        raise ValueError(
            "A worker without data gets empty batches, so elements must be batches of "
            f"known rank. Received: {spec}. Call `batch`, or give an output signature."
        )
    return np.zeros((0, *(size or 0 for size in spec.shape[1:])), spec.dtype)


def _kinds(element: Tree) -> list[list[ShapeDtype]]:
    return [[_kind(part) for part in leaf.values] for leaf in _distributed(element)]


def _kind(part: Any) -> ShapeDtype:
    part = part if hasattr(part, "dtype") else np.asarray(part, object)
    return tuple(part.shape), str(part.dtype)


def _distributed(element: Tree) -> list[PerReplica]:
    return [leaf for leaf in trees.leaves(element) if isinstance(leaf, PerReplica)]
