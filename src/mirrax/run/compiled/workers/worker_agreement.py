"""Comparing the programs that workers have traced, before they run.

Programs that differ would wait for each other forever, or add up what does not belong
together.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax._jax.jaxpr_text import describe_lines, find_constants
from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    JaxprEqn,
    Values,
    called_jaxpr,
    evaluate,
    inner_programs,
    read,
    retraced,
    source_of,
)
from mirrax.collectives import worker_exchange
from mirrax.devices.topology import AXIS, Topology
from mirrax.errors import ProgramMismatch
from mirrax.run.compiled.tracing import Traced
from mirrax.values.array_like import on_host


def require_same_program(closed: ClosedJaxpr, topology: Topology) -> str:
    """Raises unless all workers have traced this program; returns a mark of it."""
    constants = [
        (f"constant {worker_exchange.digest(value)}", str(value))
        for _, value in find_constants(closed)
    ]
    return _require_same_lines(topology, [*describe_lines(closed.jaxpr), *constants])


def with_per_replica_constants(traced: Traced, topology: Topology) -> Traced:
    """Returns a replica's trace, made equal on all workers; raises if it cannot be.

    A constant that differs between workers, such as their number, becomes a table in
    which each replica looks its value up.
    """
    if topology.is_local:
        return traced
    _require_same_lines(topology, [*describe_lines(traced.jaxpr)])
    # What the enclosing trace computes is no constant.
    constants = [
        (atom, value)
        for atom, value in find_constants(traced.closed)
        if not isinstance(value, jax.core.Tracer)
    ]
    values = [value for _, value in constants]
    differs = worker_exchange.differing(topology, "constants of a program", values)
    tables = {
        id(atom): _table(topology, value)
        for (atom, value), flag in zip(constants, differs, strict=True)
        if flag
    }
    if not tables:
        return traced

    def read_atom(values: Values, atom: Any) -> Any:
        table = tables.get(id(atom))
        if table is None:
            return read(values, atom)
        return jnp.asarray(table)[lax.axis_index(AXIS)]

    def inline(equation: JaxprEqn, given: list[Any]) -> list[Any] | None:
        inner = itertools.chain.from_iterable(
            find_constants(program) for program in inner_programs(equation)
        )
        if tables.keys().isdisjoint(id(atom) for atom, _ in inner):
            return None
        called = called_jaxpr(equation)
        if called is None:
            raise ProgramMismatch(
                "A constant that differs between workers cannot be used inside a loop "
                f"or a branch. Received: one in {equation.primitive.name} at "
                f"{source_of(equation)}. Pass it as an argument of `strategy.run`."
            )
        return evaluate(called, given, inline, read_atom)

    axis_env = [(AXIS, topology.num_replicas)]
    closed = retraced(traced.closed, inline, axis_env, read_atom)
    return dataclasses.replace(traced, closed=closed)


def _table(topology: Topology, value: Any) -> Any:
    """Returns what each replica has for `value`, stacked."""
    assert topology.job is not None
    array = on_host(value)
    sent = topology.job.exchange("a constant", array.tobytes())
    rows = [np.frombuffer(each, array.dtype).reshape(array.shape) for each in sent]
    table = np.repeat(np.stack(rows), len(topology.local_devices), axis=0)
    return worker_exchange.from_host(value, table)


def _require_same_lines(topology: Topology, lines: list[tuple[str, str]]) -> str:
    total = hashlib.blake2b(digest_size=16)
    for line, _ in lines:
        total.update(line.encode())
    digests = worker_exchange.exchange(topology, "a new program", total.hexdigest())
    if len(set(digests)) == 1:
        return total.hexdigest()[:6]
    assert topology.job is not None
    other = next(i for i, digest in enumerate(digests) if digest != digests[0])
    texts = worker_exchange.exchange(topology, "text of a program", lines)
    pairs = itertools.zip_longest(texts[0], texts[other], fillvalue=("its end", ""))
    (own, own_place), (found, place) = next(p for p in pairs if p[0][0] != p[1][0])
    workers = topology.job.workers
    raise ProgramMismatch(
        "All workers must run the same program. Received: programs that differ, first "
        f"where {workers[0].name} has `{own.strip()}` ({own_place}) and "
        f"{workers[other].name} has `{found.strip()}` ({place}). Only the "
        "values of the data may depend on the worker."
    )
