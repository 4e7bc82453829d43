"""The number of a replica in a program that is for this replica alone.

Such a program runs on one device, where JAX does not know the axis of the replicas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    all_equations,
    bind,
    inner_jaxprs,
    map_programs,
    retraced,
)
from mirrax.devices.topology import AXIS, Topology


def with_replica_number(
    closed: ClosedJaxpr, number: int, topology: Topology
) -> ClosedJaxpr:
    """Returns a program with `number` in place of the index along the replicas."""
    if not _has_index(closed.jaxpr):
        return closed

    def inside(inner: ClosedJaxpr) -> ClosedJaxpr:
        return with_replica_number(inner, number, topology)

    def replaced(eqn: JaxprEqn, inputs: list[Any]) -> list[Any] | None:
        if _is_index(eqn):
            return [np.int32(number)]
        if not any(map(_has_index, inner_jaxprs(eqn))):
            return None
        params = {key: map_programs(value, inside) for key, value in eqn.params.items()}
        return bind(eqn, inputs, params)

    return retraced(closed, replaced, [(AXIS, topology.num_replicas)])


def _has_index(jaxpr: Jaxpr) -> bool:
    return any(map(_is_index, all_equations(jaxpr)))


def _is_index(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "axis_index" and eqn.params["axis_name"] == AXIS
