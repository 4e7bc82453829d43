"""How the arrays that a program takes and returns lie on the devices."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import PerReplica
from mirrax.context import stack
from mirrax.context.guards import NotTraceable
from mirrax.devices.topology import local_topology
from mirrax.run.compiled.placement import (
    PLAIN,
    Placement,
    only_topology,
    placement_of,
)
from mirrax.run.compiled.results import split_results
from mirrax.values.layouts import Joined, Replicated, join_parts, replicate
from mirrax.values.mirrored import Mirrored
from mirrax.variables.overlay import TraceOverlay
from tests.programs import create


@pytest.fixture
def pair():
    return local_topology(["CPU:0", "CPU:1"])


def traced_outputs(result, *topologies):
    """Splits a result as in a function that has run replicas on these devices."""
    overlay = TraceOverlay(inside_replica=False)
    overlay.topologies.update(topologies)
    with stack.overlaid(overlay):
        return split_results(result)


def test_a_plain_array_is_itself():
    array = jnp.ones(2)
    assert PLAIN.wrap(array) is array
    assert Placement("mirrored").wrap(array) is array


@pytest.mark.parametrize("parts", [((1.0, 2.0)), ([1, 2], [3, 4])], ids=["0d", "1d"])
def test_a_joined_array_is_shown_part_by_part(pair, parts):
    arrays = tuple(jnp.asarray(part) for part in parts)
    form = Placement("joined", pair, is_scalar=arrays[0].ndim == 0)
    value = form.wrap(join_parts(arrays, pair))
    assert [part.tolist() for part in value.values] == [a.tolist() for a in arrays]


def test_an_alike_array_is_whole_on_every_replica(pair):
    value = Placement("replicated", pair).wrap(replicate(jnp.arange(2), pair))
    assert isinstance(value, PerReplica)
    assert [part.tolist() for part in value.values] == [[0, 1], [0, 1]]


def test_the_form_of_a_value_makes_it_again(pair):
    weak = Joined(join_parts((1, 2), pair), True, pair, True)
    assert placement_of(weak) == Placement("joined", pair, is_scalar=True, is_weak=True)
    assert placement_of(weak).wrap(weak.array).layout.is_weak
    rows = Joined(join_parts((jnp.ones(1), jnp.ones(1)), pair), False, pair)
    assert placement_of(rows) == Placement("joined", pair)
    alike = Replicated(replicate(1.0, pair), pair)
    assert placement_of(alike) == Placement("replicated", pair)


def test_arrays_and_numbers_are_outputs():
    result = {"a": jnp.ones(2), "b": [np.arange(2), np.float16(1), 2.5, True, 1j]}
    arrays, found = split_results(result)
    assert all(isinstance(array, jax.Array) for array in arrays)
    assert [array.tolist() for array in arrays] == [[1, 1], [0, 1], 1, 2.5, True, 1j]
    assert str(arrays[2].dtype) == "float16"
    assert found.placements == [PLAIN] * 6
    assert found.rest == [None] * 6
    assert found.structure.unflatten("abcdef") == {"a": "a", "b": list("bcdef")}


def test_numbers_of_python_stay_weak():
    (number, array), _ = split_results((2, jnp.int32(2)))
    assert (number.weak_type, array.weak_type) == (True, False)


@pytest.mark.parametrize("result", [None, (), {"a": []}], ids=repr)
def test_a_result_without_leaves_has_no_outputs(result):
    arrays, found = split_results(result)
    assert (arrays, found.placements, found.rest) == ([], [], [])
    assert found.structure.unflatten([]) == result


def test_other_objects_are_no_outputs():
    variable, given = mirrax.Variable(1.0), object()
    arrays, found = split_results([variable, "text", given, 3])
    assert [int(array) for array in arrays] == [3]
    assert found.placements == [None, None, None, PLAIN]
    assert found.rest[0] is variable
    assert found.rest[1:] == ["text", given, None]


def test_values_of_replicas_are_outputs_in_their_form(pair):
    def body(first, second, third):
        joined, alike = Joined(first, True, pair), Replicated(second, pair)
        result = [PerReplica(joined), PerReplica(alike), Mirrored(third)]
        arrays, found = split_results(result)
        assert found.placements == [
            placement_of(joined),
            placement_of(alike),
            Placement("mirrored"),
        ]
        return arrays

    found = jax.jit(body)(jnp.arange(2), 3, 4)
    assert [array.tolist() for array in found] == [[0, 1], 3, 4]


def test_values_of_replicas_from_outside_stay_what_they_are(pair):
    joined = PerReplica(Joined(join_parts((1.0, 2.0), pair), True, pair))
    alike = PerReplica(Replicated(replicate(1.0, pair), pair))
    arrays, found = split_results([joined, alike])
    assert arrays == []
    assert found.placements == [None, None]
    assert [a is b for a, b in zip(found.rest, [joined, alike], strict=True)] == [
        True,
        True,
    ]


def test_parts_that_were_put_together_in_a_function_are_joined(pair):
    value = PerReplica((jnp.ones(2), Mirrored(jnp.array([3.0, 4.0]))))
    (array,), found = traced_outputs(value, pair)
    assert array.tolist() == [1, 1, 3, 4]
    assert found.placements == [Placement("joined", pair)]
    (array,), found = traced_outputs(PerReplica((1.0, 2.5)), pair)
    assert array.tolist() == [1, 2.5]
    assert found.placements == [Placement("joined", pair, is_scalar=True)]


def test_parts_of_unequal_shapes_are_left_to_python(pair):
    value = PerReplica((jnp.ones(1), jnp.ones(2)))
    with pytest.raises(NotTraceable):
        jax.make_jaxpr(lambda: traced_outputs(value, pair)[0])()


def test_parts_are_no_output_where_no_replicas_run_or_they_are_no_arrays(pair):
    texts, numbers = PerReplica(("a", "b")), PerReplica((1, 2))
    _, found = traced_outputs([texts], pair)
    assert (found.placements, found.rest[0] is texts) == ([None], True)
    _, found = traced_outputs([numbers])
    assert (found.placements, found.rest[0] is numbers) == ([None], True)


def test_an_object_that_hides_a_tracer_is_refused():
    hide = lambda x: types.SimpleNamespace(inside=x)  # noqa: E731
    with pytest.raises(TypeError, match=r"in `SimpleNamespace.inside`"):
        jax.make_jaxpr(lambda x: split_results([hide(x)])[0])(1.0)


def test_the_only_devices_are_found(pair):
    one, other = local_topology(["CPU:0"]), local_topology(["CPU:3"])
    assert only_topology(set()) is None
    assert only_topology({one}) is one
    assert only_topology({one, pair, other}) is pair
    assert only_topology({one, other}) in (one, other)


def test_the_devices_of_two_strategies_are_refused_by_name(pair):
    others = local_topology(["CPU:2", "CPU:3"])
    with pytest.raises(ValueError, match=r"CPU:\d'\] and on \['/job.*Split the funct"):
        only_topology({pair, others})


def test_two_strategies_in_one_function_are_refused(two_replicas, four_replicas):
    left, right = create(two_replicas, 1.0), create(four_replicas, 1.0)
    with pytest.raises(ValueError, match=r"the devices of one strategy.*and on"):
        mirrax.function(lambda: left + right)()
