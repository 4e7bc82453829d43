"""The private names of JAX that Mirrax needs, and nothing else.

Everything here was tested with jax 0.10.2. Whoever raises the version reads this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core as jax_core

try:
    from jax._src import config as _config
    from jax._src.array import ArrayImpl
    from jax._src.core import eval_trace as _eval_trace
    from jax._src.interpreters.partial_eval import DynamicJaxprTrace
    from jax._src.xla_bridge import backends_are_initialized

    _unset = _config.config_ext.unset
    _trace_context = _config.trace_context
    _config_states = tuple(_config.config_states.values())
except (ImportError, AttributeError) as error:
    raise ImportError(
        "Mirrax was tested with jax 0.10.2 and does not know this version. "
        f"Received: jax {jax.__version__}. Install 'jax>=0.10.2,<0.11'."
    ) from error


def backend_is_up() -> bool:
    """Returns whether JAX has started a backend, after which devices are fixed."""
    return bool(backends_are_initialized())


def shards(array: jax.Array) -> list[jax.Array]:
    """Returns what each local device holds, in mesh order.

    `addressable_data(i)` of a replicated array is the first device's for every `i`.
    """
    return array._arrays  # type: ignore[attr-defined, no-any-return]


def uncommitted(array: jax.Array) -> jax.Array:
    """Returns the single-device `array` without its tie to the device.

    JAX refuses to mix arrays that are tied to different devices. Users expect to add
    the results of two replicas, so what Mirrax hands out is never tied.
    """
    if not array._committed:  # type: ignore[attr-defined]
        return array
    return view(array)


def view(array: jax.Array) -> jax.Array:
    """Returns another handle of the single-device `array`, not tied to the device."""
    handle: jax.Array = ArrayImpl(
        array.aval,
        array.sharding,
        [array],  # type: ignore[list-item]
        committed=False,
        _skip_checks=True,
    )
    return handle


def is_committed(array: jax.Array) -> bool:
    """Returns whether `array` is tied to its devices."""
    return bool(array._committed)  # type: ignore[attr-defined]


def current_trace() -> Any:
    """Returns the JAX trace that is under way in this thread."""
    return jax_core.find_top_trace(())


def is_eager() -> bool:
    """Returns whether no JAX transformation is under way in this thread."""
    return current_trace() is _eval_trace


def is_staging() -> bool:
    """Returns whether JAX records operations for later (jit, scan, cond, ...)."""
    return isinstance(current_trace(), DynamicJaxprTrace)


LocalConfig = Sequence[tuple[Any, Any]]


def config_fingerprint() -> object:
    """Returns something that changes when a thread-local JAX setting does."""
    return _trace_context()


def take_local_config() -> LocalConfig:
    """Removes the thread-local JAX settings but the default device; returns them."""
    taken = [
        (state, state.get_local())
        for state in _config_states
        if state._name != "jax_default_device"
    ]
    taken = [(state, value) for state, value in taken if value is not _unset]
    for state, _ in taken:
        state.set_local(_unset)
    return taken


def put_local_config(settings: LocalConfig) -> None:
    """Sets the settings that `take_local_config` removed."""
    for state, value in settings:
        state.set_local(value)
