"""Callbacks into Python, custom gradients, printing and devices."""

from __future__ import annotations

import builtins
import contextlib
import functools
import logging
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import mirrax
from mirrax.tf.device_specs import DeviceSpec
from mirrax.tf.errors import NotCompilable
from mirrax.tf.namespaces.exports import export
from mirrax.tf.tensors.host_tensors import HostTensor, host
from mirrax.tf.tensors.tensor import conjugate, is_traced, tensor

_PRIVATE = frozenset(globals())

_logger = logging.getLogger(__name__)
_FILE = "file://"
# Looked up at each print: programs may replace them.
_STREAMS = {"stdout": lambda: sys.stdout, "stderr": lambda: sys.stderr}


def py_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,  # noqa: N803 - TensorFlow's name
    name: Any = None,
) -> Any:
    """Calls `func` with tensors; returns its results as tensors of types `Tout`."""
    if func is None:
        return _decorator(py_function, Tout)
    return _called(lambda *given: func(*map(_given, given)), inp, Tout)


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,  # noqa: N803 - TensorFlow's name
    stateful: bool = True,
    name: Any = None,
) -> Any:
    """Calls `func` with NumPy arrays; returns tensors of types `Tout`."""
    if func is None:
        return _decorator(numpy_function, Tout)
    return _called(lambda *given: func(*map(np.asarray, given)), inp, Tout)


def _decorator(call: Callable[..., Any], types: Any) -> Callable[..., Any]:
    """Returns `@tf.py_function(Tout=...)`."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def called(*args: Any) -> Any:
            return call(func, args, types)

        return called

    return decorate


def _given(value: Any) -> Any:
    """Returns an input as a tensor; host values stay on the host."""
    shown = host(value)
    return shown if isinstance(shown, HostTensor) else tensor(value)


def _called(func: Callable[..., Any], inputs: Any, types: Any) -> Any:
    has_results = types is not None and types not in ([], ())
    if not inside_function():
        result = func(*inputs)
        return _typed(result, types) if has_results else None
    if has_results:
        raise NotCompilable(
            "The results of a Python function must have known shapes. Received: "
            "`tf.py_function` or `tf.numpy_function` inside `tf.function`. Use "
            "`jax.pure_callback`, which takes the shapes, or call it outside, in "
            "`Dataset.map` for example."
        )

    def call(*given: Any) -> None:
        func(*given)

    jax.debug.callback(call, *inputs)
    return None


def _typed(result: Any, types: Any) -> Any:
    if not isinstance(types, list | tuple):
        return tensor(result, _dtype(types))
    results = result if isinstance(result, list | tuple) else [result]
    return [tensor(x, _dtype(t)) for x, t in zip(results, types, strict=True)]


def _dtype(kind: Any) -> Any:
    return getattr(kind, "dtype", kind)


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function with the gradient that `f` returns beside its result.

    Keyword arguments have no gradient.
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _with_gradient(functools.partial(f, **kwargs), args)

    return wrapped


def _with_gradient(f: Callable[..., Any], args: Any) -> Any:
    @jax.custom_vjp
    def call(*args: Any) -> Any:
        return jax.tree.map(tensor, f(*args)[0])

    def forward(*args: Any) -> Any:
        # Not `f`: a derivative of the derivative must find its gradient, too.
        return call(*args), args

    def backward(args: Any, upstream: Any) -> Any:
        _, gradient = f(*args)
        many = upstream if isinstance(upstream, tuple | list) else (upstream,)
        found = gradient(*map(conjugate, many))
        gradients = tuple(found) if isinstance(found, tuple | list) else (found,)
        if len(gradients) != len(args):
            raise ValueError(
                f"custom_gradient function expected to return {len(args)} gradients, "
                f"but returned {len(gradients)} instead. Received: {f!r}. Return one "
                "for each argument."
            )
        return tuple(map(conjugate, gradients))

    call.defvjp(forward, backward)
    arrays = [tensor(value) for value in args]
    if inside_function():
        # There JAX raises for variables.
        return call(*arrays)
    with mirrax.GradientTape() as tape:
        result = call(*arrays)
    reads = tape.watched_variables()
    return _refusing_gradients(f, result, reads) if reads else result


def _refusing_gradients(f: Any, result: Any, variables: Any) -> Any:
    """Returns the result of `f`, which raises when it is differentiated."""

    @jax.custom_vjp
    def call(result: Any, *_: Any) -> Any:
        return result

    def backward(_: Any, upstream: Any) -> Any:
        raise TypeError(
            "A function with a gradient of its own must not read variables where it is "
            f"differentiated. Received: {f!r}, which reads "
            f"{', '.join(v.name for v in variables)}. Pass their values as arguments, "
            "and return their gradients beside those of the others."
        )

    call.defvjp(lambda *args: (args[0], None), backward)
    return call(result, *[variable.value for variable in variables])


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `f`, rematerialized for its gradient."""
    return jax.checkpoint(f)


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `f` with the gradient of the identity."""

    @functools.wraps(f)
    def wrapped(x: Any) -> Any:
        x = tensor(x)
        return x + jax.lax.stop_gradient(f(x) - x)

    return wrapped


def stop_gradient(input: Any, name: Any = None) -> Any:
    return jax.tree.map(lambda x: jax.lax.stop_gradient(tensor(x)), input)


def print(*inputs: Any, **kwargs: Any) -> None:
    """Prints values; in compiled code, at run time."""
    stream = kwargs.get("output_stream", sys.stderr)
    separator, end = kwargs.get("sep", " "), kwargs.get("end", "\n")

    def show(*values: Any) -> None:
        filled = iter(values)
        texts = [next(filled) if is_traced(item) else _shown(item) for item in inputs]
        with _opened(stream) as file:
            builtins.print(*texts, sep=separator, end=end, file=file)

    traced = [item for item in inputs if is_traced(item)]
    if traced:
        jax.debug.callback(show, *traced)
    else:
        show()


@contextlib.contextmanager
def _opened(stream: Any) -> Iterator[Any]:
    """Opens a stream: a file object, "stdout", "stderr" or a `file://` path."""
    if isinstance(stream, str) and stream.startswith(_FILE):
        with pathlib.Path(stream.removeprefix(_FILE)).open("a") as file:
            yield file
    else:
        yield _STREAMS[stream]() if isinstance(stream, str) else stream


def _shown(item: Any) -> Any:
    plain = str | bytes | bool | int | float
    return jax.tree.map(lambda x: x if isinstance(x, plain) else np.asarray(x), item)


@contextlib.contextmanager
def device(device_name: Any) -> Iterator[None]:
    """Creates new tensors on a device; on the default one if there are none such."""
    if isinstance(device_name, str | DeviceSpec):
        spec = DeviceSpec.from_string(device_name)
        if spec.device_type and spec.device_index is None:
            spec = spec.replace(device_index=0)
        device_name = spec.to_string()
    if device_name is None or _is_absent(device_name):
        yield
        return
    (chosen,) = mirrax.OneDeviceStrategy(device_name).topology.devices
    with jax.default_device(chosen):
        yield


def _is_absent(device_name: Any) -> bool:
    """Returns whether this names a GPU or TPU, and the process has none: a log line."""
    kind = DeviceSpec.from_string(str(device_name)).device_type
    is_absent = kind in ("GPU", "TPU") and not mirrax.config.list_logical_devices(kind)
    if is_absent:
        _logger.info("There is no %s: `tf.device` keeps the default device.", kind)
    return is_absent


def executing_eagerly() -> bool:
    """Returns whether code runs eagerly, and is not traced."""
    return not inside_function()


def inside_function() -> bool:
    return isinstance(jax.numpy.zeros(()) + 0, jax.core.Tracer)


def get_logger() -> logging.Logger:
    """Returns the logger named "tensorflow"."""
    return logging.getLogger("tensorflow")


def timestamp(name: Any = None) -> float:
    """Returns the time in seconds; in compiled code, the time of the trace."""
    return time.time()


export(globals(), _PRIVATE)
