"""A program is cut at its collectives into pieces that run on one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from mirrax.run.uneven.segments import NotSegmentable, cut

AXIS_ENV = [("replica", 2)]


def pieces(fn, *shapes):
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    closed = jax.make_jaxpr(fn, axis_env=AXIS_ENV)(*arguments)
    return cut(closed, AXIS_ENV)


def shape_of(piece):
    """Whether each segment has work, and how many collectives follow it."""
    return [(s.run is not None, len(s.collectives)) for s in piece.segments]


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
        jax.jit(
            lambda y: lax.scan(lambda c, _: (total(c), None), y, None, length=2)[0]
        ),
    ],
    ids=["scan", "cond", "while", "scan_in_jit"],
)
def test_a_collective_in_a_loop_or_branch_cannot_be_cut(fn):
    with pytest.raises(NotSegmentable):
        pieces(fn, ())


def test_collectives_say_what_the_replicas_must_agree_on():
    def fn(x):
        return (total(x), lax.pmax(x[0], "replica"))

    small, large = pieces(fn, (2,)), pieces(fn, (3,))
    first, second = (each for step in small.collectives for each in step)
    assert first[1] == [((2,), np.dtype("float32"))]
    assert second[1] == [((), np.dtype("float32"))]
    assert first[0] != second[0]
    assert small.collectives != large.collectives


def test_the_pieces_compute_what_the_program_does():
    piece = pieces(lambda x: jnp.sin(x) * 2 + jnp.float32(1), (3,))
    (segment,) = piece.segments
    given = jnp.arange(3.0)
    (result,) = segment.run(given)
    np.testing.assert_allclose(result, np.sin(given) * 2 + 1, rtol=1e-6)


def test_only_what_is_needed_later_leaves_a_piece():
    def fn(x):
        unused = x * 3
        return total((unused + x) * 2) + x

    first, second = pieces(fn, ()).segments
    assert len(first.outputs) == 1
    assert len(second.inputs) == 2
