"""Tensors are JAX arrays; conversions of values to tensors.

Importing this module adds TensorFlow's tensor methods to `jax.Array`, and methods of
strings to `jax.Device`, because TensorFlow's devices are names.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim

import mirrax
from mirrax.tf.dtypes import canonical, float32, int32, int64, string
from mirrax.tf.tensors.host_tensors import HostTensor, tensor_text
from mirrax.tf.tensors.open_shapes import OpenShape
from mirrax.tf.tensors.ragged_tensors import RaggedTensor, RaggedTensorSpec
from mirrax.tf.tensors.sparse_tensors import SparseTensor, SparseTensorSpec
from mirrax.tf.tensors.tensor_shape import TensorShape

_NUMBERS = (bool, int, float, complex)


class _TensorType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, jax.Array | HostTensor)


class Tensor(metaclass=_TensorType):
    """`tf.Tensor`, for `isinstance`: a `jax.Array` or a `HostTensor`."""


class _TypeSpecType(type):
    def __instancecheck__(cls, value: object) -> bool:
        is_plain = isinstance(value, mirrax.TensorSpec | mirrax.PerReplicaSpec)
        return is_plain or isinstance(value, (RaggedTensorSpec, SparseTensorSpec))


class TypeSpec(metaclass=_TypeSpecType):
    """`tf.TypeSpec`, for `isinstance`: a spec of a tensor, or one for each replica."""


def type_spec_from_value(value: Any) -> Any:
    """Returns the spec of a tensor, a variable, an array or a `PerReplica`."""
    if isinstance(value, mirrax.PerReplica):
        return mirrax.PerReplicaSpec(tuple(map(type_spec_from_value, value.values)))
    if isinstance(value, RaggedTensor):
        return RaggedTensorSpec(value.shape, value.dtype)  # type: ignore[call-arg]
    if isinstance(value, SparseTensor):
        return SparseTensorSpec(value.shape, value.dtype)  # type: ignore[call-arg]
    if not hasattr(value, "dtype"):
        value = tensor(value)
    return mirrax.TensorSpec(tuple(value.shape), value.dtype)


def tensor(value: Any, dtype: Any = None) -> Any:
    """Returns `value` as an array; raises for a `PerReplica`."""
    if isinstance(value, mirrax.PerReplica):
        raise ValueError(
            "A PerReplica is not a tensor: it has a value for each replica, and this "
            f"is not inside a replica context. Received: {value!r}. Use it inside "
            "`strategy.run`, or combine it with `strategy.reduce`."
        )
    if isinstance(value, OpenShape):
        return value.traced(canonical(int32 if dtype is None else dtype))
    if holds_strings(value) or (dtype is not None and np.dtype(dtype) == string):
        return string_tensor(value)
    array = jnp.asarray(value, dtype_of_numbers(value) if dtype is None else None)
    # With an explicit dtype, so that it is not weakly typed.
    return jnp.asarray(array, canonical(array.dtype if dtype is None else dtype))


def dtype_of_numbers(value: Any) -> Any:
    """Returns TensorFlow's dtype of Python numbers or lists of them; None for others.

    It has 32 bits, also where `jax_enable_x64` is set.
    """
    if hasattr(value, "dtype") or canonical(int64) == int32:
        return None
    numbers = jax.tree.leaves(value)
    kinds = set(map(type, numbers))
    if not kinds <= {bool, int, float} or kinds == {bool}:
        return None
    if float in kinds or not kinds:
        return float32
    return int32 if all(-(2**31) <= x < 2**31 for x in numbers) else int64


def operands(*values: Any) -> list[Any]:
    """Returns operands as tensors; Python numbers take the dtype of the others.

    So do lists of them, promoted as such a number would be.
    """
    if all(isinstance(value, _NUMBERS) for value in values):
        return [tensor(value) for value in values]
    dtypes = [value.dtype for value in values if hasattr(value, "dtype")]

    def operand(value: Any) -> Any:
        if isinstance(value, _NUMBERS):
            return value
        if isinstance(value, list) and dtypes and string not in dtypes:
            leaves = jax.tree.leaves([*value])
            return tensor([*value], jnp.result_type(*dtypes, *leaves))
        return tensor(value)

    return [operand(value) for value in values]


def string_tensor(value: Any) -> HostTensor:
    """Returns text or bytes, or lists of them, as a tensor of bytes."""
    array = np.array(value, dtype=object)
    encoded = [x.encode() if isinstance(x, str) else x for x in array.reshape(-1)]
    result = np.empty(len(encoded), dtype=object)
    result[:] = encoded
    return result.reshape(array.shape).view(HostTensor)


def is_string_tensor(value: Any) -> bool:
    """Returns whether this is an array of strings, which stays on the host."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "OSU"


def library_of(*tensors: Any) -> Any:
    """Returns NumPy for tensors of strings, `jax.numpy` for others."""
    return np if any(map(is_string_tensor, tensors)) else jnp


def is_traced(tree: Any) -> bool:
    """Returns whether any leaf is traced: its value is not known yet."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def is_row_stand_in(value: Any) -> bool:
    """Returns whether `value` represents many elements of a dataset at once.

    Such values support NumPy's arithmetic and are not converted, so that the function
    given to `Dataset.map` is called once for many elements.
    """
    is_duck = isinstance(value, np.lib.mixins.NDArrayOperatorsMixin)
    return is_duck and not isinstance(value, np.ndarray)


def axes(axis: Any) -> Any:
    """Returns an axis as an integer, or several as a tuple."""
    if axis is None or isinstance(axis, int):
        return axis
    array = np.asarray(axis)
    return int(array) if array.ndim == 0 else tuple(int(a) for a in array)


def sizes(shape: Any) -> tuple[int, ...]:
    """Returns a shape, given as integers or as an array, as a tuple."""
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    if isinstance(shape, jax.Array | np.ndarray):
        return tuple(np.asarray(shape).reshape(-1).tolist())
    return tuple(_size(size) for size in shape)


def _size(given: Any) -> Any:
    return given if is_symbolic_dim(given) else int(given)


def conjugate(value: Any) -> Any:
    """Returns the complex conjugate of an array; other values as they are."""
    return jnp.conj(value) if jnp.iscomplexobj(value) else value


def holds_strings(value: Any) -> bool:
    """Returns whether a value is text, or holds texts."""
    if isinstance(value, str | bytes):
        return True
    if isinstance(value, list | tuple):
        return bool(value) and holds_strings(value[0])
    dtype = getattr(value, "dtype", None)
    return dtype == string or getattr(dtype, "kind", "") in ("S", "U")


def _numpy(array: jax.Array) -> Any:
    """Returns a NumPy copy of the array; of a scalar, its value."""
    copy = np.array(array)
    return copy[()] if copy.ndim == 0 else copy


def _get_shape(array: jax.Array) -> TensorShape:
    return TensorShape(array.shape)


def _set_shape(array: jax.Array, shape: Any) -> None:
    """Raises unless the array has this shape."""
    TensorShape(array.shape).assert_is_compatible_with(shape)


def _is_compatible_with(spec: mirrax.TensorSpec, other: Any) -> bool:
    """Returns whether a value, or what another spec describes, fits a spec."""
    found = other if isinstance(other, mirrax.TensorSpec) else tensor(other)
    return found.dtype == spec.dtype and TensorShape(spec.shape).is_compatible_with(
        found.shape
    )


def _spec_of(value: Any, name: str | None = None) -> mirrax.TensorSpec:
    """Returns the spec of a value, or another spec, with this name."""
    is_spec = isinstance(value, mirrax.TensorSpec)
    found = value if is_spec else tensor(value)
    own = value.name if is_spec else None
    return mirrax.TensorSpec(found.shape, found.dtype, name or own)


def _repr(part: Any) -> str:
    """Returns the text of a part of a `PerReplica`; arrays as TensorFlow's."""
    if not isinstance(part, jax.Array) or isinstance(part, jax.core.Tracer):
        return repr(part)
    value = np.asarray(part)
    if value.dtype == jax.dtypes.canonicalize_dtype(np.int64):
        # So that NumPy does not print the dtype of JAX's default integers.
        value = value.astype(np.int64)
    shown = str(value) if value.ndim == 0 else repr(value)
    return tensor_text(part.shape, part.dtype, shown)


def _str(part: Any) -> str:
    """Returns what `print` shows of a part of a `PerReplica`."""
    if not isinstance(part, jax.Array) or isinstance(part, jax.core.Tracer):
        return str(part)
    return f"tf.Tensor({np.asarray(part)}, shape={part.shape}, dtype={part.dtype})"


def _name_of(device: jax.Device) -> str:
    siblings = jax.local_devices(device.process_index, backend=device.platform)
    kind = {"cuda": "GPU", "rocm": "GPU"}.get(device.platform, device.platform.upper())
    return f"/job:localhost/replica:0/task:0/device:{kind}:{siblings.index(device)}"


def _string_method(name: str) -> Any:
    def method(device: jax.Device, *args: Any) -> Any:
        return getattr(_name_of(device), name)(*args)

    return method


def _dtype_text(dtype: np.dtype[Any]) -> str:
    """Returns TensorFlow's name of a dtype."""
    return "tf.string" if dtype.kind in "OSU" else f"tf.{dtype.name}"


def _equals(device: jax.Device, other: Any) -> bool:
    return _name_of(device) == other if isinstance(other, str) else device is other


for _method in (("__str__", _name_of), ("__eq__", _equals)):
    setattr(jax.Device, *_method)
# A traced array is on no device yet.
setattr(jax.core.Tracer, "device", "")  # noqa: B010 - type checkers know another type
jax.Array.backing_device = property(  # type: ignore[attr-defined]
    lambda array: _name_of(array.device)
)
jax.Array.numpy = _numpy  # type: ignore[attr-defined]
for _kind in (jax.Array, jax.core.Tracer):
    for _name, _function in (("get_shape", _get_shape), ("set_shape", _set_shape)):
        setattr(_kind, _name, _function)
mirrax.DistributedValues.part_repr = _repr
mirrax.DistributedValues.part_str = _str
# In TensorFlow there is no other name for the specs of the parts.
setattr(mirrax.PerReplicaSpec, "_value_specs", property(lambda spec: spec.parts))  # noqa: B010
mirrax.TensorSpec.is_compatible_with = _is_compatible_with  # type: ignore[attr-defined]
for _name in ("from_tensor", "from_spec"):
    setattr(mirrax.TensorSpec, _name, staticmethod(_spec_of))
mirrax.TensorSpec.dtype_text = staticmethod(_dtype_text)  # type: ignore[method-assign]
for _name in ("split", "startswith", "endswith", "lower", "upper", "__contains__"):
    setattr(jax.Device, _name, _string_method(_name))
