"""From the arrays that a program returns to what the user gets."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import PerReplica, trees
from mirrax.devices.topology import local_topology
from mirrax.run.compiled.placement import PLAIN, Form, Presentation
from mirrax.values.layouts import join_parts, replicate


@pytest.fixture
def pair():
    return local_topology(["CPU:0", "CPU:1"])


def presentation(like, forms, rest=None, is_over_many=False):
    """Returns how a result is shown that is nested like `like`."""
    _, structure = trees.flatten(like)
    rest = [None] * len(forms) if rest is None else rest
    return Presentation(structure, forms, rest, is_over_many)


def test_one_array_is_handed_on():
    array = jnp.ones(2)
    shown = presentation(0, [PLAIN])
    assert shown.num_arrays == 1
    assert shown([array]) is array


def test_one_object_that_is_no_array_comes_back():
    shown = presentation(0, [None], ["text"])
    assert shown.num_arrays == 0
    assert shown([]) == "text"


@pytest.mark.parametrize("like", [None, (), {"a": [None]}], ids=repr)
def test_a_result_without_leaves_comes_back(like):
    assert presentation(like, [])([]) == like


def test_arrays_take_their_places_in_a_structure():
    shown = presentation({"a": 0, "b": [0, (0,)]}, [PLAIN, PLAIN, PLAIN])
    assert shown(["x", "y", "z"]) == {"a": "x", "b": ["y", ("z",)]}


def test_arrays_take_their_places_beside_other_objects():
    shown = presentation([0, 0, 0, 0], [None, PLAIN, None, PLAIN], [len, None, "t", 0])
    assert shown.num_arrays == 2
    assert shown(["x", "y"]) == [len, "x", "t", "y"]


def test_containers_are_new_at_each_call():
    shown = presentation({"log": []}, [])
    shown([])["log"].append(1)
    assert shown([]) == {"log": []}


def test_a_plain_array_over_many_devices_is_shown_on_the_first(pair):
    array = replicate(jnp.arange(2.0), pair)
    shown = presentation(0, [PLAIN], is_over_many=True)([array])
    assert shown.devices() == {pair.devices[0]}
    assert shown.tolist() == [0, 1]


def test_a_plain_array_over_many_devices_can_be_used_with_any_other(pair):
    array = replicate(jnp.arange(2.0), pair)
    (shown,) = presentation([0], [PLAIN], is_over_many=True)([array])
    elsewhere = jax.device_put(jnp.ones(2), jax.devices()[5])
    assert (shown + elsewhere).tolist() == [1, 2]


def test_a_mirrored_array_stays_on_all_devices(pair):
    array = replicate(1.0, pair)
    shown = presentation([0], [Form("mirrored")], is_over_many=True)
    assert shown([array])[0] is array


def test_a_joined_array_is_shown_part_by_part(pair):
    form = Form("joined", pair, is_scalar=True)
    first, second = presentation((0, 0), [form, Form("mirrored")], is_over_many=True)(
        [join_parts((1, 2), pair), replicate(3, pair)]
    )
    assert isinstance(first, PerReplica)
    assert [int(part) for part in first.values] == [1, 2]
    assert int(second) == 3


@pytest.mark.parametrize("kind", ["joined", "alike"])
def test_a_single_replica_gets_its_part_bare(kind):
    single = local_topology(["CPU:1"])
    form = Form(kind, single, is_scalar=kind == "joined")
    array = join_parts((5.0,), single) if kind == "joined" else replicate(5.0, single)
    shown = presentation([0, 0], [form, None], [None, "text"])([array])
    assert isinstance(shown[0], jax.Array)
    assert (shown[0].shape, float(shown[0]), shown[1]) == ((), 5, "text")


def test_results_are_new_containers_at_each_call():
    step = mirrax.function(lambda: {"log": []})
    step()["log"].append(1)
    assert step() == {"log": []}
