"""A function that runs another one on every replica, and keeps nothing alive."""

import inspect
import weakref

import mirrax
from mirrax.run.on_replicas import OnReplicas
from tests.programs import parts, replica_id


class Recorder:
    """A strategy that notes what it is asked to run."""

    def run(self, fn, args, kwargs):
        return fn, args, kwargs


class Named:
    """A function as `mirrax.function` makes them."""

    def __init__(self, fn):
        self.fn = fn
        self.__name__ = fn.__name__


def step(x, scale=2):
    return x * scale


def test_a_call_is_a_run_with_the_same_arguments():
    fn, strategy = Named(step), Recorder()
    on_replicas = OnReplicas(fn, strategy)
    assert on_replicas(1, scale=3) == (step, (1,), {"scale": 3})
    assert on_replicas() == (step, (), {})


def test_its_function_and_strategy_can_be_asked_for():
    fn, strategy = Named(step), Recorder()
    on_replicas = OnReplicas(fn, strategy)
    assert on_replicas.fn is fn
    assert on_replicas.strategy is strategy
    assert on_replicas.__name__ == "step"


def test_it_has_the_signature_of_the_function(two_replicas):
    fn = mirrax.function(step)
    on_replicas = OnReplicas(fn, two_replicas)
    assert inspect.unwrap(on_replicas) is inspect.unwrap(fn)
    assert str(inspect.signature(on_replicas)) == "(x, scale=2)"


def test_neither_function_nor_strategy_is_kept_alive():
    fn, strategy = Named(step), Recorder()
    on_replicas = OnReplicas(fn, strategy)
    del fn, strategy
    assert (on_replicas.fn, on_replicas.strategy) == (None, None)


def test_it_can_be_referred_to_weakly():
    fn, strategy = Named(step), Recorder()
    on_replicas = OnReplicas(fn, strategy)
    reference = weakref.ref(on_replicas)
    assert reference() is on_replicas
    del on_replicas
    assert reference() is None


def test_every_replica_runs_the_function(strategy):
    fn = mirrax.function(lambda x: x + replica_id())
    result = OnReplicas(fn, strategy)(3)
    expected = [3 + number for number in range(strategy.num_replicas_in_sync)]
    assert parts(strategy, result) == expected
