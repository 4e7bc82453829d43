"""The private names of JAX that Mirrax uses, each with the reason.

All of them exist in jax 0.9.2 and 0.10.2, and a test counts them. Four private
attributes are used where they are read, because a function call would cost too much:

- `ArrayImpl._arrays` (arrays.py): the part on each device. The public
  `addressable_shards` makes an object and an index for each part.
- `ArrayImpl(..., _skip_checks=True)` (arrays.py): the public
  `jax.make_array_from_single_device_arrays` takes several times as long.
- `Tracer._trace` (traces.py, tape_trace.py): no public function says which trace a
  tracer belongs to.
- `function._apply_primitive` (config.py): no public option stops JAX from calling the
  function again to find a NaN.

The frames of callbacks have the name `_wrapped_callback` (traces.py). Mirrax also uses
attributes of traces that JAX does not document: `parent_trace` and `requires_low`.
"""

from __future__ import annotations

from typing import Any

import jax

try:
    # The type of every array. Making an array to get its type would start the backend.
    from jax._src.array import ArrayImpl as ArrayImpl

    # All settings, to save and restore those of a thread. `jax.config` has the same
    # values, but reading one takes twice as long, and it cannot restore them.
    from jax._src.config import config_states as config_states

    # The settings that JAX compiles programs for.
    from jax._src.config import trace_context as trace_context

    # Public in `jax.extend.core`, which imports Pallas: a tenth of a second.
    from jax._src.core import set_current_trace as set_current_trace

    # The trace that is under way in this thread; nothing public reads it.
    from jax._src.core import trace_ctx as _tracing

    # The connection to other processes. `jax.distributed.initialize` would start a
    # service in this process and install signal handlers.
    from jax._src.distributed import global_state as global_state

    # Whether devices can still be configured. Every public question starts the backend.
    from jax._src.xla_bridge import backends_are_initialized as backends_are_initialized

    # The CPU backend with collectives of our choice; options of JAX only choose a kind.
    from jax._src.xla_bridge import make_cpu_client as make_cpu_client
except ImportError as error:
    raise ImportError(
        "Mirrax was tested with jax 0.9.2 to 0.10.2 and does not know this version. "
        f"Received: jax {jax.__version__}. Install 'jax>=0.9.2,<0.11'."
    ) from error


class _TraceState:
    @property
    def value(self) -> Any:
        return _tracing.trace


try:
    # The same without a call of Python, asked on every step.
    from jax._src.core import trace_state_strong_ref as _strong_reference

    trace_state: Any = _strong_reference
except ImportError:  # jax 0.9
    trace_state = _TraceState()
