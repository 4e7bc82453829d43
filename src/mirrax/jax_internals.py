"""The private names of JAX that Mirrax needs, and nothing else.

Everything here was tested with jax 0.10.2. Whoever raises the version reads this file.
The parts of programs (`Jaxpr`, `Primitive`, ...) are public in `jax.extend.core`, but
importing that takes in Pallas too, which would make `import mirrax` a third slower.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

import jax
import numpy as np
from jax.sharding import NamedSharding

from mirrax.jaxlib_internals import put_copy

try:
    from jax._src import callback as _callback
    from jax._src import config as _config
    from jax._src.array import ArrayImpl as ArrayImpl
    from jax._src.core import ClosedJaxpr as ClosedJaxpr
    from jax._src.core import DebugInfo as DebugInfo
    from jax._src.core import Jaxpr as Jaxpr
    from jax._src.core import JaxprEqn as JaxprEqn
    from jax._src.core import Literal as Literal
    from jax._src.core import Primitive as Primitive
    from jax._src.core import Trace as _Trace
    from jax._src.core import Tracer as _Tracer
    from jax._src.core import Var as Var
    from jax._src.core import eval_trace as _eval_trace
    from jax._src.core import set_current_trace as set_current_trace
    from jax._src.core import take_current_trace as take_current_trace
    from jax._src.core import trace_state_strong_ref as _trace_state
    from jax._src.core import typeof as _typeof
    from jax._src.distributed import global_state as _distributed
    from jax._src.interpreters.ad import JVPTrace as _JVPTrace
    from jax._src.interpreters.ad import LinearizeTrace as _LinearizeTrace
    from jax._src.interpreters.partial_eval import DynamicJaxprTrace
    from jax._src.source_info_util import current as _source_info
    from jax._src.source_info_util import user_frames as _user_frames
    from jax._src.xla_bridge import backends as backends
    from jax._src.xla_bridge import backends_are_initialized
    from jax._src.xla_bridge import make_cpu_client as _make_cpu_client
    from jax._src.xla_bridge import register_backend_factory as _register_backend

    _CALLBACKS = _callback.__file__
    _trace_context = _config.trace_context
    _transfer_guards = (
        _config.transfer_guard_host_to_device,
        _config.transfer_guard_device_to_host,
    )
    _config_states = tuple(_config.config_states.values())
except (ImportError, AttributeError) as error:
    raise ImportError(
        "Mirrax was tested with jax 0.10.2 and does not know this version. "
        f"Received: jax {jax.__version__}. Install 'jax>=0.10.2,<0.11'."
    ) from error

_PACKAGE = f"{pathlib.Path(__file__).parent}{os.sep}"


def backend_is_up() -> bool:
    """Returns whether JAX has started a backend, after which devices are fixed."""
    return bool(backends_are_initialized())


def shards(array: jax.Array) -> Sequence[jax.Array]:
    """Returns what each local device holds, in mesh order.

    `addressable_data(i)` of a replicated array is the first device's for every `i`.
    """
    if isinstance(array, jax.core.Tracer):
        raise TypeError(
            "A value that JAX is tracing lies on no devices yet. Received: a traced "
            f"array of shape {array.shape}. Do this outside of jit, grad and vmap, or "
            "inside `mirrax.function`."
        )
    if not isinstance(array, ArrayImpl):
        return [_as_key(array, part) for part in shards(jax.random.key_data(array))]
    if array._arrays is None:
        raise ValueError(
            "An array that a call was given through `donate_argnums`, or that was "
            f"deleted, is gone. Received: such an array of shape {array.shape}. Use "
            "what that call returned, or give it a copy."
        )
    return array._arrays


def uncommitted(array: jax.Array) -> jax.Array:
    """Returns the single-device `array` without its tie to the device.

    JAX refuses to mix arrays that are tied to different devices. Users expect to add
    the results of two replicas, so what Mirrax hands out is never tied.
    """
    if isinstance(array, jax.core.Tracer):
        return array
    if not isinstance(array, ArrayImpl):
        return _as_key(array, uncommitted(jax.random.key_data(array)))
    return view(array) if array._committed else array


def view(array: jax.Array) -> jax.Array:
    """Returns another handle of the single-device `array`, not tied to the device."""
    if not isinstance(array, ArrayImpl):
        return _as_key(array, view(jax.random.key_data(array)))
    handle: jax.Array = ArrayImpl(
        array.aval,
        array.sharding,
        [array],
        committed=False,
        _skip_checks=True,
    )
    return handle


def assembled(
    shape: tuple[int, ...], sharding: NamedSharding, pieces: Sequence[jax.Array]
) -> jax.Array:
    """Returns the array made of `pieces`, one on each local device, in mesh order.

    As `jax.make_array_from_single_device_arrays`, without checking what is known.
    """
    if not isinstance(pieces[0], ArrayImpl):
        return jax.make_array_from_single_device_arrays(shape, sharding, pieces)
    array: jax.Array = ArrayImpl(
        _aval(shape, pieces[0].dtype),
        sharding,
        list(pieces),  # type: ignore[arg-type]
        committed=True,
        _skip_checks=True,
    )
    return array


def copied(value: np.ndarray[Any, Any], device: jax.Device) -> jax.Array:
    """Returns a copy of `value` on `device`, not tied to it.

    As `jax.device_put`, which takes ten times as long.
    """
    aval = _aval(value.shape, value.dtype)
    array: jax.Array = put_copy(aval, _sharding(device), value, device)
    return array


_aval = functools.lru_cache(maxsize=1024)(jax.core.ShapedArray)
_sharding = functools.lru_cache(maxsize=1024)(jax.sharding.SingleDeviceSharding)


def _as_key(like: jax.Array, data: jax.Array) -> jax.Array:
    key: jax.Array = jax.random.wrap_key_data(data, impl=jax.random.key_impl(like))
    return key


def source_of(equation: JaxprEqn) -> str:
    """Returns where in the user's program a step of a traced program comes from."""
    for frame in _user_frames(equation.source_info.traceback):
        if not frame.file_name.startswith(_PACKAGE):
            return f"{frame.file_name}:{frame.start_line} ({frame.function_name})"
    return "an unknown place"


def is_constant(value: object) -> bool:
    """Returns whether a value in a trace is a constant, which has no identity."""
    if not isinstance(value, jax.core.Tracer):
        return True
    return isinstance(getattr(value, "val", None), Literal)


def is_stored(value: object) -> bool:
    """Returns whether `value` is an array in the memory of devices, not a tracer."""
    is_array = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    return is_array and hasattr(value, "sharding")


def current_trace() -> Any:
    """Returns the JAX trace that is under way in this thread."""
    return _trace_state.value


def is_traced_in(value: object, trace: Any) -> bool:
    """Returns whether `value` is a tracer of this trace."""
    return isinstance(value, jax.core.Tracer) and value._trace is trace


def places_of(equation: JaxprEqn) -> list[str]:
    """Returns file:line of the frames an equation was traced in, innermost first."""
    frames = _user_frames(equation.source_info.traceback)
    return [f"{frame.file_name}:{frame.start_line}" for frame in frames]


def evaluated() -> Any:
    """Makes operations happen at once for the `with` block, whatever is traced."""
    return set_current_trace(_eval_trace)


def is_eager() -> bool:
    """Returns whether no JAX transformation is under way in this thread."""
    return _trace_state.value is _eval_trace


def is_program(trace: Any) -> bool:
    """Returns whether a trace makes a program: one of jit, scan, cond, ..."""
    return isinstance(trace, DynamicJaxprTrace)


def is_staging(inside: Any = None) -> bool:
    """Returns whether JAX records operations for later (jit, scan, cond, ...).

    It may do so around other transformations, as in `jax.jit(jax.vmap(f))`.

    Args:
        inside: A trace that is under way; what was begun before it does not count.
    """
    return any(map(is_program, _traces(inside)))


def is_differentiating_only() -> bool:
    """Returns whether no transformation but derivatives and tapes is under way."""
    return all(isinstance(trace, _DERIVATIVES) for trace in _traces(None))


def _traces(inside: Any) -> Iterator[Any]:
    """Yields the traces that are under way in this thread, the innermost first."""
    trace = _trace_state.value
    while trace is not None and trace is not _eval_trace and trace is not inside:
        yield trace
        trace = getattr(trace, "parent_trace", None)


def traces_under_way() -> list[Any]:
    """Returns the traces that are under way in this thread, the innermost first."""
    return list(_traces(None))


def equations_so_far(trace: Any) -> list[JaxprEqn]:
    """Returns the equations of the program that is being traced."""
    equations: list[JaxprEqn] = trace.frame.get_eqns()
    return equations


def atoms_of(values: Sequence[Any], trace: Any) -> list[Any]:
    """Returns what stands for values in the equations of the program."""
    return [trace.to_jaxpr_tracer(value, _source_info()).val for value in values]


Note = Callable[[Callable[..., Any], Sequence[Any], Any], Any]
"""Takes what is done, with what, and what came out, which it returns."""


class RecordingTrace(_Trace):
    """Lets operations happen as they would anyway, and notes each of them.

    What comes out are plain values, of which nobody can tell that they were noted.

    Args:
        note: Takes what was done.
        read: Gives the value of what a `RecordedTracer` stands for.
    """

    def __init__(self, note: Note, read: Callable[[Any], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.parent_trace = current_trace()
        self.note = note
        self._read = read
        self.requires_low = self.parent_trace.requires_low

    def stage_value(self, val: Any) -> Any:
        val = self._plain(val)
        staged = self.parent_trace.stage_value(val)
        return staged if staged is val else self.note(lambda x: x, [val], staged)

    def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
        plain = [self._plain(x) for x in args]
        operation = Operation(primitive, params)
        with set_current_trace(self.parent_trace):
            return self.note(operation, plain, operation(*plain))

    def process_call(self, primitive: Any, f: Any, args: Any, params: Any, /) -> Any:
        return self.process_primitive(primitive, args, {**params, "subfuns": (f,)})

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Any, /, **params: Any
    ) -> Any:
        params["subfuns"] = (fun, jvp)
        return self.process_primitive(primitive, args, params)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Any, /, **params: Any
    ) -> Any:
        params["subfuns"] = (fun, fwd, bwd)
        return self.process_primitive(primitive, args, params)

    def _plain(self, value: Any) -> Any:
        return self._read(value.stands_for) if _is_recorded(value) else value


@dataclasses.dataclass(frozen=True)
class Operation:
    """What JAX is asked to do with some values."""

    primitive: Any
    params: dict[str, Any]

    def __call__(self, *values: Any) -> Any:
        return self.primitive.bind(*values, **self.params)


class RecordedTracer(_Tracer[Any]):
    """What a program closes over so that it becomes an input of it.

    JAX keeps it with the program, and gives it to every call. The trace that the call
    is made in knows the value.

    Args:
        stands_for: What the trace is asked for.
        like: A value of this kind.
    """

    def __init__(self, stands_for: Any, like: Any) -> None:
        super().__init__(_everlasting, _typeof(like))
        self.stands_for = stands_for


_everlasting = _Trace()


def _is_recorded(value: Any) -> TypeGuard[RecordedTracer]:
    return isinstance(value, RecordedTracer)


def is_recording() -> bool:
    """Returns whether operations that happen here are noted."""
    return isinstance(current_trace(), RecordingTrace)


def is_recorded() -> bool:
    """Returns whether what comes out of transformations under way here is noted."""
    return any(isinstance(trace, RecordingTrace) for trace in _traces(None))


_DERIVATIVES = (_JVPTrace, _LinearizeTrace, RecordingTrace)


def is_in_callback() -> bool:
    """Returns whether a program of XLA has called the code that runs here."""
    frame: Any = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_wrapped_callback" and code.co_filename == _CALLBACKS:
            return True
        frame = frame.f_back
    return False


LocalConfig = Sequence[Any]


def config_fingerprint() -> object:
    """Returns something that changes when a setting does that programs depend on."""
    return _trace_context(), _config.debug_nans.value, _config.debug_infs.value


def eager_fingerprint() -> object:
    """Returns `config_fingerprint()`, or None while a transformation is under way."""
    if _trace_state.value is not _eval_trace:
        return None
    # Asked on every call, so it does not call the other.
    return _trace_context(), _config.debug_nans.value, _config.debug_infs.value


def checks_results() -> bool:
    """Returns whether JAX looks for NaN or infinity in what programs return.

    If it finds one it raises, when the arrays that were donated are gone.
    """
    return bool(_config.debug_nans.value or _config.debug_infs.value)


def guards_transfers() -> bool:
    """Returns whether JAX refuses or reports moves between host and device."""
    return any(guard.value not in (None, "allow") for guard in _transfer_guards)


def raising_as_a_whole(function: Any, name: str) -> Any:
    """Returns `function`, to be compiled for several devices.

    Where JAX looks for NaN in what it returns, the error comes at once. Else JAX would
    look for the operation by calling the Python function, and call it for ever where
    that runs on several devices.

    Args:
        function: A function of Python, of nobody else.
        name: What the error calls it.
    """
    function._apply_primitive = True
    function.__qualname__ = name
    return function


def is_jit_disabled() -> bool:
    """Returns whether JAX runs programs operation by operation (`disable_jit`)."""
    return bool(_config.disable_jit.value)


def get_local_config() -> LocalConfig:
    """Returns all thread-local JAX settings."""
    return [state.get_local() for state in _config_states]


def set_local_config(settings: LocalConfig) -> None:
    """Sets all thread-local JAX settings to what `get_local_config` returned."""
    for state, value in zip(_config_states, settings, strict=True):
        if state.get_local() is not value:
            state.set_local(value)


def is_distributed() -> bool:
    """Returns whether JAX is connected to a coordination service."""
    return _distributed.client is not None


def set_distributed(client: Any, process_index: int, num_processes: int) -> None:
    """Makes JAX one of several processes, which meet through a connected client.

    This is what `jax.distributed.initialize` does, except that it starts no service in
    this process and takes no signal handlers.
    """
    _distributed.client = client
    _distributed.process_id = process_index
    _distributed.num_processes = num_processes


def forget_distributed() -> Any:
    """Makes JAX leave the others without waiting for them; returns its client."""
    client = _distributed.client
    _distributed.client = None
    return client


def set_cpu_collectives(collectives: Any) -> None:
    """Makes the CPU backend, when it starts, move data between processes with these."""
    _register_backend(
        "cpu",
        functools.partial(_make_cpu_client, collectives),
        priority=0,
        fail_quietly=False,
    )
