"""Comparing the programs that workers have traced, before they run.

Programs that differ would wait for each other for ever, or add up what does not belong
together. A constant may differ, such as the number of the worker: it becomes a table
with the value of each replica, and so the programs are equal again.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mirrax._jax.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Values,
    called_jaxpr,
    evaluate,
    inner_jaxprs,
    inner_programs,
    kind_of,
    read,
    source_of,
    stand_ins,
)
from mirrax.collectives import worker_exchange
from mirrax.devices.topology import AXIS, Topology
from mirrax.errors import ProgramMismatch
from mirrax.run.compiled.tracing import Traced
from mirrax.values.array_like import on_host

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def require_same_program(closed: ClosedJaxpr, topology: Topology) -> str:
    """Raises unless all workers have traced this program; returns a mark of it."""
    constants = [
        (f"constant {worker_exchange.digest(value)}", str(value))
        for _, value in _constants(closed)
    ]
    return _require_same_lines(topology, [*_describe(closed.jaxpr), *constants])


def with_tables(traced: Traced, topology: Topology) -> Traced:
    """Returns what a replica does, the same on all workers.

    Raises if workers have traced different programs.
    """
    if topology.is_local:
        return traced
    _require_same_lines(topology, [*_describe(traced.jaxpr)])
    found = list(_constants(traced.closed))
    values = [value for _, value in found]
    is_own = worker_exchange.differing(topology, "constants of a program", values)
    if not any(is_own):
        return traced
    own = [pair for pair, flag in zip(found, is_own, strict=True) if flag]
    tables = _tables(topology, [value for _, value in own])
    axis_env = [(AXIS, topology.num_replicas)]
    by_atom = {id(atom): table for (atom, _), table in zip(own, tables, strict=True)}

    def looked_up(*inputs: Any) -> list[Any]:
        return _with_look_ups(traced.closed, inputs, by_atom)

    closed = jax.make_jaxpr(looked_up, axis_env=axis_env)(*stand_ins(traced.jaxpr))
    return dataclasses.replace(traced, closed=closed)


_Line = tuple[str, str]
"""A step of a program, and where it comes from."""


def _require_same_lines(topology: Topology, lines: list[_Line]) -> str:
    total = hashlib.blake2b(digest_size=16)
    for line, _ in lines:
        total.update(line.encode())
    digests = worker_exchange.exchange(topology, "a new program", total.hexdigest())
    if len(set(digests)) == 1:
        return total.hexdigest()[:6]
    assert topology.job is not None
    other = next(i for i, digest in enumerate(digests) if digest != digests[0])
    texts = [
        json.loads(text)
        for text in worker_exchange.exchange(
            topology, "text of a program", json.dumps(lines)
        )
    ]
    pairs = itertools.zip_longest(texts[0], texts[other], fillvalue=("its end", ""))
    (own, own_place), (found, place) = next(p for p in pairs if p[0][0] != p[1][0])
    workers = topology.job.workers
    raise ProgramMismatch(
        "All workers must run the same program. Received: programs that differ, first "
        f"where {workers[0].name} has `{own.strip()}` ({own_place}) and "
        f"{workers[other].name} has `{found.strip()}` ({place}). Let nothing in a "
        "program depend on the worker, but for the values of its data."
    )


def _describe(jaxpr: Jaxpr, depth: int = 0) -> Iterator[_Line]:
    """Yields a line for each step of a program, without the values of constants."""
    names: dict[Any, int] = {}

    def name(atom: Any) -> str:
        shape, dtype = kind_of(atom)
        if isinstance(atom, Literal):
            return f"constant:{dtype}{list(shape)}"
        number = names.setdefault(atom, len(names))
        return f"v{number}:{dtype}{list(shape)}"

    indent = "  " * depth
    inputs = [name(var) for var in (*jaxpr.constvars, *jaxpr.invars)]
    yield f"{indent}inputs {inputs}", ""
    for equation in jaxpr.eqns:
        given = " ".join(name(atom) for atom in equation.invars)
        made = " ".join(name(atom) for atom in equation.outvars)
        params = {
            key: value
            for key, value in sorted(equation.params.items())
            if not _is_program(value)
        }
        text = _ADDRESS.sub("", repr(params))
        step = f"{indent}{made} = {equation.primitive.name} {given} {text}"
        yield step, source_of(equation)
        for inner in inner_jaxprs(equation):
            yield from _describe(inner, depth + 1)
    yield f"{indent}outputs {[name(atom) for atom in jaxpr.outvars]}", ""


def _is_program(value: Any) -> bool:
    items = value if isinstance(value, tuple | list) else (value,)
    return any(isinstance(item, ClosedJaxpr | Jaxpr) for item in items)


def _constants(closed: ClosedJaxpr) -> Iterator[tuple[Any, Any]]:
    """Yields what stands for each constant, and its value, in a fixed order."""
    yield from zip(closed.jaxpr.constvars, closed.consts, strict=False)
    for equation in closed.jaxpr.eqns:
        yield from _literals(equation.invars)
        for inner in inner_programs(equation):
            yield from _constants(inner)
    yield from _literals(closed.jaxpr.outvars)


def _literals(atoms: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return ((atom, atom.val) for atom in atoms if isinstance(atom, Literal))


def _tables(topology: Topology, own: Sequence[Any]) -> list[Any]:
    """Returns for each value a table with that of each replica."""
    arrays = [on_host(value) for value in own]
    text = json.dumps([base64.b64encode(a.tobytes()).decode() for a in arrays])
    rows = [
        json.loads(a) for a in worker_exchange.exchange(topology, "constants", text)
    ]
    count = len(topology.local_devices)
    tables = [
        np.repeat(
            np.stack(
                [
                    np.frombuffer(base64.b64decode(sent), array.dtype).reshape(
                        array.shape
                    )
                    for sent in column
                ]
            ),
            count,
            axis=0,
        )
        for array, column in zip(arrays, zip(*rows, strict=True), strict=True)
    ]
    return [
        worker_exchange.from_host(value, t)
        for value, t in zip(own, tables, strict=True)
    ]


def _with_look_ups(
    closed: ClosedJaxpr, inputs: Sequence[Any], tables: dict[int, Any]
) -> list[Any]:
    """Evaluates a program, looking some constants up for each replica.

    Args:
        closed: The program.
        inputs: Its inputs.
        tables: The values of those constants, by the `id` of what stands for them.
    """

    def read_atom(values: Values, atom: Any) -> Any:
        table = tables.get(id(atom))
        return read(values, atom) if table is None else _look_up(table)

    def inline(equation: JaxprEqn, given: list[Any]) -> list[Any] | None:
        inner = inner_programs(equation)
        if not any(
            id(a) in tables for program in inner for a, _ in _constants(program)
        ):
            return None
        called = called_jaxpr(equation)
        if called is None:
            raise ProgramMismatch(
                "A constant that differs between workers cannot stand inside a loop or "
                f"a branch. Received: one in {equation.primitive.name} at "
                f"{source_of(equation)}. Pass it as an argument of `strategy.run`."
            )
        return evaluate(called, given, inline, read_atom)

    return evaluate(closed, inputs, inline, read_atom)


def _look_up(table: Any) -> jax.Array:
    index = lax.axis_index(AXIS)
    found: jax.Array = lax.dynamic_index_in_dim(
        jnp.asarray(table), index, keepdims=False
    )
    return found
