"""`tf.saved_model`: saves and loads objects with functions and variables.

The format is that of `mirrax.train.export`, not TensorFlow's.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax import TensorSpec, Variable, train
from mirrax.tf import nest
from mirrax.tf.functions.concrete_functions import BoundFunction, ConcreteFunction
from mirrax.tf.functions.function import Function
from mirrax.tf.missing_names import names_of
from mirrax.tf.variables.module import Module

_logger = logging.getLogger(__name__)

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"

_SIGNATURE = "signatures."
_CALL = "__call__"
# What `model.export` of Keras writes.
_SERVE = "serve"

# A step on the path to an attribute, as in `parts[0].weights['a']`.
_STEP = re.compile(r"""\.?([^.\[@ ]+)|\[(\d+|'(?:\\.|[^'])*'|"(?:\\.|[^"])*")\]""")
# What follows the path in the name of a trace: its number, and its call.
_TRACE = re.compile(r"(?:@\d+)?(?: (.*))?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class SaveOptions:
    """`tf.saved_model.SaveOptions`, whose options have no effect."""

    namespace_whitelist: Any = None
    save_debug_info: bool = False
    function_aliases: Any = None
    experimental_io_device: str | None = None
    experimental_variable_policy: Any = None
    experimental_custom_gradients: bool = True


@dataclasses.dataclass(frozen=True)
class LoadOptions:
    """`tf.saved_model.LoadOptions`, whose options have no effect."""

    allow_partial_checkpoint: bool = False
    experimental_io_device: str | None = None
    experimental_skip_checkpoint: bool = False
    experimental_variable_policy: Any = None
    experimental_load_function_aliases: bool = False


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
            of them.
        options: Accepted, without effect.
    """
    given = {name: _concrete(fn) for name, fn in _named_signatures(signatures).items()}
    functions = dict(_functions_of(obj))
    if _is_keras_model(obj):
        if not obj.built:
            _build(obj, [*functions.values(), *given.values()])
        if obj.built:
            functions[_CALL] = obj
            given = given or {DEFAULT_SERVING_SIGNATURE_DEF_KEY: obj}
    functions |= {_SIGNATURE + name: fn for name, fn in given.items()}
    if not functions:
        _logger.warning(
            "%r is saved without functions, because none was traced. Call it once "
            "before it is saved, or give its functions an `input_signature`.",
            obj,
        )
    variables = {
        path: value for path, value in _attributes(obj) if isinstance(value, Variable)
    }
    train.export(export_dir, variables=variables, **functions)


def load(export_dir: Any, tags: Any = None, options: Any = None) -> LoadedModel:
    """Loads a saved model; its variables are created in the current scope."""
    exported = train.load_exported(export_dir)
    model = LoadedModel(exported.variables)
    for path, variable in exported.named_variables.items():
        _put(model, path, variable)
    traces: dict[str, list[Any]] = {}
    for name, fn in exported.functions.items():
        if name.startswith(_SIGNATURE):
            signature = Signature(fn, exported.output_signatures[name])
            model.signatures[name.removeprefix(_SIGNATURE)] = signature
        else:
            path, call = _path_and_call(name)
            traces.setdefault(path, []).append(fn if call is None else Trace(fn, *call))
    for path, found in traces.items():
        is_plain = len(found) == 1 and not isinstance(found[0], Trace)
        _put(model, path, found[0] if is_plain else Traces(path, found))
    if not model.signatures and _SERVE in exported.functions:
        outputs = exported.output_signatures[_SERVE]
        served = Signature(exported.functions[_SERVE], outputs)
        model.signatures = {_SERVE: served, DEFAULT_SERVING_SIGNATURE_DEF_KEY: served}
    return model


def contains_saved_model(export_dir: Any) -> bool:
    """Returns whether there is a saved model in a directory."""
    return train.is_exported(export_dir)


class LoadedObject:
    """A part of a loaded model, with the attributes that were saved."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        saved = vars(self).get(_CALL)
        if saved is None:
            raise TypeError(
                "This object was saved without `__call__`. Received: a call. There "
                f"are: {sorted(vars(self))}. Decorate `__call__` with `@tf.function` "
                "before saving."
            )
        if not isinstance(saved, Traces) and kwargs.pop("training", None):
            raise NotImplementedError(
                "A saved model computes what it computes at inference. Received: "
                "training=True. Save the weights, and build the model from its source."
            )
        return saved(*args, **kwargs)


class LoadedModel(LoadedObject):
    """What `tf.saved_model.load` returns.

    Args:
        variables: All variables.
    """

    def __init__(self, variables: tuple[Variable, ...]) -> None:
        self.variables = variables
        self.signatures: dict[str, Signature] = {}

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(v for v in self.variables if v.trainable)


class Signature:
    """A signature of a loaded model: arrays by name in, a dict of arrays out.

    Args:
        fn: The loaded function.
        outputs: A `TensorSpec` for each of its results.
    """

    def __init__(self, fn: Any, outputs: Any) -> None:
        self._fn = fn
        self._specs = {
            spec.name or f"arg_{i}": spec
            for i, spec in enumerate(nest.flatten(fn.input_signature))
        }
        self.structured_outputs = _named(outputs)

    @property
    def structured_input_signature(self) -> Any:
        """No positional arguments, and a `TensorSpec` for each name."""
        return (), dict(self._specs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(self._specs, args))
        if len(args) > len(self._specs) or {*given, *kwargs} != {*self._specs}:
            raise TypeError(
                f"This signature takes {[*self._specs]}. Received: {len(args)} "
                f"positional argument(s) and {sorted(kwargs)}."
            )
        given |= kwargs
        leaves = [given[name] for name in self._specs]
        return _named(
            self._fn(*nest.pack_sequence_as(self._fn.input_signature, leaves))
        )


class Trace:
    """A loaded function of arrays, as one whose other arguments are fixed.

    Args:
        fn: The loaded function.
        parameters: The name, the kind and perhaps the default of each argument.
        args: The positional arguments, with `...` for each array.
        kwargs: The others.
    """

    def __init__(
        self, fn: Any, parameters: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        self._fn = fn
        self._signature = inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    getattr(inspect.Parameter, kind),
                    default=default[0] if default else inspect.Parameter.empty,
                )
                for name, kind, *default in parameters
            ]
        )
        self._call = (args, kwargs)

    @property
    def input_signature(self) -> Any:
        specs = iter(nest.flatten(self._fn.input_signature))
        return nest.map_structure(lambda x: next(specs) if x is ... else x, self._call)

    def fitted(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """Returns the arrays of a call, or raises if it differs from this one."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        structure: Any = jax.tree.structure(self._call, is_leaf=lambda x: x is None)
        fixed = structure.flatten_up_to(self._call)
        given = structure.flatten_up_to((bound.args, bound.kwargs))
        pairs = list(zip(fixed, given, strict=True))
        for fixed, value in pairs:
            if fixed is not ... and not (type(value) is type(fixed) and value == fixed):
                raise ValueError(f"It was traced for {fixed!r}. Received: {value!r}.")
        arrays = [value for fixed, value in pairs if fixed is ...]
        return self._fn.fitted(arrays, {})

    def __call__(self, *arrays: Any) -> Any:
        return self._fn(*arrays)


class Traces:
    """A loaded function with a program for each of several calls.

    Args:
        name: Its name.
        functions: The loaded functions.
    """

    def __init__(self, name: str, functions: list[Any]) -> None:
        self._name = name
        self._functions = functions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for fn in self._functions:
            try:
                fitted, _ = fn.fitted(args, kwargs)
            except (TypeError, ValueError) as error:
                reason = error
                continue
            return fn(*fitted)
        raise ValueError(
            "Could not find matching concrete function to call loaded from the "
            f"SavedModel. Received: {args} and {kwargs} for `{self._name}`. It was "
            "saved for "
            f"{[fn.input_signature for fn in self._functions]}."
        ) from reason


def _named(outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, dict):
        return outputs
    return {f"output_{i}": value for i, value in enumerate(nest.flatten(outputs))}


def _functions_of(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yields the name, and a function with its signature, of what can be saved."""
    for path, value in _attributes(obj):
        if not isinstance(value, Function | BoundFunction):
            continue
        for number, (args, kwargs) in enumerate(_traced_calls(value)):
            name = f"{path}@{number}" if number else path
            call = _literal_call(value, args, kwargs)
            if call is None:
                yield name, (value, args)
            elif _is_literal(call):
                concrete = value.get_concrete_function(*args, **kwargs)
                yield f"{name} {call!r}", (concrete, concrete.named_inputs)


def _traced_calls(fn: Any) -> list[Any]:
    if fn.input_signature is not None:
        return [(fn.input_signature, {})]
    return fn.traced_calls()  # type: ignore[no-any-return]


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


def _path_and_call(name: str) -> tuple[str, Any]:
    """Returns the path of a saved function, and the call it was traced for."""
    end = 0
    while step := _STEP.match(name, end):
        end = step.end()
    found = _TRACE.fullmatch(name, end)
    call = found[1] if found else None
    return name[:end], None if call is None else ast.literal_eval(call)


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
    if isinstance(obj, Variable | Function | BoundFunction):
        yield path.removeprefix("."), obj
    elif isinstance(obj, Mapping):
        for key, value in obj.items():
            yield from _attributes(value, f"{path}[{str(key)!r}]", holders)
    elif isinstance(obj, list | tuple):
        for index, value in enumerate(obj):
            yield from _attributes(value, f"{path}[{index}]", holders)
    elif isinstance(obj, Module) or not path:
        methods = {
            name: getattr(obj, name)
            for kind in reversed(type(obj).__mro__)
            for name, value in vars(kind).items()
            if isinstance(value, Function)
        }
        for name, value in {**methods, **vars(obj)}.items():
            yield from _attributes(value, f"{path}.{name}", holders)


def _build(model: Any, functions: Sequence[tuple[Any, Any]]) -> None:
    """Creates the variables of a Keras model, by a call of one of its functions."""
    for fn, specs in functions:
        if not model.built:
            fn(*nest.map_structure(_zeros, specs))


def _zeros(spec: Any) -> Any:
    return jnp.zeros([size or 1 for size in spec.shape], spec.dtype)


def _named_signatures(signatures: Any) -> dict[str, Any]:
    if signatures is None:
        return {}
    if isinstance(signatures, Mapping):
        return dict(signatures)
    return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures}


def _concrete(given: Any) -> Any:
    """Returns a signature as a function of arrays, and their specs."""
    if isinstance(given, Function | BoundFunction):
        given = given.get_concrete_function()
    if not isinstance(given, ConcreteFunction):
        raise ValueError(
            "A signature is a concrete function, or a `tf.function` with an "
            f"`input_signature`. Received: {given!r}."
        )
    return given, given.named_inputs


def _is_keras_model(obj: Any) -> bool:
    return any(kind.__module__.startswith("keras.") for kind in type(obj).__mro__)


def _put(model: LoadedObject, path: str, value: Any) -> None:
    """Sets an attribute of a loaded model, or an item of its lists and dicts."""
    holder: Any = model
    steps = list(_STEP.finditer(path))
    for step, following in zip(steps, [*steps[1:], None]):
        key: Any = step[1] or ast.literal_eval(step[2])
        if step[1] is not None:
            holder = vars(holder)
        elif isinstance(holder, list):
            holder += [None] * (key + 1 - len(holder))
        if following is None:
            holder[key] = value
        elif (holder.get(key) if isinstance(holder, dict) else holder[key]) is None:
            holder[key] = _holder(*following.groups())
        holder = holder[key]


def _holder(name: str | None, key: str | None) -> Any:
    """Returns an empty object, list or dict, for the step that comes next."""
    if name is not None:
        return LoadedObject()
    return [] if str(key).isdigit() else {}


__getattr__ = names_of("tf.saved_model")
