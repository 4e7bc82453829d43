"""`tf.saved_model.save`."""

from __future__ import annotations

import ast
import inspect
import logging
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax import TensorSpec, Variable, train
from mirrax.tf import nest
from mirrax.tf.functions.concrete_functions import (
    BoundFunction,
    ConcreteFunction,
    traced_outputs,
)
from mirrax.tf.functions.function import Function
from mirrax.tf.saved_model.loading import (
    LoadedModel,
    LoadedObject,
    Signature,
    Trace,
    Traces,
    contains_saved_model,
    named,
)
from mirrax.tf.saved_model.options import (
    ALTERNATIVE,
    ASSETS_DIRECTORY,
    CALL,
    DEFAULT_SERVING_SIGNATURE_DEF_KEY,
    SIGNATURE,
    Asset,
)
from mirrax.tf.variables.module import Module

_logger = logging.getLogger(__name__)

# Programs are of arrays of known ranks.
_NUM_RANKS = 5

_SAVED = (Variable, mirrax.Function, BoundFunction, ConcreteFunction, Traces, Asset)


def save(
    obj: Any, export_dir: Any, signatures: Any = None, options: Any = None
) -> None:
    """Saves the variables of an object and its functions.

    Saved are functions with an `input_signature`, and others for the shapes that they
    were called with, as in TensorFlow.

    Args:
        obj: A `tf.Module`, a Keras model, or another object with such attributes.
        export_dir: The directory.
        signatures: A concrete function, a function with an `input_signature`, or a dict
            of them; by default the only such function of the object.
        options: Accepted, without effect.
    """
    _require_attributes(obj)
    given = dict(_signatures(signatures))
    _trace_calls_of(given.values())
    functions = dict(_functions_of(obj))
    if _is_keras_model(obj):
        if not obj.built:
            _build(obj, [*functions.values(), *given.values()])
        if obj.built:
            functions[CALL] = obj
            given = given or {SIGNATURE + DEFAULT_SERVING_SIGNATURE_DEF_KEY: obj}
    elif signatures is None:
        given = dict(_signatures(_only_signature(obj)))
    if not any(map(_is_program, functions.values())):
        _logger.warning(
            "%r is saved without functions, because none was traced. Call it once "
            "before it is saved, or give its functions an `input_signature`.",
            obj,
        )
    attributes = list(_attributes(obj))
    variables = {path: x for path, x in attributes if isinstance(x, Variable)}
    programs = dict(_for_ranks(functions | given))
    train.export(export_dir, variables=variables, **programs)
    _copy_assets([x for _, x in attributes if isinstance(x, Asset)], export_dir)


def _trace_calls_of(signatures: Iterable[tuple[Any, Any]]) -> None:
    """Traces signatures, so that the functions that they call are traced, too."""
    for fn, specs in signatures:
        if all(spec.shape is not None for spec in nest.flatten(specs)):
            traced_outputs(fn, specs)


def _require_attributes(obj: Any) -> None:
    if isinstance(obj, jax.Array) or not hasattr(obj, "__dict__"):
        raise ValueError(
            "A saved object has functions and variables as attributes. Received: "
            f"{obj!r}. Set them on a `tf.Module`."
        )
    held = getattr(obj, "signatures", None)
    if held is not None and not isinstance(obj, LoadedModel):
        raise ValueError(
            "The attribute `signatures` is reserved for those of a loaded model. "
            f"Received: {held!r}. Delete it (`del obj.signatures`), and give them to "
            "`save`."
        )


def _only_signature(obj: Any) -> Any:
    """Returns the function that is served by default; None if it is not clear."""
    own = {path: x for path, x in _attributes(obj) if path.isidentifier()}
    found = [
        fn
        for fn in own.values()
        if isinstance(fn, ConcreteFunction)
        or (isinstance(fn, Function | BoundFunction) and fn.input_signature is not None)
    ]
    return found[0] if len(found) == 1 and _has_flat_outputs(found[0]) else None


def _has_flat_outputs(fn: Any) -> bool:
    concrete = fn if isinstance(fn, ConcreteFunction) else fn.get_concrete_function()
    if any(spec.shape is None for spec in concrete.named_inputs):
        return False
    outputs = concrete.structured_outputs
    return outputs is not None and not _nested_outputs(outputs)


def _copy_assets(assets: Sequence[Asset], export_dir: Any) -> None:
    # With several workers, the model is in the directory of one of them.
    if not assets or not contains_saved_model(export_dir):
        return
    folder = pathlib.Path(export_dir, ASSETS_DIRECTORY)
    folder.mkdir(exist_ok=True)
    for asset in assets:
        shutil.copy(asset, folder)


def _functions_of(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name, and a function with its signature, of what can be saved."""
    for path, value in _attributes(obj):
        if isinstance(value, ConcreteFunction):
            yield path, (value, value.named_inputs)
        elif isinstance(value, Function | BoundFunction):
            yield from _traced_functions(path, value)
        elif isinstance(value, Traces | mirrax.Function):
            yield from _loaded_functions(path, value)
        elif isinstance(value, Asset):
            yield f"{path} {os.path.basename(value)!r}", (_nothing, [])


def _nothing() -> None:
    """Is saved for what has a name and no program."""


def _is_program(saved: Any) -> bool:
    return not (isinstance(saved, tuple) and saved[0] is _nothing)


def _for_ranks(functions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the functions; those of arrays of unknown rank once for each of a few.

    All arrays of unknown rank have the same one.
    """
    for name, saved in functions.items():
        fn, specs = saved if isinstance(saved, tuple) else (saved, [])
        if all(spec.shape is not None for spec in nest.flatten(specs)):
            yield name, saved
            continue
        for number, known in enumerate(_accepted(name, fn, specs)):
            yield ALTERNATIVE.format(number=number) + name, (fn, known)


def _accepted(name: str, fn: Any, specs: Any) -> list[Any]:
    """Returns the signatures of known ranks that a function accepts, at least one."""
    accepted = []
    refused: Any = None
    for rank in range(_NUM_RANKS):
        known = nest.map_structure(_with_shape([None] * rank), specs)
        try:
            traced_outputs(fn, known)
        except Exception as error:
            # A function that accepts the rank for some sizes does not refuse it.
            if not _refuses(fn, nest.map_structure(_with_shape([1] * rank), specs)):
                raise ValueError(
                    "A function of arrays of unknown rank is saved for all sizes of "
                    f"each rank that it accepts. Received: {name}, which accepts only "
                    f"some sizes of rank {rank}: {error} Give it an `input_signature` "
                    "with a `TensorSpec` of known sizes, such as [2, 3]."
                ) from error
            refused = error
        else:
            accepted.append(known)
    if not accepted:
        raise ValueError(
            "A function of arrays of unknown rank must accept a rank from 0 to "
            f"{_NUM_RANKS - 1} to be saved. Received: {name}, which accepts none: "
            f"{refused} Give it an `input_signature` with the shapes that it accepts."
        ) from refused
    return accepted


def _with_shape(shape: Any) -> Callable[[TensorSpec], TensorSpec]:
    return lambda x: TensorSpec(shape, x.dtype, x.name) if x.shape is None else x


def _refuses(fn: Any, specs: Any) -> bool:
    try:
        traced_outputs(fn, specs)
    except (TypeError, ValueError, IndexError):
        return True
    return False


def _traced_functions(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    is_saved = False
    for number, (args, kwargs) in enumerate(_traced_calls(value)):
        name = f"{path}@{number}" if number else path
        call = _literal_call(value, args, kwargs)
        if call is None:
            is_saved = True
            yield name, (value, args)
        elif _is_literal(call):
            is_saved = True
            concrete = value.get_concrete_function(*args, **kwargs)
            yield f"{name} {call!r}", (concrete, concrete.named_inputs)
    if not is_saved:
        yield f"{path} ...", (_nothing, [])


def _loaded_functions(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the programs of a function that was loaded, to save them again."""
    programs = value.functions if isinstance(value, Traces) else [value]
    if not programs:
        yield f"{path} ...", (_nothing, [])
    for number, program in enumerate(programs):
        name = f"{path}@{number}" if number else path
        fn = program
        if isinstance(program, Trace):
            fn = program.fn
            call = nest.map_structure(
                lambda leaf: _Array() if leaf is ... else leaf, program.call
            )
            name = f"{name} {(program.parameters, *call)!r}"
        yield name, (fn, fn.input_signature)


def _traced_calls(fn: Any) -> list[Any]:
    if fn.input_signature is not None:
        return [(fn.input_signature, {})]
    return fn.traced_calls()


class _Array:
    """Stands for an array in the literal of a call."""

    def __repr__(self) -> str:
        return "..."


def _literal_call(fn: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Returns what a `Trace` takes, or None if all arguments are arrays."""
    parameters = list(inspect.signature(fn.python_function).parameters.values())
    parameters = parameters[int(isinstance(fn, BoundFunction)) :]
    given = inspect.Signature(parameters).bind(*args, **kwargs).arguments
    # Other defaults are part of the program.
    known = [p for p in parameters if p.name in given or _is_literal(p.default)]
    bound = inspect.Signature(known).bind(*args, **kwargs)
    bound.apply_defaults()
    call = nest.map_structure(
        lambda leaf: _Array() if isinstance(leaf, TensorSpec) else leaf,
        (bound.args, bound.kwargs),
    )
    if all(isinstance(leaf, _Array) for leaf in nest.flatten(call)) and not call[1]:
        return None
    described = [
        (p.name, p.kind.name, p.default)
        if _is_literal(p.default)
        else (p.name, p.kind.name)
        for p in known
    ]
    return described, *call


def _is_literal(value: Any) -> bool:
    try:
        ast.literal_eval(repr(value))
    except (SyntaxError, ValueError):
        return False
    return True


def _attributes(
    obj: Any, path: str = "", holders: tuple[Any, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Yields the variables and functions of an object, with the path to each.

    Args:
        obj: The object.
        path: The path to it.
        holders: The objects that it is part of, which it may hold as well.
    """
    if any(obj is holder for holder in holders):
        return
    holders = (*holders, obj)
    if isinstance(obj, _SAVED):
        yield path.removeprefix("."), obj
    elif isinstance(obj, Mapping):
        for key, value in obj.items():
            yield from _attributes(value, f"{path}[{str(key)!r}]", holders)
    elif isinstance(obj, list | tuple):
        for index, value in enumerate(obj):
            yield from _attributes(value, f"{path}[{index}]", holders)
    elif isinstance(obj, Module | LoadedObject | train.Checkpoint) or not path:
        methods = {
            name: getattr(obj, name)
            for kind in reversed(type(obj).__mro__)
            for name, value in vars(kind).items()
            if isinstance(value, Function)
        }
        own = {**methods, **vars(obj)}
        if isinstance(obj, LoadedModel):
            # Those are of all its parts, which have them as well.
            del own["_variables"], own["signatures"]
        if isinstance(obj, train.Checkpoint):
            public = {name: fn for name, fn in own.items() if name[0] != "_"}
            own = {**public, **obj.checkpoint_contents()}
        for name, value in own.items():
            yield from _attributes(value, f"{path}.{name}", holders)


def _build(model: Any, functions: Sequence[tuple[Any, Any]]) -> None:
    """Creates the variables of a Keras model, by a call of one of its functions."""
    for fn, specs in functions:
        if not model.built:
            fn(*nest.map_structure(_zeros, specs))


def _zeros(spec: Any) -> Any:
    return jnp.zeros([size or 1 for size in spec.shape], spec.dtype)


def _signatures(signatures: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name of each signature, and a function with what it takes."""
    if signatures is None:
        return
    if not isinstance(signatures, Mapping):
        signatures = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures}
    for name, given in signatures.items():
        if isinstance(given, Signature):
            for number, fn in enumerate(given.functions):
                prefix = ALTERNATIVE.format(number=number)
                yield prefix + SIGNATURE + name, (fn, fn.input_signature)
            continue
        is_function = isinstance(given, Function | BoundFunction)
        has_signature = is_function and given.input_signature is not None
        concrete = given.get_concrete_function() if has_signature else given
        if not isinstance(concrete, ConcreteFunction):
            raise ValueError(
                "Expected a TensorFlow function for a signature: a concrete function, "
                f"or one with an `input_signature`. Received: {given!r}. Use its "
                "`get_concrete_function`."
            )
        yield SIGNATURE + name, (_served(name, concrete), concrete.named_inputs)


def _served(name: str, fn: ConcreteFunction) -> Callable[..., dict[str, Any]]:
    """Returns a function with named outputs, none of them nested."""

    def served(*args: Any) -> dict[str, Any]:
        outputs = fn(*args)
        if _nested_outputs(outputs):
            raise ValueError(
                "Got a non-Tensor value in the output of a signature: they are a "
                f"tensor, or a list, tuple or dict of tensors. Received: {outputs} of "
                f"{name!r}. Return a flat dict."
            )
        return named(outputs)

    return served


def _nested_outputs(outputs: Any) -> bool:
    if isinstance(outputs, Mapping):
        outputs = [*outputs.values()]
    return isinstance(outputs, list | tuple) and any(
        nest.is_nested(value) for value in outputs
    )


def _is_keras_model(obj: Any) -> bool:
    return any(kind.__module__.startswith("keras.") for kind in type(obj).__mro__)
