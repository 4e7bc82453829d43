"""A program is cut at its collectives into pieces that run on one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive

from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import Topology
from mirrax.run.uneven.segments import cut

AXIS_ENV = [("replica", 2)]
TOPOLOGY = Topology(tuple(jax.devices()[:2]))


def pieces(fn, *shapes):
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    closed = jax.make_jaxpr(fn, axis_env=AXIS_ENV)(*arguments)
    return cut(closed, TOPOLOGY)


def agreed(fn, *shapes):
    """Returns what the replicas must agree on."""
    return [str(segment) for segment in pieces(fn, *shapes).segments]


def shape_of(piece):
    """Whether each segment has work, and how many collectives follow it."""
    return [(s.piece is not None, len(s.collectives)) for s in piece.segments]


def total(x):
    return lax.psum(x, "replica")


def test_a_program_without_collectives_is_one_piece():
    assert shape_of(pieces(lambda x: x * 2 + 1, ())) == [(True, 0)]


def test_a_collective_ends_a_piece():
    assert shape_of(pieces(lambda x: total(x * 2) + 1, ())) == [(True, 1), (True, 0)]


def test_a_program_can_start_and_end_with_a_collective():
    assert shape_of(pieces(total, ())) == [(False, 1)]


def test_collectives_that_do_not_wait_for_each_other_end_one_segment():
    def fn(x, y):
        return (total(x), lax.pmax(y, "replica"))

    assert shape_of(pieces(fn, (), ())) == [(False, 2)]


def test_collectives_that_wait_for_each_other_end_two_segments():
    def fn(x):
        return total(total(x))

    assert shape_of(pieces(fn, ())) == [(False, 1), (False, 1)]


@pytest.mark.parametrize(
    "wrap",
    [jax.jit, jax.checkpoint, lambda fn: jax.jit(jax.jit(fn))],
    ids=["jit", "remat", "nested"],
)
def test_calls_that_hide_a_collective_are_opened(wrap):
    fn = wrap(lambda x: total(x * 2) + 1)
    assert sum(len(s.collectives) for s in pieces(fn, ()).segments) == 1


def test_a_custom_gradient_that_hides_a_collective_is_opened():
    @jax.custom_vjp
    def fn(x):
        return total(x)

    fn.defvjp(lambda x: (fn(x), None), lambda _, g: (g,))
    assert sum(len(s.collectives) for s in pieces(fn, ()).segments) == 1


def test_loops_without_collectives_stay_whole():
    def fn(x):
        return total(lax.fori_loop(0, 3, lambda _, y: y * 2, x))

    names = [e.primitive.name for e in pieces(fn, ()).closed.jaxpr.eqns]
    assert names[0] in ("scan", "while")
    assert len(names) == 2


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: lax.scan(lambda c, _: (total(c), None), x, None, length=2)[0],
        lambda x: lax.cond(x > 0, total, lambda y: y, x),
        lambda x: lax.while_loop(lambda y: y < 9, total, x),
        jax.jit(lambda x: lax.while_loop(lambda y: y < 9, total, x)),
    ],
    ids=["scan", "cond", "while", "while_in_jit"],
)
def test_a_loop_or_a_branch_with_a_collective_cannot_be_cut(fn):
    with pytest.raises(NotTraceable):
        pieces(fn, ())


def test_a_collective_in_an_operation_that_is_not_known_cannot_be_cut():
    closed = jax.make_jaxpr(total, axis_env=AXIS_ENV)(jnp.float32(1))
    unknown_p = Primitive("unknown")
    unknown_p.def_abstract_eval(lambda x, program: x)
    with pytest.raises(NotTraceable):
        pieces(lambda x: unknown_p.bind(x, program=closed), ())


def test_collectives_say_what_the_replicas_must_agree_on():
    def fn(x):
        return (total(x), lax.pmax(x[0], "replica"))

    small, large = agreed(fn, (2,)), agreed(fn, (3,))
    assert small == agreed(fn, (2,))
    assert small != large
    for text in ("psum", "pmax", "(2,)", "()", "float32"):
        assert text in " ".join(small)


def test_collectives_with_other_parameters_do_not_agree():
    def gather(axis):
        return agreed(lambda x: lax.all_gather(x, "replica", axis=axis), (2, 2))

    assert gather(0) == gather(0)
    assert gather(0) != gather(1)


def test_the_pieces_compute_what_the_program_does():
    piece = pieces(lambda x: jnp.sin(x) * 2 + jnp.float32(1), (3,))
    (segment,) = piece.segments
    given = jnp.arange(3.0)
    (result,) = segment.piece(given)
    np.testing.assert_allclose(result, np.sin(given) * 2 + 1, rtol=1e-6)


def test_only_what_is_needed_later_leaves_a_piece():
    def fn(x):
        unused = x * 3
        return total((unused + x) * 2) + x

    first, second = pieces(fn, ()).segments
    assert len(first.outputs) == 1
    assert len(second.inputs) == 2
