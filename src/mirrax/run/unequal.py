"""A function that was traced over sizes, on parts that are unequal on the replicas.

Its program is one for all replicas: steps that the replicas take together, and between
them steps on whole arrays. Numbers take the places of sizes for each replica by itself,
which gives each a program, cut where they meet. What does no longer fit one array, such
as the rows of all replicas, stays in parts, and no step on whole arrays may need it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mirrax import jax_internals, trees
from mirrax.context.guards import MustDrive
from mirrax.devices.topology import AXIS, Topology
from mirrax.jax_internals import Jaxpr, JaxprEqn, Var
from mirrax.jax_symbols import Numbers
from mirrax.run.callbacks import has_callbacks
from mirrax.run.forms import Form, only_topology
from mirrax.run.holdings import borrowed, replace
from mirrax.run.jaxprs import Values, initial_values, read, rebuilt
from mirrax.run.lockstep import SideBySide, meeting_program
from mirrax.run.numbered import has_sizes, numbered, numbered_for_replica
from mirrax.run.segments import NotSegmentable, cut
from mirrax.run.tracing import Traced
from mirrax.run.unknown_sizes import Opened, SizedTraces
from mirrax.trees import Tree
from mirrax.values.layouts import join, mirror, to_device
from mirrax.values.per_replica import PerReplica
from mirrax.variables import lending
from mirrax.variables.distributed import DistributedVariable
from mirrax.variables.foreign import ForeignVariable
from mirrax.variables.sync_on_read import SyncOnReadVariable
from mirrax.variables.variable import Variable


def plan_unequal(
    traces: SizedTraces,
    kind: Any,
    body: Callable[..., Tree],
    opened: Opened,
    count_trace: Callable[[], None],
) -> Unequal | None:
    """Returns how a function runs on unequal parts; None if only Python can do it.

    Args:
        traces: The traces of the function.
        kind: What of the call decides on the program, beside the shapes.
        body: The user's function.
        opened: The arguments; a tuple of stand-ins for what is there in parts.
        count_trace: Called if the function has to be traced.
    """
    topology = opened.topology_of_parts
    replicas = [opened.on_replica(i) for i in range(topology.num_replicas)]
    if any(own.kind() != replicas[0].kind() for own in replicas):
        return None
    try:
        found = traces.find_over_sizes(kind, body, replicas, count_trace)
        return None if found is None else Unequal(found[0].traced, found[1], topology)
    except (MustDrive, NotPossible):
        return None


class NotPossible(Exception):  # noqa: N818 - a signal to `function`
    """A step on whole arrays needs what is there in unequal parts alone."""


@dataclasses.dataclass(frozen=True)
class _Whole:
    """Steps on whole arrays."""

    run: Any
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]

    def __call__(self, values: Values, topology: Topology) -> None:
        inputs = [_on_mesh(values[var], topology) for var in self.inputs]
        values.update(zip(self.outputs, self.run(*inputs), strict=True))


@dataclasses.dataclass(frozen=True)
class _OnReplicas:
    """A step that each replica takes in its own way."""

    equation: JaxprEqn
    side_by_side: SideBySide

    def __call__(self, values: Values, topology: Topology) -> None:
        columns = [
            _parts(read(values, atom), topology, is_split)
            for atom, is_split in zip(
                self.equation.invars, _splits(self.equation, "in_specs"), strict=True
            )
        ]
        rows = zip(*columns, strict=True) if columns else [()] * topology.num_replicas
        results = self.side_by_side(list(rows))
        for var, parts, is_split in zip(
            self.equation.outvars,
            results,
            _splits(self.equation, "out_specs"),
            strict=True,
        ):
            values[var] = _gathered(parts, topology, is_split)


class Unequal:
    """A function for parts of certain unequal shapes.

    Args:
        traced: What it does, over sizes.
        numbers: What the sizes are on each replica.
        topology: The devices.
    """

    def __init__(
        self, traced: Traced, numbers: Sequence[Numbers], topology: Topology
    ) -> None:
        _, _, _, used = traced.result
        if only_topology({topology, *used}) != topology:
            raise NotPossible
        written = [v for v in traced.writes if not _is_on_mesh(v)]
        if written or has_callbacks(traced.jaxpr) or jax_internals.checks_results():
            raise NotPossible
        shared = dict(set.intersection(*(set(own.items()) for own in numbers)))
        self._topology = topology
        self._traced = traced
        self._closed = numbered(traced.closed, shared)
        self._steps = _steps_of(self._closed.jaxpr, numbers, topology)

    def __call__(self, arguments: Sequence[Any]) -> Tree:
        """Returns what the user gets.

        Args:
            arguments: The dynamic arguments; those in unequal parts as tuples.
        """
        with lending.lock:
            return self._presented(self._run(arguments))

    def _run(self, arguments: Sequence[Any]) -> list[Any]:
        """Gives variables their new values, and returns the results."""
        reads, writes = self._traced.reads, self._traced.writes
        held = borrowed(reads, self._topology)
        values = initial_values(self._closed, [*arguments, *held])
        for step in self._steps:
            step(values, self._topology)
        outputs = [read(values, atom) for atom in self._closed.jaxpr.outvars]
        new = [
            _placed(value, _sharding_of(variable, self._topology))
            for variable, value in zip(writes, outputs, strict=False)
        ]
        replace(writes, new)
        return outputs[len(writes) :]

    def _presented(self, outputs: Sequence[Any]) -> Tree:
        structure, forms, rest, _ = self._traced.result
        given = iter(outputs)
        leaves = [
            other if form is None else _wrapped(next(given), form, self._topology)
            for form, other in zip(forms, rest, strict=True)
        ]
        return trees.unflatten(structure, leaves)


def _steps_of(
    jaxpr: Jaxpr, numbers: Sequence[Numbers], topology: Topology
) -> list[_Whole | _OnReplicas]:
    groups: list[list[JaxprEqn]] = [[]]
    for equation in jaxpr.eqns:
        if not has_sizes(equation):
            groups[-1].append(equation)
        elif equation.primitive.name == "shard_map":
            groups += [[equation], []]
        else:
            raise NotPossible
    needed = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    steps: list[_Whole | _OnReplicas] = []
    for index in reversed(range(len(groups))):
        group = groups[index]
        if index % 2:
            steps.append(_on_replicas(group[0], numbers, topology))
        elif group:
            steps.append(_whole(jaxpr, group, needed))
        needed |= {a for e in group for a in e.invars if isinstance(a, Var)}
    return steps[::-1]


def _whole(jaxpr: Jaxpr, equations: Sequence[JaxprEqn], needed: set[Var]) -> _Whole:
    made = dict.fromkeys(var for eqn in equations for var in eqn.outvars)
    used = (a for eqn in equations for a in eqn.invars if isinstance(a, Var))
    inputs = tuple(dict.fromkeys(var for var in used if var not in made))
    outputs = tuple(var for var in made if var in needed)
    piece = rebuilt(jaxpr, (), inputs, outputs, equations)

    @jax.jit
    def run(*values: Any) -> list[Any]:
        return jax.core.eval_jaxpr(piece, (), *values)

    return _Whole(run, inputs, outputs)


def _on_replicas(
    equation: JaxprEqn, numbers: Sequence[Numbers], topology: Topology
) -> _OnReplicas:
    axis_env = [(AXIS, topology.num_replicas)]
    try:
        cuts = [
            cut(numbered_for_replica(equation.params["jaxpr"], own, index), axis_env)
            for index, own in enumerate(numbers)
        ]
    except NotSegmentable as error:
        raise NotPossible from error
    if any(piece.meetings != cuts[0].meetings for piece in cuts):
        raise NotPossible
    meetings = [meeting_program(topology, s.collectives) for s in cuts[0].segments]
    return _OnReplicas(equation, SideBySide(topology, cuts, meetings))


def _splits(equation: JaxprEqn, name: str) -> list[bool]:
    return [AXIS in tuple(spec) for spec in equation.params[name]]


def _parts(value: Any, topology: Topology, is_split: bool) -> Sequence[Any]:
    """Returns what each replica gets of a value."""
    if isinstance(value, tuple):
        devices = topology.local_devices
        return [to_device(p, d) for p, d in zip(value, devices, strict=True)]
    sharding = topology.split if is_split else topology.replicated
    return jax_internals.shards(_placed(value, sharding))


def _gathered(parts: Sequence[Any], topology: Topology, is_split: bool) -> Any:
    """Returns what the replicas made as one array, if it fits one."""
    if not is_split:
        return mirror(parts, topology)
    devices = topology.local_devices
    pieces = tuple(to_device(p, d) for p, d in zip(parts, devices, strict=True))
    is_equal = all(piece.shape == pieces[0].shape for piece in pieces)
    return join(pieces, topology) if is_equal else pieces


def _wrapped(value: Any, form: Form, topology: Topology) -> Any:
    if isinstance(value, tuple):
        return PerReplica(value)
    if form.kind == "joined":
        return form.wrap(_placed(value, topology.split))
    array = _placed(value, topology.replicated)
    if form.kind == "plain":
        return jax_internals.uncommitted(jax_internals.shards(array)[0])
    return form.wrap(array)


def _is_on_mesh(variable: Variable) -> bool:
    return isinstance(variable, DistributedVariable | ForeignVariable)


def _sharding_of(variable: Variable, topology: Topology) -> Any:
    is_split = isinstance(variable, SyncOnReadVariable)
    return topology.split if is_split else topology.replicated


def _on_mesh(value: Any, topology: Topology) -> Any:
    is_there = isinstance(value, jax.Array) and len(value.devices()) > 1
    return value if is_there else _placed(value, topology.replicated)


def _placed(value: Any, sharding: Any) -> jax.Array:
    if isinstance(value, jax.Array) and value.sharding == sharding:
        return value
    array: jax.Array = jax.device_put(value, sharding)
    return array
