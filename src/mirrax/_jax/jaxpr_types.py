"""The types of the parts of a traced program.

They are public in `jax.extend.core`, but importing that imports Pallas, which takes a
tenth of a second. Tracing an example and looking at what comes out takes 2 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from mirrax._jax.private import trace_state

_traces: list[Any] = []


def _example(x: jax.Array) -> tuple[jax.Array, float]:
    _traces.append(trace_state.value)
    result = jax.lax.neg(x)
    jax.new_ref(x)
    return result, 1.0


_closed = jax.make_jaxpr(_example)(jax.ShapeDtypeStruct((), np.float32))

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr as ClosedJaxpr
    from jax.extend.core import Jaxpr as Jaxpr
    from jax.extend.core import JaxprEqn as JaxprEqn
    from jax.extend.core import Literal as Literal
    from jax.extend.core import Primitive as Primitive
    from jax.extend.core import Var as Var
else:
    ClosedJaxpr = type(_closed)
    Jaxpr = type(_closed.jaxpr)
    JaxprEqn = type(_closed.eqns[0])
    Primitive = type(_closed.eqns[0].primitive)
    Var, Literal = map(type, _closed.jaxpr.outvars)

AbstractRef: type = type(_closed.eqns[1].outvars[0].aval)
"""The type of the abstract value of a `jax.Ref`."""

ProgramTrace: type = type(_traces.pop())
"""The type of the traces that make programs: those of jit, scan, cond, ..."""

del _closed
