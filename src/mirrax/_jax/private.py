"""The private names of JAX that Mirrax needs, and nothing else.

Everything here was tested with jax 0.10.2. Whoever raises the version reads this file.
The parts of programs (`Jaxpr`, `Primitive`, ...) are public in `jax.extend.core`, but
importing that takes in Pallas too, which would make `import mirrax` a third slower.
"""

from __future__ import annotations

import jax

try:
    from jax._src import callback as _callback
    from jax._src import config as config
    from jax._src.array import ArrayImpl as ArrayImpl
    from jax._src.core import ClosedJaxpr as ClosedJaxpr
    from jax._src.core import DebugInfo as DebugInfo
    from jax._src.core import Jaxpr as Jaxpr
    from jax._src.core import JaxprEqn as JaxprEqn
    from jax._src.core import Literal as Literal
    from jax._src.core import Primitive as Primitive
    from jax._src.core import Trace as Trace
    from jax._src.core import Tracer as Tracer
    from jax._src.core import Var as Var
    from jax._src.core import eval_trace as eval_trace
    from jax._src.core import set_current_trace as set_current_trace
    from jax._src.core import take_current_trace as take_current_trace
    from jax._src.core import trace_state_strong_ref as _trace_state_reference
    from jax._src.core import typeof as typeof
    from jax._src.distributed import global_state as _global_state
    from jax._src.interpreters.ad import JVPTrace as JVPTrace
    from jax._src.interpreters.ad import LinearizeTrace as LinearizeTrace
    from jax._src.interpreters.partial_eval import (
        DynamicJaxprTrace as DynamicJaxprTrace,
    )
    from jax._src.source_info_util import current as _current_source
    from jax._src.source_info_util import user_frames as user_frames
    from jax._src.xla_bridge import backends as backends
    from jax._src.xla_bridge import backends_are_initialized as backends_are_initialized
    from jax._src.xla_bridge import make_cpu_client as make_cpu_client
    from jax._src.xla_bridge import register_backend_factory as _register_backend

    CALLBACKS = _callback.__file__
    trace_state = _trace_state_reference
    distributed = _global_state
    source_info = _current_source
    register_backend = _register_backend
    trace_context = config.trace_context
    transfer_guards = (
        config.transfer_guard_host_to_device,
        config.transfer_guard_device_to_host,
    )
    config_states = tuple(config.config_states.values())
except (ImportError, AttributeError) as error:
    raise ImportError(
        "Mirrax was tested with jax 0.10.2 and does not know this version. "
        f"Received: jax {jax.__version__}. Install 'jax>=0.10.2,<0.11'."
    ) from error
