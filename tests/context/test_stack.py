"""All ambient state: set for a block, for a thread, and for what JAX keeps."""

import contextvars
import types

import jax
import pytest

from mirrax.context import stack
from mirrax.context.stack import CrossReplica, Replica

FRAME = CrossReplica("strategy")


def alone(test):
    """Returns a test that changes nothing for those after it."""

    def run():
        contextvars.copy_context().run(test)

    run.__name__ = test.__name__
    return run


@alone
def test_installed_frame_is_there_again_after_a_block():
    stack.install(FRAME, ("outer",))
    with stack.entered(CrossReplica("other")), stack.creating("inner"):
        assert stack.installed() is FRAME
        assert stack.creators() == ("outer", "inner")
    assert stack.frame() is FRAME
    assert stack.creators() == ("outer",)


# What JAX keeps of traces.


class Traced:
    """A function that JAX compiles, and that counts how often it is traced."""

    def __init__(self):
        self.count = 0
        self.call = jax.jit(self._body)

    def _body(self, x):
        self.count += 1
        return x

    def in_blocks(self, *blocks):
        """Returns how often it is traced when called in each block in turn."""
        for block in blocks:
            with block:
                self.call(1.0)
        return self.count


def test_overlay_traces_anew():
    traced = Traced()
    assert traced.in_blocks(stack.overlaid("a"), stack.overlaid("a")) == 2


def test_overlays_of_one_place_share_what_is_traced():
    first, second = stack.overlaid("a", "here"), stack.overlaid("b", "here")
    assert Traced().in_blocks(first, second) == 1


def test_overlays_of_other_places_share_nothing():
    first, second = stack.overlaid("a", "here"), stack.overlaid("a", "there")
    assert Traced().in_blocks(first, second) == 2


def test_calls_in_one_overlay_share_what_is_traced():
    traced = Traced()
    with stack.overlaid("a"):
        traced.call(1.0)
        traced.call(1.0)
    assert traced.count == 1


def test_overlay_leaves_the_traces_outside_as_they_are():
    traced = Traced()
    traced.call(1.0)
    with stack.overlaid("a"):
        pass
    traced.call(1.0)
    assert traced.count == 1


def test_traces_can_be_forgotten_in_an_overlay():
    traced = Traced()
    with stack.overlaid("a", "here"):
        traced.call(1.0)
        stack.invalidate_traces()
        traced.call(1.0)
    traced.in_blocks(stack.overlaid("a", "here"))
    assert traced.count == 2


def test_traces_of_replicas_are_kept_apart():
    places = [(0, 2), (0, 2), (1, 2), (0, 4)]
    assert Traced().in_blocks(*(stack.separate_traces(*place) for place in places)) == 3


def strategy():
    return types.SimpleNamespace()


PLACES = pytest.mark.parametrize(
    "place_of",
    [stack.derivative_trace_key, stack.tape_trace_key],
    ids=["derivative", "tape"],
)


@PLACES
def test_place_is_the_same_in_the_same_replica(place_of):
    here = strategy()
    with stack.entered(Replica(here, "context", 1)):
        first = place_of()
    with stack.entered(Replica(here, "another context", 1)):
        assert place_of() == first
    assert hash(first) == hash(first)


@PLACES
@pytest.mark.parametrize("kind", ["outside", "cross", "index", "strategy"])
def test_place_is_another_one_elsewhere(place_of, kind):
    here, there = strategy(), strategy()
    frame = {
        "outside": None,
        "cross": CrossReplica(here),
        "index": Replica(here, "context", 1),
        "strategy": Replica(there, "context", 0),
    }[kind]
    with stack.entered(Replica(here, "context", 0)):
        first = place_of()
    with stack.entered(frame):
        assert place_of() != first


def test_places_of_tapes_and_derivatives_differ():
    assert stack.tape_trace_key() != stack.derivative_trace_key()


def test_spent_traces_make_the_next_derivative_another_place():
    derivative, tape = stack.derivative_trace_key(), stack.tape_trace_key()
    assert stack.derivative_trace_key() == derivative
    stack.invalidate_derivative_traces()
    assert stack.derivative_trace_key() != derivative
    assert stack.tape_trace_key() == tape
