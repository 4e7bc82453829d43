"""What workers tell each other before they compute together.

Every worker runs the same program on its own data. What a program for all of them takes
for granted, such as equal shapes, is compared first: without that, workers would wait
for each other for ever, or add up things that do not belong together.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax._jax.traces import evaluated
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch
from mirrax.values.array_like import is_key, on_host
from mirrax.values.layouts import Kind, Layout, Parts


def kind_of(array: Any) -> Kind:
    """Returns shape and dtype of an array."""
    return tuple(array.shape), _name_of(array.dtype)


# NumPy puts the name together anew each time, which takes longer than the rest.
_name_of = functools.cache(str)


def with_kinds(
    topology: Topology, layouts: Sequence[Layout], topic: str = "shapes"
) -> list[Layout]:
    """Returns layouts that know shape and dtype of the parts on all workers."""
    if topology.is_local:
        return list(layouts)
    unknown = [x for x in layouts if isinstance(x, Parts) and x.kinds is None]
    if not unknown:
        return list(layouts)
    own = [[kind_of(part) for part in layout.held] for layout in unknown]
    kinds = iter(all_kinds(topology, topic, own))
    return [
        Parts(layout.held, topology, next(kinds))
        if isinstance(layout, Parts) and layout.kinds is None
        else layout
        for layout in layouts
    ]


def all_kinds(
    topology: Topology, topic: str, own: Sequence[Sequence[Kind]]
) -> list[tuple[Kind, ...]]:
    """Returns shape and dtype of values on all replicas, from those on this worker."""
    answers = exchange(topology, topic, json.dumps(own))
    return merged_kinds([json.loads(answer) for answer in answers])


def merged_kinds(answers: Sequence[Sequence[Any]]) -> list[tuple[Kind, ...]]:
    """Returns for each value shape and dtype on all replicas, from what workers say."""
    if any(len(answer) != len(answers[0]) for answer in answers):
        raise ProgramMismatch(
            "All workers must combine the same values. Received: "
            f"{[len(answer) for answer in answers]} value(s) on the workers, in order."
        )
    return [
        tuple((tuple(shape), dtype) for worker in column for shape, dtype in worker)
        for column in zip(*answers, strict=True)
    ]


def exchange(topology: Topology, topic: str, text: str) -> list[bytes]:
    """Returns what each worker says about `topic`, in the order of workers."""
    assert topology.job is not None
    return topology.job.exchange(topic, text.encode())


def from_first(topology: Topology, topic: str, value: Any) -> Any:
    """Returns the value of the first worker, on all of them."""
    if topology.is_local:
        return value
    assert topology.job is not None
    array = on_host(value)
    header = f"{topic} {array.dtype}{list(array.shape)}"
    own = array.tobytes() if topology.worker_index == 0 else b""
    sent = topology.job.exchange(header, own)[0]
    made = np.frombuffer(sent, array.dtype).reshape(array.shape)
    return like(value, made)


def differing(topology: Topology, topic: str, values: Sequence[Any]) -> list[bool]:
    """Returns which values are not the same on all workers."""
    if topology.is_local or not values:
        return [False] * len(values)
    own = json.dumps([digest(value) for value in values])
    columns = zip(*map(json.loads, exchange(topology, topic, own)), strict=True)
    return [len(set(column)) > 1 for column in columns]


def require_equal(topology: Topology, variable: Any, value: Any) -> None:
    """Raises if workers would assign different values to a variable."""
    if any(differing(topology, f"assign {variable.role}", [value])):
        raise ValueError(
            f"Variable '{variable.name}' is one for all workers, so each of them must "
            f"assign the same value. Received: {on_host(value)} on worker "
            f"{topology.worker_index}, and something else on others. Combine the "
            "values first (`strategy.reduce`), or assign inside `strategy.run` with an "
            "`aggregation`."
        )


def digest(value: Any) -> str:
    """Returns what two values have in common only if they are equal."""
    array = on_host(value)
    total = hashlib.blake2b(f"{array.dtype}{array.shape}".encode(), digest_size=16)
    total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def like(value: Any, made: np.ndarray[Any, Any]) -> Any:
    """Returns what `on_host` made of `value` as that kind of value again."""
    if isinstance(value, jax.Array) and is_key(value):
        impl = jax.random.key_impl(value)
        with evaluated():
            return jax.random.wrap_key_data(jnp.asarray(made), impl=impl)
    return made
