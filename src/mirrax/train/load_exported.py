"""Exported functions, loaded without the source code they were made from."""

from __future__ import annotations

import inspect
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from mirrax.collectives.spmd import promise_mirrored
from mirrax.errors import NotFoundError
from mirrax.options import VariableAggregation, VariableSynchronization
from mirrax.run.compiled.function import AnyFunction, Function
from mirrax.train.checkpoints import checkpoint_format, manifest
from mirrax.train.exported_namedtuples import with_namedtuples
from mirrax.trees import Tree
from mirrax.values.array_like import as_array
from mirrax.values.tensor_spec import TensorSpec
from mirrax.variables.variable import Variable

# What the names of arrays in an export begin with.
FUNCTION = "function/"
VARIABLE = "variable/"


def load_exported(path: str | os.PathLike[str]) -> ExportedFunctions:
    """Returns what `export` wrote, with new variables of the current scope.

    In the scope of a strategy the variables are mirrored, and the functions can be
    given to `strategy.run`.

    >>> w = mirrax.Variable([2.0])
    >>> signature = [mirrax.TensorSpec([1])]
    >>> path = mirrax.train.export("model", scale=(lambda x: w * x, signature))
    >>> loaded = load_exported(path)
    >>> loaded.scale(np.ones(1, np.float32)).tolist(), len(loaded.variables)
    ([2.0], 1)
    """
    target = pathlib.Path(path).absolute()
    saved = checkpoint_format.read(target)
    if "functions" not in saved.plain:
        raise NotFoundError(
            "`load_exported` reads what `mirrax.train.export` wrote. Received: "
            f"'{target}', which is a checkpoint. Restore it with "
            "`mirrax.train.Checkpoint`."
        )
    variables = [
        _variable(saved.arrays[f"{VARIABLE}{number}"], kind)
        for number, kind in enumerate(saved.plain["variables"])
    ]
    programs = {
        name: jax.export.deserialize(bytearray(saved.arrays[FUNCTION + name].tobytes()))
        for name in saved.plain["functions"]
    }
    functions = {
        name: _loaded(name, programs[name], described, variables)
        for name, described in saved.plain["functions"].items()
    }
    names = {name: variables[n] for name, n in saved.plain["names"].items()}
    outputs = {name: _outputs(program) for name, program in programs.items()}
    return ExportedFunctions(functions, tuple(variables), names, outputs)


def is_exported(path: str | os.PathLike[str]) -> bool:
    """Returns whether `path` is a directory that `export` wrote.

    >>> is_exported("no such folder")
    False
    """
    target = pathlib.Path(path)
    return manifest.is_complete(target) and (
        "functions" in checkpoint_format.read_plain(target)
    )


class ExportedFunctions:
    """Loaded functions, as attributes, and their variables.

    Args:
        functions: The functions, by name.
        variables: The variables that they use.
        named_variables: Those that were exported by name.
        output_signatures: A `TensorSpec` for each result of each function.

    >>> w = mirrax.Variable([2.0])
    >>> signature = [mirrax.TensorSpec([1])]
    >>> path = mirrax.train.export("model", scale=(lambda x: w * x, signature))
    >>> loaded = load_exported(path)
    >>> loaded.scale(np.ones(1, np.float32)).tolist(), len(loaded.variables)
    ([2.0], 1)
    """

    def __init__(
        self,
        functions: Mapping[str, AnyFunction],
        variables: tuple[Variable, ...],
        named_variables: Mapping[str, Variable],
        output_signatures: Mapping[str, Tree],
    ) -> None:
        self.functions = dict(functions)
        self.variables = variables
        self.named_variables = dict(named_variables)
        self.output_signatures = dict(output_signatures)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The variables that an optimizer should change."""
        return tuple(v for v in self.variables if v.trainable)

    def checkpoint_contents(self) -> dict[str, Any]:
        """Returns what a checkpoint saves: the variables."""
        return {"variables": list(self.variables)}

    def __getattr__(self, name: str) -> AnyFunction:
        try:
            return self.__dict__["functions"][name]
        except KeyError:
            known = sorted(self.__dict__.get("functions", ()))
            raise AttributeError(
                f"No function of this name was exported. Received: {name}. There are: "
                f"{known}.",
                name=name,
            ) from None


def _variable(value: np.ndarray[Any, Any], kind: Mapping[str, Any]) -> Variable:
    variable = Variable(
        value,
        name=kind["name"],
        trainable=kind["trainable"],
        aggregation=VariableAggregation[kind["aggregation"]],
        synchronization=VariableSynchronization[kind["synchronization"]],
    )
    if variable.synchronization is VariableSynchronization.ON_READ:
        # Otherwise the copies would have this value, not their sum.
        variable.assign(value)
    return variable


def _loaded(
    name: str,
    exported: jax.export.Exported,
    described: Mapping[str, Any],
    variables: Sequence[Variable],
) -> AnyFunction:
    reads = [variables[number] for number in described["reads"]]
    written = [variables[number] for number in described["writes"]]
    (arguments, _), _ = jax.tree.unflatten(exported.in_tree, exported.in_avals)
    leaves, structure = jax.tree.flatten(arguments)
    specs = [_spec(*pair) for pair in zip(leaves, described["names"], strict=True)]

    def call(*args: Any) -> Tree:
        given = jax.tree.map(as_array, args)
        if any(0 in np.shape(leaf) for leaf in jax.tree.leaves(given)) and not written:
            return with_namedtuples(_call_without_rows(exported, given, reads))
        changed, results = exported.call(given, [v.read_value() for v in reads])
        writes = zip(written, changed, described["varying"], strict=True)
        for variable, value, varies in writes:
            variable.assign(value if varies else promise_mirrored(value))
        return with_namedtuples(results)

    call.__name__ = name
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(parameter, kind) for parameter in described["parameters"]]
    )
    return Function(call, input_signature=jax.tree.unflatten(structure, specs))


def _outputs(exported: jax.export.Exported) -> Tree:
    _, results = jax.tree.unflatten(exported.out_tree, exported.out_avals)
    return with_namedtuples(jax.tree.map(_spec, results))


def _spec(aval: Any, name: str | None = None) -> TensorSpec:
    sizes = [size if isinstance(size, int) else None for size in aval.shape]
    return TensorSpec(sizes, aval.dtype, name)


def _call_without_rows(
    exported: jax.export.Exported, given: Any, reads: Sequence[Variable]
) -> Tree:
    """Returns the results for an empty batch, which symbolic sizes do not allow.

    Computes those of one row, and drops it.
    """
    one_row = jax.tree.map(
        lambda x: jnp.zeros((1, *x.shape[1:]), x.dtype) if 0 in x.shape[:1] else x,
        given,
    )
    _, results = exported.call(one_row, [v.read_value() for v in reads])
    _, shapes = jax.tree.unflatten(exported.out_tree, exported.out_avals)
    return jax.tree.map(
        lambda x, aval: x[:0] if _has_open_rows(aval) else x, results, shapes
    )


def _has_open_rows(aval: Any) -> bool:
    return bool(aval.shape) and not isinstance(aval.shape[0], int)
