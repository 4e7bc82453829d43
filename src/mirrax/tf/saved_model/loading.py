"""`tf.saved_model.load`, and what it returns."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Sequence
from typing import Any

import jax

import mirrax
from mirrax import TensorSpec, Variable, train
from mirrax.tf import nest
from mirrax.tf.functions.concrete_functions import ConcreteFunction
from mirrax.tf.functions.function import Function
from mirrax.tf.saved_model.options import (
    ASSETS_DIRECTORY,
    CALL,
    DEFAULT_SERVING_SIGNATURE_DEF_KEY,
    SERVING,
    SIGNATURE,
    Asset,
)
from mirrax.tf.variables.module import is_saved
from mirrax.tf.variables.variable_methods import with_methods

# What `model.export` of Keras writes.
_SERVE = "serve"

# A step on the path to an attribute, as in `parts[0].weights['a']`.
_STEP = re.compile(r"""\.?([^.\[@ ]+)|\[(\d+|'(?:\\.|[^'])*'|"(?:\\.|[^"])*")\]""")
_NUMBER = re.compile(r"^\d+\|")
# What follows the path in the name of a trace: its number, and its call.
_TRACE = re.compile(r"(?:@\d+)?(?: (.*))?", re.DOTALL)


def load(export_dir: Any, tags: Any = None, options: Any = None) -> LoadedModel:
    """Loads a saved model; its variables are created in the current scope."""
    if tags is not None and {SERVING} != ({tags} if isinstance(tags, str) else {*tags}):
        raise ValueError(
            f"A saved model has one program for each function, tagged {SERVING!r}. "
            f"Received: tags={tags!r}. Omit them."
        )
    exported = train.load_exported(export_dir)
    model = LoadedModel(exported.variables)
    for variable in exported.variables:
        with_methods(variable)
    for path, variable in exported.named_variables.items():
        _put(model, path, variable)
    traces: dict[str, list[Any]] = {}
    served: dict[str, list[Any]] = {}
    for numbered, fn in exported.functions.items():
        name = _NUMBER.sub("", numbered)
        if name.startswith(SIGNATURE):
            outputs = exported.output_signatures[numbered]
            served.setdefault(name, []).append((fn, outputs))
        else:
            path, call = _path_and_call(name)
            if isinstance(call, str):
                asset = os.path.join(export_dir, ASSETS_DIRECTORY, call)
                _put(model, path, Asset(asset))
                continue
            found = traces.setdefault(path, [])
            if call is not ...:
                found.append(fn if call is None else Trace(fn, *call))
    for name, programs in served.items():
        model.signatures[name.removeprefix(SIGNATURE)] = Signature(programs)
    for path, found in traces.items():
        is_plain = len(found) == 1 and not isinstance(found[0], Trace)
        value = _as_function(found[0]) if is_plain else Traces(path, found)
        _put(model, path, value)
    if not model.signatures and _SERVE in exported.functions:
        outputs = exported.output_signatures[_SERVE]
        signature = Signature([(exported.functions[_SERVE], outputs)])
        model.signatures = {
            _SERVE: signature,
            DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature,
        }
    return model


def _as_function(fn: mirrax.Function[..., Any]) -> Function:
    return Function(fn.fn, fn.input_signature, autograph=False)


def contains_saved_model(export_dir: Any) -> bool:
    """Returns whether there is a saved model in a directory."""
    return train.is_exported(export_dir)


class LoadedObject:
    """A part of a loaded model, with the attributes that were saved."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        saved = vars(self).get(CALL)
        if saved is None:
            names = sorted(name for name in vars(self) if name[0] != "_")
            raise TypeError(
                "This object was saved without `__call__`. Received: a call. There "
                f"are: {names}. Decorate `__call__` with `@tf.function` before saving."
            )
        if not isinstance(saved, Traces) and kwargs.pop("training", None):
            raise NotImplementedError(
                "A saved model computes what it computes at inference. Received: "
                "training=True. Save the weights, and build the model from its source."
            )
        return saved(*args, **kwargs)

    def checkpoint_contents(self) -> dict[str, Any]:
        """Returns what a checkpoint saves: the attributes that contain variables."""
        own = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return {name: value for name, value in own.items() if is_saved(value)}


class LoadedModel(LoadedObject):
    """What `tf.saved_model.load` returns.

    Args:
        variables: All variables.
    """

    def __init__(self, variables: tuple[Variable, ...]) -> None:
        self._variables = variables
        self.signatures: dict[str, Signature] = {}

    @property
    def variables(self) -> Any:
        # An attribute of this name may have been saved.
        return vars(self).get("variables", self._variables)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(v for v in self._variables if v.trainable)


class Signature:
    """A signature of a loaded model: arrays by name in, a dict of arrays out.

    Args:
        programs: The loaded functions, one for each rank that was saved, and a
            `TensorSpec` for each of their results.
    """

    def __init__(self, programs: list[tuple[Any, Any]]) -> None:
        self.functions = [fn for fn, _ in programs]
        structures = [(fn.input_signature, named(outs)) for fn, outs in programs]
        specs, outputs = nest.map_structure(_common_spec, *structures)
        self._specs = {
            spec.name or f"arg_{i}": spec for i, spec in enumerate(nest.flatten(specs))
        }
        self.structured_outputs = {
            name: TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in outputs.items()
        }
        self.inputs = list(self._specs.values())
        self.outputs = nest.flatten(outputs)

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
        structure = self.functions[0].input_signature
        arrays = nest.pack_sequence_as(structure, leaves)
        return named(_called(self.functions, arrays, {}, "a signature"))


def _common_spec(*specs: TensorSpec) -> TensorSpec:
    first = specs[0]
    is_open = any(spec.shape != first.shape for spec in specs)
    return TensorSpec(None if is_open else first.shape, first.dtype, first.name)


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
        self.fn = fn
        self.parameters = parameters
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    getattr(inspect.Parameter, kind),
                    default=default[0] if default else inspect.Parameter.empty,
                )
                for name, kind, *default in parameters
            ]
        )
        self.call = (args, kwargs)

    @property
    def input_signature(self) -> Any:
        specs = iter(nest.flatten(self.fn.input_signature))
        return nest.map_structure(lambda x: next(specs) if x is ... else x, self.call)

    def fitted(self, args: Any, kwargs: dict[str, Any]) -> Any:
        """Returns the arrays of a call, or raises if it differs from this one."""
        bound = self.__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        structure: Any = jax.tree.structure(self.call, is_leaf=lambda x: x is None)
        fixed = structure.flatten_up_to(self.call)
        given = structure.flatten_up_to((bound.args, bound.kwargs))
        pairs = list(zip(fixed, given, strict=True))
        for fixed, value in pairs:
            if fixed is not ... and not (type(value) is type(fixed) and value == fixed):
                raise ValueError(f"It was traced for {fixed!r}. Received: {value!r}.")
        arrays = [value for fixed, value in pairs if fixed is ...]
        return self.fn.fitted(arrays, {})

    def __call__(self, *arrays: Any) -> Any:
        return self.fn(*arrays)


class Traces:
    """A loaded function with a program for each of several calls.

    Args:
        name: Its name.
        functions: The loaded functions.
    """

    def __init__(self, name: str, functions: list[Any]) -> None:
        self.__name__ = name
        self.functions = functions
        if functions:
            self.__signature__ = inspect.signature(functions[0])

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the function for arguments of these shapes and dtypes."""
        return ConcreteFunction(self, self, (), args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.functions:
            raise ValueError(
                "Found zero restored functions for caller function. Received: a call "
                f"of `{self.__name__}`, which was saved without a trace. Call it once "
                "before it is saved, or give it an `input_signature`."
            )
        return _called(self.functions, args, kwargs, self.__name__)


def _called(functions: Sequence[Any], args: Any, kwargs: Any, name: str) -> Any:
    """Calls the one of several loaded functions that takes these arguments."""
    errors = []
    for fn in functions:
        try:
            fitted, _ = fn.fitted(args, kwargs)
        except (TypeError, ValueError) as error:
            errors.append(error)
            continue
        return fn(*fitted)
    if len(functions) == 1 and isinstance(functions[0], mirrax.Function):
        raise errors[0]
    raise ValueError(
        "Could not find matching concrete function to call loaded from the SavedModel. "
        f"Received: {args} and {kwargs} for `{name}`. It was saved for "
        f"{[fn.input_signature for fn in functions]}."
    ) from errors[-1]


def named(outputs: Any) -> dict[str, Any]:
    if isinstance(outputs, dict):
        return outputs
    if hasattr(outputs, "_asdict"):
        return dict(outputs._asdict())
    return {f"output_{i}": value for i, value in enumerate(nest.flatten(outputs))}


def _path_and_call(name: str) -> tuple[str, Any]:
    """Returns the path of a saved function, and the call it was traced for."""
    end = 0
    while step := _STEP.match(name, end):
        end = step.end()
    found = _TRACE.fullmatch(name, end)
    call = found[1] if found else None
    return name[:end], None if call is None else ast.literal_eval(call)


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
