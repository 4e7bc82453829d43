"""Exports functions with their variables, to be loaded without their source code.

The functions are StableHLO, made by `jax.export`. They and the variables are the arrays
of a checkpoint: all bits have a checksum, and an older export is replaced as a whole.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from mirrax._jax.jaxprs import all_equations
from mirrax.errors import CheckpointWriteError
from mirrax.run.compiled.function import Function
from mirrax.run.compiled.tracing import Traced, trace
from mirrax.run.varying import find_varying
from mirrax.train import worker_sync
from mirrax.train.checkpoints import manifest
from mirrax.train.checkpoints.background_writer import Writer
from mirrax.train.checkpoints.checkpoint_format import CheckpointData
from mirrax.train.exported_namedtuples import without_namedtuples
from mirrax.train.load_exported import FUNCTION, VARIABLE, is_exported
from mirrax.values.array_like import as_arrays
from mirrax.values.tensor_spec import TensorSpec
from mirrax.variables.foreign_libraries import exported_call
from mirrax.variables.sync_on_read_variable import SyncOnReadVariable
from mirrax.variables.variable import Variable

_logger = logging.getLogger(__name__)

PLATFORMS = ("cpu", "cuda")
"""Where exported functions can run, unless the user chooses."""
_KNOWN_PLATFORMS = {"cpu", "cuda", "rocm", "tpu"}

Exportable = Callable[..., Any] | tuple[Callable[..., Any], Sequence[Any]]
"""A function with an `input_signature`, or a function and its signature."""


def export(
    path: str | os.PathLike[str],
    /,
    *,
    variables: Mapping[str, Variable] | None = None,
    platforms: Sequence[str] = PLATFORMS,
    **functions: Exportable,
) -> str:
    """Writes functions and the variables that they use to a directory.

    `load_exported` needs neither the source code nor the libraries of the model. Sizes
    that are None in a signature stay open; None as the first size of several arguments
    is one size, the batch.

    Args:
        path: The directory. It must be new, or an older export.
        variables: Variables to find by name after loading, used by functions or not.
        platforms: Where the functions shall run.
        functions: The functions by name: each a `mirrax.function` with an
            `input_signature`, a pair of a function and its signature, or a Keras
            model.

    Returns:
        The path.

    >>> w = mirrax.Variable([1.0, 2.0])
    >>> @mirrax.function(input_signature=[mirrax.TensorSpec([None, 2])])
    ... def predict(x):
    ...     return x @ w
    >>> path = mirrax.train.export("model", predict=predict)
    >>> loaded = mirrax.train.load_exported(path)
    >>> loaded.predict(np.ones((3, 2), np.float32)).tolist()
    [3.0, 3.0, 3.0]
    """
    target = pathlib.Path(path).absolute()
    saved = collect_export(functions, variables or {}, platforms)
    write_alone = functools.partial(write_export, target, saved)
    worker_sync.write_on_chief(worker_sync.current_peers(), target, write_alone)
    return str(target)


def collect_export(
    functions: Mapping[str, Exportable],
    variables: Mapping[str, Variable],
    platforms: Sequence[str] = PLATFORMS,
) -> CheckpointData:
    """Returns what `export` writes."""
    if isinstance(platforms, str) or not set(platforms) <= _KNOWN_PLATFORMS:
        raise ValueError(
            f"`platforms` is a list of {', '.join(sorted(_KNOWN_PLATFORMS))}. "
            f'Received: {platforms!r}. Write platforms=["cpu", "cuda"].'
        )
    named = dict(variables)
    saved_variables = list({id(v): v for v in named.values()}.values())
    arrays: dict[str, Any] = {}
    described: dict[str, Any] = {}
    for name, given in functions.items():
        fn, specs = _with_signature(name, given)
        traced, arguments = _trace(name, fn, specs)
        program = _program(name, traced, arguments, platforms)
        arrays[FUNCTION + name] = np.frombuffer(program, np.uint8)
        described[name] = {
            "reads": [_number(saved_variables, v) for v in traced.reads],
            "writes": [_number(saved_variables, v) for v in traced.writes],
            "varying": _varying_writes(traced),
            "names": [spec.name for spec in jax.tree.leaves(specs)],
            "parameters": _parameters(fn, len(specs)),
        }
    for number, variable in enumerate(saved_variables):
        arrays[f"{VARIABLE}{number}"] = variable.numpy()
    plain = {
        "functions": described,
        "variables": [_describe(variable) for variable in saved_variables],
        "names": {name: _number(saved_variables, v) for name, v in named.items()},
    }
    return CheckpointData(arrays, plain)


def write_export(target: pathlib.Path, saved: CheckpointData) -> None:
    """Writes an export, on one worker."""
    if manifest.is_complete(target) and not is_exported(target):
        raise CheckpointWriteError(
            "An export can replace nothing but an older export. Received: "
            f"'{target}', where there is a checkpoint. Nothing was changed. Choose "
            "another path."
        )
    writer = Writer()
    writer.start(target, saved)
    writer.wait()


def _with_signature(
    name: str, given: Exportable
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if isinstance(given, tuple):
        fn, specs = given
        return fn, tuple(specs)
    model = exported_call(given)
    if model is not None:
        fn, specs = model
        return fn, tuple(specs)
    bound = given.func if isinstance(given, functools.partial) else given
    signature = bound.input_signature if isinstance(bound, Function) else None
    if signature is None:
        raise ValueError(
            "An exported function needs an `input_signature`, which says what it can "
            f"be called with. Received: {name}={given!r}. Write "
            f"{name}=(function, [mirrax.TensorSpec([None, 3])])."
        )
    return given, signature


def _parameters(fn: Callable[..., Any], count: int) -> list[str]:
    """Returns the names of the arguments; of those without one, `arg_0`, ..."""
    try:
        found = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        found = []
    names = [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD][:count]
    return names + [f"arg_{number}" for number in range(len(names), count)]


def _trace(
    name: str, fn: Callable[..., Any], specs: tuple[Any, ...]
) -> tuple[Traced, tuple[Any, ...]]:
    arguments = _stand_ins(specs)
    leaves, structure = jax.tree.flatten(arguments)

    def body(*values: Any) -> tuple[Sequence[jax.Array], Any]:
        results, nesting = jax.tree.flatten(fn(*jax.tree.unflatten(structure, values)))
        return as_arrays(results), nesting

    try:
        traced = trace(body, leaves, inside_replica=False, is_for_export=True)
    except Exception as error:
        if any(None in spec.shape for spec in jax.tree.leaves(specs)):
            error.add_note(
                f"[mirrax] {name} was traced with sizes left open (None in its "
                "signature). Give numbers for sizes that its Python must know."
            )
        raise
    if any(eqn.primitive.name == "shard_map" for eqn in all_equations(traced.jaxpr)):
        raise ValueError(
            f"An exported function is what one replica does. Received: {name}, which "
            "calls `strategy.run`. Export the function that it gives to `run`."
        )
    return traced, arguments


def _varying_writes(traced: Traced) -> list[bool]:
    """Returns whether each write can differ between replicas that call the function."""
    num_arguments = len(traced.jaxpr.invars) - len(traced.reads)
    inputs = [True] * num_arguments
    inputs += [isinstance(v, SyncOnReadVariable) for v in traced.reads]
    return find_varying(traced.jaxpr, inputs)[: len(traced.writes)]


def _program(
    name: str, traced: Traced, arguments: tuple[Any, ...], platforms: Sequence[str]
) -> bytes:
    """Returns a program of the arguments and the variables, as bytes."""
    num_writes = len(traced.writes)

    @jax.jit
    def program(arguments: tuple[Any, ...], variables: list[Any]) -> Any:
        outputs = traced.evaluate(jax.tree.leaves(arguments), variables)
        results = jax.tree.unflatten(traced.result, outputs[num_writes:])
        return outputs[:num_writes], without_namedtuples(results)

    variables = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in traced.reads]
    exported = jax.export.export(program, platforms=tuple(platforms))(
        arguments, variables
    )
    try:
        return bytes(exported.serialize(vjp_order=1))
    except Exception as error:
        _logger.info("%s is exported without its gradient: %s", name, error)
        return bytes(exported.serialize())


def _stand_ins(specs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns descriptions to trace with; sizes that are None become symbols."""
    scope = jax.export.SymbolicScope()
    count = 0

    def stand_in(spec: Any) -> Any:
        nonlocal count
        if not isinstance(spec, TensorSpec) or spec.shape is None:
            raise ValueError(
                "The signature of an exported function has a `TensorSpec` with a known "
                f"rank for each argument. Received: {spec!r}. Write "
                "mirrax.TensorSpec([None, 3], dtype), with None for any size."
            )
        symbols = []
        for axis, size in enumerate(spec.shape):
            count += size is None
            symbol = "batch" if axis == 0 else f"size_{count}"
            symbols.append(symbol if size is None else str(size))
        shape = jax.export.symbolic_shape(", ".join(symbols), scope=scope)
        return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(spec.dtype))

    return tuple(jax.tree.map(stand_in, list(specs)))


def _number(variables: list[Variable], variable: Variable) -> int:
    for number, known in enumerate(variables):
        if known is variable:
            return number
    variables.append(variable)
    return len(variables) - 1


def _describe(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name.removesuffix(":0"),
        "trainable": bool(variable.trainable),
        "aggregation": variable.aggregation.name,
        "synchronization": variable.synchronization.name,
    }
