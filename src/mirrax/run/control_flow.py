"""JAX's control flow, with variables that branches and loops read and assign.

In compiled code a branch or a body is traced once, under an overlay of its own. The
variables that it reads become inputs of it, and those that it assigns become outputs.
In eager code, Python chooses the branch. Loops run in XLA, unless they use variables or
may contain collectives; those run step by step in Python.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mirrax._jax.jaxprs import ClosedJaxpr, stand_in_for
from mirrax._jax.traces import current_trace
from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.trees import Tree
from mirrax.variables import foreign_libraries
from mirrax.variables.overlay import BlockOverlay, TraceOverlay, lift_reads
from mirrax.variables.variable import Variable


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
) -> Tree:
    """Returns `jax.lax.cond`, in whose branches variables can be assigned.

    >>> import mirrax
    >>> count = mirrax.Variable(0)
    >>> @mirrax.function
    ... def count_positive(x):
    ...     cond(x > 0, lambda: count.assign_add(1), lambda: count.read_value())
    >>> count_positive(2.0), count_positive(-2.0), int(count)
    (None, None, 1)
    """
    branches = (true_fun, false_fun)
    if stack.overlay() is None and _is_concrete((pred, operands)):
        return _called(branches[0 if pred else 1], operands)

    def choose(branches: Sequence[Any], *given: Any) -> Tree:
        return jax.lax.cond(pred, *branches, *given)

    return _choose(choose, branches, operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Tree:
    """Returns `jax.lax.switch`, in whose branches variables can be assigned.

    >>> float(switch(1, [lambda x: x, lambda x: -x], 3.0))
    -3.0
    """
    if stack.overlay() is None and _is_concrete((index, operands)):
        number = min(max(int(index), 0), len(branches) - 1)
        return _called(branches[number], operands)
    choose = functools.partial(jax.lax.switch, index)
    return _choose(choose, branches, operands)


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Tree
) -> Tree:
    """Returns `jax.lax.while_loop`, in whose body variables can be assigned.

    >>> import mirrax
    >>> total = mirrax.Variable(0)
    >>> @mirrax.function
    ... def add_up(n):
    ...     def body(n):
    ...         total.assign_add(n)
    ...         return n - 1
    ...     while_loop(lambda n: n > 0, body, n)
    >>> add_up(4), int(total)
    (None, 10)
    """
    if stack.overlay() is None:
        functions = (cond_fun, body_fun)
        if not _is_concrete(init_val) or not _needs_python(functions, init_val):
            return jax.lax.while_loop(cond_fun, body_fun, init_val)
        value = jax.tree.map(jnp.asarray, init_val)
        if not _is_concrete(cond_fun(value)):
            return jax.lax.while_loop(cond_fun, body_fun, init_val)
        while cond_fun(value):
            value = body_fun(value)
        return value
    test, body = _trace(cond_fun, init_val), _trace(body_fun, init_val)
    if test.writes:
        raise RuntimeError(
            f"Variable '{test.writes[0].name}' was assigned by the condition of a "
            "`while_loop`, which can only read variables. Assign it in the body."
        )
    fixed = {**test.reads, **body.reads}

    def goes_on(carry: Any) -> Any:
        held, value = carry
        return test.evaluate(fixed | _paired(body.writes, held), value)[1]

    def advance(carry: Any) -> Any:
        held, value = carry
        return body.evaluate(fixed | _paired(body.writes, held), value)

    start = (_read(body.writes), init_val)
    held, result = jax.lax.while_loop(goes_on, advance, start)
    _write(body.writes, held)
    return result


def scan(
    f: Callable[[Any, Any], Any],
    init: Tree,
    xs: Tree = None,
    length: int | None = None,
    reverse: bool = False,
) -> Tree:
    """Returns `jax.lax.scan`, in whose body variables can be assigned.

    >>> import mirrax
    >>> last = mirrax.Variable(0.0)
    >>> @mirrax.function
    ... def add_up(rows):
    ...     def body(total, row):
    ...         last.assign(row)
    ...         return total + row, None
    ...     return scan(body, 0.0, rows)[0]
    >>> float(add_up(jax.numpy.arange(4.0))), float(last)
    (6.0, 3.0)
    """
    if stack.overlay() is None:
        row = jax.tree.map(_row, xs)
        is_for_python = _is_concrete((init, xs)) and _needs_python([f], init, row)
        run = _scan_by_python if is_for_python else jax.lax.scan
        return run(f, init, xs, length, reverse)
    body = _trace(f, init, jax.tree.map(_row, xs))

    def step(carry: Any, row: Any) -> Any:
        held, value = carry
        reads = body.reads | _paired(body.writes, held)
        held, (value, output) = body.evaluate(reads, value, row)
        return (held, value), output

    start = (_read(body.writes), init)
    (held, result), outputs = jax.lax.scan(step, start, xs, length, reverse)
    _write(body.writes, held)
    return result, outputs


def eval_shape(fun: Callable[..., Any], *args: Any) -> Tree:
    """Returns `jax.eval_shape`; what `fun` assigns to variables is dropped.

    >>> eval_shape(lambda x: 2 * x, 1.0).shape
    ()
    """
    if stack.overlay() is None:
        return jax.eval_shape(fun, *args)
    block = _trace(fun, *args)
    avals = block.closed.out_avals[len(block.writes) :]
    return jax.tree.unflatten(block.structure, map(stand_in_for, avals))


def _choose(
    choose: Callable[..., Any],
    branches: Sequence[Callable[..., Any]],
    operands: Sequence[Any],
) -> Tree:
    """Returns the result of a branch, which XLA chooses."""
    if stack.overlay() is None:
        return choose(branches, *operands)
    blocks = [_trace(branch, *operands) for branch in branches]
    written = list(dict.fromkeys(v for block in blocks for v in block.writes))

    def branch_of(block: _Block) -> Callable[..., Any]:
        def run(held: list[Any], *args: Any) -> Any:
            values = _paired(written, held)
            new, result = block.evaluate(block.reads | values, *args)
            return list((values | _paired(block.writes, new)).values()), result

        return run

    held, result = choose([branch_of(b) for b in blocks], _read(written), *operands)
    _write(written, held)
    return result


def _called(branch: Callable[..., Any], operands: Sequence[Any]) -> Tree:
    return branch(*jax.tree.map(jnp.asarray, operands))


def _is_concrete(tree: Tree) -> bool:
    return not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(tree))


def _needs_python(functions: Sequence[Callable[..., Any]], *args: Any) -> bool:
    """Returns whether Python must run an eager loop of functions of such arguments.

    That is if they use variables, of any library, or may call collectives.
    """
    frame = stack.frame()
    if isinstance(frame, stack.Replica) and frame.context.num_replicas_in_sync > 1:
        return True
    used: list[Variable] = []

    def probe(*args: Any) -> None:
        overlay = TraceOverlay(inside_replica=False)
        with foreign_libraries.routed(), stack.overlaid(overlay):
            for function in functions:
                function(*args)
        used.extend((*overlay.inputs, *overlay.written))

    try:
        jax.eval_shape(probe, *args)
    except (NotTraceable, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        # It needs concrete values. If it is wrong, Python raises at the user's line.
        return True
    return bool(used)


def _scan_by_python(
    f: Callable[..., Any], init: Tree, xs: Tree, length: int | None, reverse: bool
) -> Tree:
    carry, arrays = jax.tree.map(jnp.asarray, (init, xs))
    count = length if length is not None else len(jax.tree.leaves(arrays)[0])
    if count == 0:
        return jax.lax.scan(f, init, xs, length, reverse)
    outputs = {}
    for index in range(count)[:: -1 if reverse else 1]:
        row = jax.tree.map(operator.itemgetter(index), arrays)
        carry, outputs[index] = f(carry, row)
    rows = [outputs[index] for index in range(count)]
    return carry, jax.tree.map(lambda *parts: jnp.stack(parts), *rows)


@dataclasses.dataclass(frozen=True)
class _Block:
    """A traced branch or body.

    Args:
        closed: The program. Inputs: the arguments, then the variables in `reads`.
            Outputs: the variables in `writes`, then the results.
        reads: The variables that it reads, with their values before it.
    """

    closed: ClosedJaxpr
    reads: dict[Variable, Any]
    writes: Sequence[Variable]
    structure: Any

    def evaluate(
        self, values: Mapping[Variable, Any], *args: Any
    ) -> tuple[list[Any], Any]:
        """Returns the new values of variables, and the result."""
        inputs = [*jax.tree.leaves(args), *(values[v] for v in self.reads)]
        closed = self.closed
        outputs = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *inputs)
        count = len(self.writes)
        return outputs[:count], jax.tree.unflatten(self.structure, outputs[count:])


def _trace(fun: Callable[..., Any], *args: Any) -> _Block:
    parent, around = stack.overlay(), current_trace()
    leaves, nesting = jax.tree.flatten(args)
    captured: dict[str, Any] = {}

    def flat(*values: Any) -> list[Any]:
        overlay = BlockOverlay(parent, around)
        with foreign_libraries.routed(), stack.overlaid(overlay):
            result = fun(*jax.tree.unflatten(nesting, values))
            arrays, captured["structure"] = jax.tree.flatten(result)
        captured["overlay"] = overlay
        return [*(overlay.values[v] for v in overlay.written), *arrays]

    closed, numbers = lift_reads(jax.make_jaxpr(flat)(*leaves))
    overlay = captured["overlay"]
    reads = [overlay.inputs[number] for number in numbers]
    return _Block(
        closed,
        {variable: overlay.before[variable] for variable in reads},
        tuple(overlay.written),
        captured["structure"],
    )


def _paired(variables: Sequence[Variable], values: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(variables, values, strict=True))


def _read(variables: Sequence[Variable]) -> list[Any]:
    overlay = stack.overlay()
    return [overlay.read(variable) for variable in variables]


def _write(variables: Sequence[Variable], values: Sequence[Any]) -> None:
    overlay = stack.overlay()
    for variable, value in zip(variables, values, strict=True):
        overlay.write(variable, value)


def _row(array: Any) -> jax.ShapeDtypeStruct:
    aval = jax.typeof(array)
    return jax.ShapeDtypeStruct(aval.shape[1:], aval.dtype, weak_type=aval.weak_type)
