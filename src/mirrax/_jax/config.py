"""Settings of JAX that programs depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrax._jax.private import config as _config
from mirrax._jax.private import config_states as _config_states
from mirrax._jax.private import eval_trace as _eval_trace
from mirrax._jax.private import trace_context as _trace_context
from mirrax._jax.private import trace_state as _trace_state
from mirrax._jax.private import transfer_guards as _transfer_guards

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
    return bool(_config.disable_jit.value)


def get_local_config() -> LocalConfig:
    """Returns all thread-local JAX settings."""
    return [state.get_local() for state in _config_states]


def set_local_config(settings: LocalConfig) -> None:
    """Sets all thread-local JAX settings to what `get_local_config` returned."""
    for state, value in zip(_config_states, settings, strict=True):
        if state.get_local() is not value:
            state.set_local(value)
