"""Functions with fixed non-array arguments: `get_concrete_function`."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import jax
import jax.export
import numpy as np

import mirrax
from mirrax import TensorSpec
from mirrax.tf import nest
from mirrax.tf.namespaces.missing_names import replacement_of
from mirrax.tf.tensors.tensor_shape import TensorShape


class ConcreteFunction:
    """A function for arrays of given shapes and dtypes; other arguments are fixed.

    Args:
        fn: The function.
        python_function: The Python function, for the names of its arguments.
        bound: The object, if it is a method.
        args: A `TensorSpec` for each array, and the fixed arguments.
        kwargs: The same, by keyword.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        python_function: Callable[..., Any],
        bound: Sequence[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self._fn = functools.partial(fn, *bound)
        self.name = getattr(python_function, "__name__", repr(python_function))
        parameters = list(inspect.signature(python_function).parameters.values())
        self._signature = inspect.Signature(parameters[len(bound) :])
        self._structure = self._whole_call(args, kwargs)
        paths = _paths(self._signature, self._structure)
        self._leaves = list(map(_described, nest.flatten(self._structure), paths))
        self._open = [i for i, leaf in enumerate(self._leaves) if _is_open(leaf)]
        named = {i: spec.name for i, spec in enumerate(self._leaves) if _is_spec(spec)}
        self._names = _unique(named.get(i, paths[i]) for i in self._open)
        self.key = (
            tuple(map(id, bound)),
            jax.tree.structure(nest.map_structure(lambda _: 0, self._structure)),
            tuple(map(_key_of, self._leaves)),
        )
        """What equal concrete functions of one function have in common."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(x, kind) for x in self._names if x.isidentifier()]
        )

    @property
    def structured_input_signature(self) -> Any:
        """The positional and keyword arguments, with a `TensorSpec` for each array."""
        return nest.pack_sequence_as(self._structure, self._leaves)

    @property
    def named_inputs(self) -> list[TensorSpec]:
        """The arrays that it takes, each with its keyword name."""
        return [
            TensorSpec(self._leaves[i].shape, self._leaves[i].dtype, name)
            for i, name in zip(self._open, self._names, strict=True)
        ]

    inputs = named_inputs

    @functools.cached_property
    def structured_outputs(self) -> Any:
        """A `TensorSpec` for each result."""
        return output_specs(self._called, self.named_inputs)

    @property
    def outputs(self) -> list[TensorSpec]:
        """The results."""
        return jax.tree.leaves(self.structured_outputs)

    @property
    def output_shapes(self) -> Any:
        specs = self.structured_outputs
        return jax.tree.map(lambda spec: TensorShape(spec.shape), specs)

    @property
    def output_dtypes(self) -> Any:
        return jax.tree.map(lambda spec: spec.dtype, self.structured_outputs)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """Returns a text about its arguments and results."""
        args, kwargs = self.structured_input_signature
        parameters = self._signature.parameters
        lines = [
            f"{name} ({parameters[name].kind.name}): {_text(value)}"
            for name, value in self._signature.bind(*args, **kwargs).arguments.items()
        ]
        result = _text(self.structured_outputs)
        inputs = "\n  ".join(["Input Parameters:", *lines])
        return f"{inputs}\nOutput Type:\n  {result}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            arrays = self._arrays_of_whole_call(args, kwargs)
        except TypeError as error:
            arrays = self._arrays_alone(args, kwargs, error)
        for number, index in enumerate(self._open):
            spec = self._leaves[index]
            if _is_spec(spec):
                arrays[number] = spec.converted(arrays[number])
                spec.check(arrays[number])
        return self._called(*arrays)

    def _called(self, *arrays: Any) -> Any:
        filled = list(self._leaves)
        for index, value in zip(self._open, arrays, strict=True):
            filled[index] = value
        args, kwargs = nest.pack_sequence_as(self._structure, filled)
        return self._fn(*args, **kwargs)

    def _whole_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _arrays_of_whole_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Any]:
        """Returns the arrays among arguments like those that it was created for."""
        given = self._whole_call(args, kwargs)
        if len(nest.flatten(given)) != len(self._leaves):
            raise TypeError("the arguments are nested in another way")
        nest.assert_same_structure(self._structure, given)
        pairs = list(zip(self._leaves, nest.flatten(given), strict=True))
        for leaf, value in pairs:
            if not _is_open(leaf) and _key_of(value) != _key_of(leaf):
                raise TypeError(f"Can not cast {value!r} to {_text(leaf)}")
        return [pairs[index][1] for index in self._open]

    def _arrays_alone(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError
    ) -> list[Any]:
        """Returns the arrays of a call without the fixed arguments."""
        given = nest.flatten(args)
        named = self._names[len(given) :]
        if len(given) + len(kwargs) != len(self._names) or {*named} != {*kwargs}:
            raise TypeError(
                f"Binding inputs to tf.function failed due to `{error}`. A concrete "
                "function takes only the arrays it was created for: "
                f"{self.named_inputs}. Received: {len(given)} arrays, and "
                f"{sorted(kwargs)}. Give the other arguments as they were, or omit "
                f"them all, or call {self.name} itself."
            ) from error
        return [*given, *(kwargs[name] for name in named)]

    def __getattr__(self, name: str) -> NoReturn:
        full = f"tf.types.experimental.ConcreteFunction.{name}"
        advice = "" if name.startswith("_") else f" {replacement_of(full)}"
        raise AttributeError(f"`mirrax.tf` has no `{full}`.{advice}", name=name)

    def __repr__(self) -> str:
        args, kwargs = self.structured_input_signature
        return f"<ConcreteFunction {self.name} for {args}, {kwargs}>"


def _paths(signature: inspect.Signature, structure: Any) -> list[str]:
    """Returns a name for each leaf: of `x["a"]`, "x_a"."""
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    names = [p.name for p in signature.parameters.values() if p.kind in kinds]
    args = {**dict(enumerate(names))}
    numbered = nest.pack_sequence_as(structure, range(len(nest.flatten(structure))))
    found = []
    for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]:
        steps = [jax.tree_util.keystr((step,), simple=True) for step in path[1:]]
        if path[0].idx == 0:
            number = int(steps[0])
            steps[0] = args.get(number, f"args_{number - len(names)}")
        found.append("_".join(steps))
    return found


def _described(leaf: Any, path: str) -> Any:
    if isinstance(leaf, jax.Array | np.ndarray | np.generic | TensorSpec):
        return TensorSpec(leaf.shape, leaf.dtype, getattr(leaf, "name", None) or path)
    return leaf


def _is_spec(leaf: Any) -> bool:
    return isinstance(leaf, TensorSpec)


def _is_open(leaf: Any) -> bool:
    return _is_spec(leaf) or isinstance(leaf, mirrax.Variable)


def _unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        free = (x for x in itertools.chain([name], numbered) if x not in found)
        found.append(next(free))
    return found


def _key_of(leaf: Any) -> Any:
    plain = (bool, int, float, complex, str, bytes, TensorSpec)
    return (type(leaf), leaf) if isinstance(leaf, plain) else id(leaf)


def _text(value: Any) -> str:
    """Returns a type as TensorFlow writes it: `List[Literal[1]]`."""
    if isinstance(value, Mapping):
        items = [f"[{key!r}, {_text(item)}]" for key, item in value.items()]
        return f"Dict[{', '.join(items)}]"
    if hasattr(value, "_fields"):
        items = [f"[{key!r}, {_text(item)}]" for key, item in value._asdict().items()]
        return f"{type(value).__name__}[{', '.join(items)}]"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__.title()}[{', '.join(map(_text, value))}]"
    if _is_spec(value):
        return repr(TensorSpec(value.shape, value.dtype))
    return repr(value) if _is_open(value) else f"Literal[{value!r}]"


def output_specs(fn: Callable[..., Any], specs: Sequence[Any]) -> Any:
    """Returns a `TensorSpec` for each result of a function of such arrays.

    The shapes of results are unknown if the rank of an argument is.
    """
    leaves = nest.flatten(specs)
    try:
        found = traced_outputs(fn, specs)
    except Exception:
        # Unknown sizes that must agree, as in `matmul(x, x)`, get one symbol.
        found = traced_outputs(fn, specs, "batch")
    has_ranks = all(spec.shape is not None for spec in leaves)
    return jax.tree.map(lambda result: _spec_of(result, has_ranks), found)


def traced_outputs(
    fn: Callable[..., Any], specs: Sequence[Any], symbol: str = "size_{}_{}"
) -> Any:
    """Returns what a function of such arrays gives when it is traced.

    Args:
        fn: The function.
        specs: The `TensorSpec`s.
        symbol: The names of unknown sizes. Sizes of one name agree.
    """
    scope = jax.export.SymbolicScope()
    leaves = enumerate(nest.flatten(specs))
    stand_ins = [_stand_in(number, spec, symbol, scope) for number, spec in leaves]
    arrays = nest.pack_sequence_as(specs, stand_ins)
    found: list[Any] = []

    # Inside of a trace, what it assigns to variables is dropped.
    @mirrax.function
    def probe() -> None:
        found.append(mirrax.eval_shape(fn, *arrays))

    probe()
    return found[0]


def _stand_in(number: int, spec: TensorSpec, symbol: str, scope: Any) -> Any:
    """Returns what to trace with; unknown sizes are symbols, an unknown rank is 0.

    Unknown first sizes are the same, as in an exported function.
    """
    sizes = [
        (symbol.format(number, axis) if axis else "batch")
        if size is None
        else str(size)
        for axis, size in enumerate(spec.shape or ())
    ]
    shape = jax.export.symbolic_shape(", ".join(sizes), scope=scope)
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(spec.dtype))


def _spec_of(result: Any, has_ranks: bool) -> TensorSpec:
    sizes = [size if isinstance(size, int) else None for size in result.shape]
    return TensorSpec(sizes if has_ranks else None, result.dtype)


class BoundFunction(functools.partial[Any]):
    """A `tf.function` that is a method, bound to its object."""

    def __getattr__(self, name: str) -> Any:
        # Not `__wrapped__`, whose arguments include the object.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.func, name)

    def traced_calls(self) -> list[tuple[Any, dict[str, Any]]]:
        """Returns the arguments that the method was traced with."""
        return self.func.traced_calls(*self.args)  # type: ignore[attr-defined]

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Returns the method for arguments of these shapes and dtypes."""
        return self.func.get_concrete_function(*self.args, *args, **kwargs)  # type: ignore[attr-defined]
