"""Reads, saves and restores the settings of JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrax._jax.private import config_states, trace_context, trace_state
from mirrax._jax.traces import EVAL_TRACE

_debug_nans = config_states["jax_debug_nans"]
_debug_infs = config_states["jax_debug_infs"]
_disable_jit = config_states["jax_disable_jit"]
_evaluates_constants = config_states["eager_constant_folding"]
_transfer_guards = (
    config_states["jax_transfer_guard_host_to_device"],
    config_states["jax_transfer_guard_device_to_host"],
)
_states = tuple(config_states.values())
# Bound methods, because an eager `run` calls all of them.
_getters = [state.get_local for state in _states]

LocalConfig = Sequence[Any]


def config_fingerprint() -> object:
    """Returns a key for the settings that compiled programs depend on."""
    return trace_context(), _debug_nans.value, _debug_infs.value


def eager_fingerprint() -> object:
    """Returns `config_fingerprint()`, or None while a transformation is under way."""
    if trace_state.value is not EVAL_TRACE:
        return None
    # Called on every step, so the call of `config_fingerprint` is inlined.
    return trace_context(), _debug_nans.value, _debug_infs.value


def checks_results() -> bool:
    """Returns whether JAX checks the outputs of programs for NaN or infinity.

    It raises after the program ran, when donated arrays are already deleted.
    """
    return bool(_debug_nans.value or _debug_infs.value)


def evaluates_constants() -> bool:
    """Returns whether this is a `jax.ensure_compile_time_eval` block."""
    return bool(_evaluates_constants.value)


def guards_transfers() -> bool:
    """Returns whether JAX disallows or logs transfers between host and device."""
    return any(guard.value not in (None, "allow") for guard in _transfer_guards)


def without_nan_rerun(function: Any, name: str) -> Any:
    """Marks `function` so that JAX raises at once when its output has a NaN.

    By default (`jax_debug_nans`), JAX calls the Python function again, operation by
    operation, to find the one that made the NaN. A program for several devices would
    start itself again that way, without end.

    Args:
        function: A Python function that will be compiled. It is changed, so it must
            not be the user's.
    """
    function._apply_primitive = True
    function.__qualname__ = name
    return function


def is_jit_disabled() -> bool:
    """Returns whether `jax.disable_jit` is in force."""
    return bool(_disable_jit.value)


def get_local_config() -> LocalConfig:
    """Returns all thread-local JAX settings."""
    return [get() for get in _getters]


def set_local_config(settings: LocalConfig) -> None:
    """Sets all thread-local JAX settings to what `get_local_config` returned."""
    for state, value in zip(_states, settings, strict=True):
        if state.get_local() is not value:
            state.set_local(value)
