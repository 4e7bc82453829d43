"""Facts that workers exchange and compare before they compute together.

Every worker runs the same program on its own data. What such a program assumes, such as
equal shapes, is compared first; otherwise workers would hang, or add up values that do
not correspond.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax._jax.traces import evaluated
from mirrax.devices.peers import exchange_json
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch
from mirrax.values.array_like import is_prng_key, on_host
from mirrax.values.layouts import Layout, Parts, ShapeDtype


def shape_dtype_of(array: Any) -> ShapeDtype:
    """Returns shape and dtype of an array."""
    return tuple(array.shape), _name_of(array.dtype)


# Cached, because NumPy builds the name on each call.
_name_of = functools.cache(str)


def with_shapes(
    topology: Topology, layouts: Sequence[Layout], topic: str = "shapes"
) -> list[Layout]:
    """Returns layouts with the shapes and dtypes of the parts on all workers."""
    unknown = [x for x in layouts if isinstance(x, Parts) and x.shapes is None]
    if topology.is_local or not unknown:
        return list(layouts)
    own = [[shape_dtype_of(part) for part in layout.parts] for layout in unknown]
    kinds = iter(merge_shapes(exchange(topology, topic, own)))
    return [
        Parts(layout.parts, topology, next(kinds))
        if isinstance(layout, Parts) and layout.shapes is None
        else layout
        for layout in layouts
    ]


def merge_shapes(answers: Sequence[Sequence[Any]]) -> list[tuple[ShapeDtype, ...]]:
    """Returns for each value its shapes and dtypes on all replicas."""
    if any(len(answer) != len(answers[0]) for answer in answers):
        raise ProgramMismatch(
            "All workers must combine the same number of values. Received: "
            f"{[len(answer) for answer in answers]} value(s), in the order of the "
            "workers. Give `reduce` the same structure on all."
        )
    return [
        tuple((tuple(shape), dtype) for worker in column for shape, dtype in worker)
        for column in zip(*answers, strict=True)
    ]


def exchange(topology: Topology, topic: str, value: Any) -> list[Any]:
    """Returns the JSON value of each worker about `topic`, in the order of workers."""
    assert topology.job is not None
    return exchange_json(topology.job, topic, value)


def from_first(topology: Topology, topic: str, value: Any) -> Any:
    """Returns the first worker's value, on all workers."""
    if topology.is_local:
        return value
    assert topology.job is not None
    array = on_host(value)
    header = f"{topic} {array.dtype}{list(array.shape)}"
    own = array.tobytes() if topology.worker_index == 0 else b""
    sent = topology.job.exchange(header, own)[0]
    made = np.frombuffer(sent, array.dtype).reshape(array.shape)
    return from_host(value, made)


def differing(topology: Topology, topic: str, values: Sequence[Any]) -> list[bool]:
    """Returns which values differ between workers."""
    if topology.is_local or not values:
        return [False] * len(values)
    are_equal = equal_on_all(topology, topic, [[value] for value in values])
    return [not is_equal for is_equal in are_equal]


def equal_on_all(
    topology: Topology, topic: str, values: Sequence[Sequence[Any]]
) -> list[bool]:
    """Returns which values have only equal parts, on all workers."""
    own = [[digest(part) for part in parts] for parts in values]
    is_local = topology.is_local or not own
    answers = [own] if is_local else exchange(topology, topic, own)
    columns = zip(*answers, strict=True)
    return [len(set(itertools.chain(*column))) == 1 for column in columns]


def require_equal(topology: Topology, variable: Any, value: Any) -> None:
    """Raises if workers would assign different values to a variable."""
    if any(differing(topology, f"assign {variable.shared_name}", [value])):
        raise ValueError(
            f"Variable '{variable.name}' is shared by all workers, so each must "
            f"assign the same value. Received: {on_host(value)} on worker "
            f"{topology.worker_index}, and another value elsewhere. Combine the "
            "values first (`strategy.reduce`), or assign inside `strategy.run` with an "
            "`aggregation`."
        )


def digest(value: Any) -> str:
    """Returns a digest that equal values share."""
    array = on_host(value)
    total = hashlib.blake2b(f"{array.dtype}{array.shape}".encode(), digest_size=16)
    total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def from_host(value: Any, made: np.ndarray[Any, Any]) -> Any:
    """Undoes `on_host`: returns `made` as random keys if `value` holds keys."""
    if isinstance(value, jax.Array) and is_prng_key(value):
        impl = jax.random.key_impl(value)
        with evaluated():
            return jax.random.wrap_key_data(jnp.asarray(made), impl=impl)
    return made
