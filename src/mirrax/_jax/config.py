"""Settings of JAX that programs depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrax._jax.private import config_states, trace_context, trace_state
from mirrax._jax.traces import EVAL_TRACE

_debug_nans = config_states["jax_debug_nans"]
_debug_infs = config_states["jax_debug_infs"]
_disable_jit = config_states["jax_disable_jit"]
_transfer_guards = (
    config_states["jax_transfer_guard_host_to_device"],
    config_states["jax_transfer_guard_device_to_host"],
)
_states = tuple(config_states.values())

LocalConfig = Sequence[Any]


def config_fingerprint() -> object:
    """Returns something that changes when a setting does that programs depend on."""
    return trace_context(), _debug_nans.value, _debug_infs.value


def eager_fingerprint() -> object:
    """Returns `config_fingerprint()`, or None while a transformation is under way."""
    if trace_state.value is not EVAL_TRACE:
        return None
    # Asked on every call, so it does not call the other.
    return trace_context(), _debug_nans.value, _debug_infs.value


def checks_results() -> bool:
    """Returns whether JAX looks for NaN or infinity in what programs return.

    If it finds one it raises, when the arrays that were donated are gone.
    """
    return bool(_debug_nans.value or _debug_infs.value)


def guards_transfers() -> bool:
    """Returns whether JAX refuses or reports moves between host and device."""
    return any(guard.value not in (None, "allow") for guard in _transfer_guards)


def without_nan_rerun(function: Any, name: str) -> Any:
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
    return bool(_disable_jit.value)


def get_local_config() -> LocalConfig:
    """Returns all thread-local JAX settings."""
    return [state.get_local() for state in _states]


def set_local_config(settings: LocalConfig) -> None:
    """Sets all thread-local JAX settings to what `get_local_config` returned."""
    for state, value in zip(_states, settings, strict=True):
        if state.get_local() is not value:
            state.set_local(value)
