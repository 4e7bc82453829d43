"""What converted code calls for `if`, `while`, `for`, `and`, `assert`, ...

With conditions and sequences that are known they do what Python does. With traced ones
they become part of the compiled program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrax.tf.autograph.branches import choose, condition, is_traced, truth
from mirrax.tf.autograph.loops import Loop
from mirrax.tf.autograph.ranges import MAX_UNROLLED, TracedRange
from mirrax.tf.errors import InvalidArgumentError, NotCompilable
from mirrax.tf.functions.python_functions import inside_function

__all__ = [
    "and_",
    "assert_stmt",
    "for_stmt",
    "if_exp",
    "if_stmt",
    "not_",
    "or_",
    "while_stmt",
]

State = Sequence[Any]
Get = Callable[[], State]
Set = Callable[[State], None]


def if_stmt(
    cond: Any,
    body: Callable[[], None],
    orelse: Callable[[], None],
    get_state: Get,
    set_state: Set,
    symbol_names: Sequence[str],
    nouts: int,
) -> None:
    """`if cond: body else: orelse`; the first `nouts` variables are used later."""
    cond = truth(cond)
    if not is_traced(cond):
        return body() if cond else orelse()
    before = get_state()

    def branch(run: Callable[[], None]) -> Callable[[], State]:
        def after() -> State:
            set_state(before)
            run()
            return get_state()[:nouts]

        return after

    pred = condition(cond, "if statement")
    branches = (branch(body), branch(orelse))
    set_state((*choose(pred, branches, symbol_names[:nouts]), *before[nouts:]))
    return None


def if_exp(
    cond: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], expr: str
) -> Any:
    """`if_true if cond else if_false`."""
    cond = truth(cond)
    if not is_traced(cond):
        return if_true() if cond else if_false()
    pred = condition(cond, "conditional expression")
    return choose(pred, (lambda: [if_true()], lambda: [if_false()]), [expr])[0]


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], None],
    get_state: Get,
    set_state: Set,
    symbol_names: Sequence[str],
    opts: dict[str, Any],
) -> None:
    """`while test: body`, in Python until the test is traced."""
    while True:
        found = truth(test())
        if is_traced(found):
            loop = Loop(symbol_names, get_state, set_state, None, opts)
            return loop.on_condition(test, body)
        if not found:
            return None
        body()


def for_stmt(
    iter_: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get_state: Get,
    set_state: Set,
    symbol_names: Sequence[str],
    opts: dict[str, Any],
) -> None:
    """`for x in iter_: body`; `extra_test` says whether `break` was met."""
    loop = Loop(symbol_names, get_state, set_state, extra_test, opts)
    if isinstance(iter_, TracedRange):
        return loop.over_range(iter_, body)
    if isinstance(iter_, jax.Array) and inside_function():
        if is_traced(iter_) or not loop.has_growing_array:
            return loop.over_rows(iter_, body)
        # The indices are known, and each iteration can make the array longer.
        iter_ = np.asarray(iter_)[: opts.get("maximum_iterations")]
        if len(iter_) > MAX_UNROLLED:
            raise NotCompilable(
                f"A loop in which a `TensorArray` grows has at most {MAX_UNROLLED} "
                f"iterations. Received: {len(iter_)}. Give the array its size."
            )
    for item in iter_:
        goes_on = True if extra_test is None else truth(extra_test())
        if is_traced(goes_on):
            run = functools.partial(body, item)
            state = (get_state, set_state, symbol_names, len(symbol_names))
            if_stmt(goes_on, run, lambda: None, *state)
        elif goes_on:
            body(item)
        else:
            break
    return None


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a and b`."""
    first = truth(a())
    if not is_traced(first):
        return first and b()
    return if_exp(first, lambda: jnp.asarray(truth(b())), lambda: first, "and")


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """`a or b`."""
    first = truth(a())
    if not is_traced(first):
        return first or b()
    return if_exp(first, lambda: first, lambda: jnp.asarray(truth(b())), "or")


def not_(a: Any) -> Any:
    """`not a`."""
    value = truth(a)
    return jnp.logical_not(value) if is_traced(value) else not value


def assert_stmt(expression1: Any, expression2: Callable[[], Any]) -> None:
    """`assert expression1, expression2`; at run time if it is traced."""
    holds = truth(expression1)
    if not is_traced(holds):
        assert holds, expression2()
        return
    message = str(expression2())

    def check(value: Any) -> None:
        if not np.all(value):
            raise InvalidArgumentError(f"assertion failed: {message}")

    jax.debug.callback(check, holds)
