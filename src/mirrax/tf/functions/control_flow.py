"""Control flow: Python's in eager code, JAX's in traced code."""

from __future__ import annotations

import builtins
import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax.tf.namespaces.exports import export
from mirrax.tf.tensors.ragged_tensors import RaggedTensor
from mirrax.tf.tensors.tensor import is_traced, tensor
from mirrax.tf.tensors.tensor_arrays import TensorArray

_PRIVATE = frozenset(globals())


def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: Any = None) -> Any:
    if not is_traced(pred):
        return true_fn() if bool(pred) else false_fn()
    return mirrax.cond(pred, true_fn, false_fn)


def case(
    pred_fn_pairs: Any,
    default: Any = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    pairs = list(
        pred_fn_pairs.items() if hasattr(pred_fn_pairs, "items") else pred_fn_pairs
    )
    if default is None:
        default = pairs[-1][1]
    chosen = default
    for pred, fn in reversed(pairs):
        chosen = functools.partial(cond, pred, fn, chosen)
    return chosen()


def switch_case(
    branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case"
) -> Any:
    branches = dict(
        branch_fns.items()
        if hasattr(branch_fns, "items")
        else enumerate(branch_fns)
        if callable(branch_fns[0])
        else branch_fns
    )
    last = default or branches[max(branches)]
    if not is_traced(branch_index):
        return branches.get(int(branch_index), last)()
    count = max(branches) + 1
    functions = [branches.get(i, last) for i in range(count)]
    index = jnp.where((branch_index < 0) | (branch_index >= count), count, branch_index)
    return mirrax.switch(index, [*functions, last])


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: Any = None,
) -> Any:
    state = jax.tree.map(tensor, loop_vars)
    if not is_traced((cond(*state), state, maximum_iterations)):
        steps = 0
        while bool(cond(*state)) and steps != maximum_iterations:
            state = _like(loop_vars, body(*state))
            steps += 1
        return state

    def goes_on(carry: Any) -> Any:
        step, values = carry
        is_below = True if maximum_iterations is None else step < maximum_iterations
        return jnp.logical_and(cond(*values), is_below)

    def advance(carry: Any) -> Any:
        step, values = carry
        return step + 1, [*_like(loop_vars, body(*values))]

    first = _whole_arrays(state, body)
    _, final = mirrax.while_loop(goes_on, advance, (jnp.int32(0), [*first]))
    return type(state)(final) if isinstance(state, list) else (*final,)


def _is_array(value: Any) -> bool:
    return isinstance(value, TensorArray)


def _whole_arrays(state: Any, body: Callable[..., Any]) -> Any:
    """Returns the state with each `TensorArray` as one array, which loops can carry."""
    if not any(map(_is_array, jax.tree.leaves(state, is_leaf=_is_array))):
        return state
    # The first write tells the shape of an element.
    after = mirrax.eval_shape(lambda values: _like(state, body(*values)), state)
    return jax.tree.map(
        lambda x, later: x.as_whole(later.element_shape) if _is_array(x) else x,
        state,
        after,
        is_leaf=_is_array,
    )


def _like(loop_vars: Any, values: Any) -> Any:
    """Returns the results of a body in the structure of the loop variables."""
    if len(loop_vars) == 1 and not isinstance(values, list | builtins.tuple):
        values = [values]
    return type(loop_vars)(jax.tree.map(tensor, list(values)))


def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: Any = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: Any = None,
    fn_output_signature: Any = None,
) -> Any:
    if isinstance(elems, RaggedTensor):
        return _stacked([fn(row) for row in elems])
    elems = jax.tree.map(tensor, elems)
    if is_traced(elems):
        return mirrax.scan(lambda _, row: (None, fn(row)), None, elems)[1]
    return _stacked([fn(row) for row in _rows(elems)])


def vectorized_map(
    fn: Callable[..., Any],
    elems: Any,
    fallback_to_while_loop: bool = True,
    warn: bool = True,
) -> Any:
    return jax.vmap(fn)(jax.tree.map(tensor, elems))


def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: Any = None,
) -> Any:
    rest, start = _started(elems, initializer, reverse)
    if is_traced((rest, start)):
        _, outputs = mirrax.scan(_twice(fn), start, rest, reverse=reverse)
    else:
        outputs = _accumulate(fn, _rows(rest), start, reverse)
    if initializer is not None:
        return outputs

    def joined(first: Any, rest: Any) -> Any:
        return jnp.concatenate([rest, first[None]] if reverse else [first[None], rest])

    return jax.tree.map(joined, start, outputs)


def _fold(reverse: bool) -> Callable[..., Any]:
    def fold(
        fn: Callable[..., Any],
        elems: Any,
        initializer: Any = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: Any = None,
    ) -> Any:
        rest, state = _started(elems, initializer, reverse)
        if is_traced((rest, state)):
            return mirrax.scan(_twice(fn), state, rest, reverse=reverse)[0]
        rows = _rows(rest)
        for row in reversed(rows) if reverse else rows:
            state = fn(state, row)
        return state

    return fold


foldl = _fold(reverse=False)
foldr = _fold(reverse=True)


def _started(elems: Any, initializer: Any, reverse: bool) -> Any:
    """Returns the rows to iterate over, and the initial state."""
    elems = jax.tree.map(tensor, elems)
    if initializer is not None:
        return elems, jax.tree.map(tensor, initializer)
    if reverse:
        first = jax.tree.map(lambda x: x[-1], elems)
        return jax.tree.map(lambda x: x[:-1], elems), first
    first = jax.tree.map(lambda x: x[0], elems)
    return jax.tree.map(lambda x: x[1:], elems), first


def _twice(fn: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        new = jax.tree.map(lambda a, b: tensor(b, a.dtype), state, fn(state, row))
        return new, new

    return step


def _accumulate(fn: Any, rows: list[Any], state: Any, reverse: bool) -> Any:
    results = []
    for row in reversed(rows) if reverse else rows:
        state = fn(state, row)
        results.append(state)
    if not results:
        return jax.tree.map(lambda x: x[None][:0], state)
    return _stacked(results[::-1] if reverse else results)


def _rows(elems: Any) -> list[Any]:
    count = len(jax.tree.leaves(elems)[0])
    return [jax.tree.map(lambda x, i=i: x[i], elems) for i in range(count)]


def _stacked(results: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *row: jnp.stack([tensor(x) for x in row]), *results)


def group(*inputs: Any, **kwargs: Any) -> None:
    """Does nothing: the inputs have been computed already."""


def no_op(name: Any = None) -> None:
    """Does nothing."""


def tuple(tensors: Any, control_inputs: Any = None, name: Any = None) -> list[Any]:
    return list(tensors)


@contextlib.contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Does nothing: code runs in program order."""
    yield


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Evaluates code outside of the function that is traced."""
    with jax.ensure_compile_time_eval():
        yield


export(globals(), _PRIVATE)
