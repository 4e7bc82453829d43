"""Results that hide traced values are refused; all others pass."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import mirrax
from tests.programs import engines


@dataclasses.dataclass
class Output:
    loss: object


class Plain:
    def __init__(self, inside):
        self.inside = inside


class Slotted:
    __slots__ = ("inside",)

    def __init__(self, inside):
        self.inside = inside


class Inherited(Slotted):
    __slots__ = ()


@pytest.mark.parametrize(
    ("hide", "place", "fix"),
    [
        (Output, "Output.loss", "@jax.tree_util.register_dataclass"),
        (lambda x: Output({"a": [x]}), "Output.loss", "register_dataclass"),
        (Plain, "Plain.inside", "register_pytree_node"),
        (Slotted, "Slotted.inside", "a tuple or a dict"),
        (Inherited, "Inherited.inside", "a tuple or a dict"),
    ],
    ids=["dataclass", "nested", "object", "slots", "inherited_slots"],
)
@pytest.mark.parametrize("around_run", [False, True], ids=["inside_run", "around_run"])
def test_object_with_a_traced_value_is_refused(strategy, hide, place, fix, around_run):
    def step(x):
        return hide(2 * x)

    def call(x):
        if around_run:
            return mirrax.function(lambda x: strategy.run(step, args=(x,)))(x)
        return strategy.run(mirrax.function(step), args=(x,))

    with pytest.raises(TypeError, match=rf"traced value in `{place}`.*{fix}"):
        call(jnp.ones(3))


@engines
@pytest.mark.parametrize(
    "make",
    [
        lambda: Output("done"),
        lambda: Plain([1, 2]),
        lambda: Plain({1: 2, "a": 3}),
        lambda: {1, 2},
        lambda: len,
    ],
    ids=["dataclass", "object", "unsortable_keys", "set", "builtin"],
)
def test_object_without_traced_values_comes_back(strategy, engine, make):
    given = make()
    assert strategy.run(engine(lambda: given)) is given


def test_object_may_refer_to_itself(two_replicas):
    given = Plain(None)
    given.inside = given
    assert two_replicas.run(mirrax.function(lambda: given)) is given


def test_object_may_hold_what_an_outer_function_traces(two_replicas):
    @mirrax.function
    def outer(x):
        holder = two_replicas.run(lambda: Plain(x))
        return holder.inside

    assert outer(jnp.ones(2)).tolist() == [1, 1]


def test_registered_dataclass_comes_back_with_arrays(strategy):
    Registered = jax.tree_util.register_dataclass(  # noqa: N806
        dataclasses.make_dataclass("Registered", ["loss"])
    )
    step = mirrax.function(lambda x: Registered(2 * x))
    result = strategy.run(step, args=(jnp.ones(3),))
    assert isinstance(result, Registered)
    assert result.loss.tolist() == [2, 2, 2]
