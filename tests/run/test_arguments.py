"""How a function takes its arguments: as inputs, or as part of the program."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import PerReplica, trees
from mirrax.devices.peers import Alone
from mirrax.devices.topology import Topology, local_topology
from mirrax.run.arguments import (
    DRIVEN,
    are_flat,
    flat_structure,
    form_of_slot,
    known_arrays,
    shapes_of,
    slots_of,
    stand_ins_of,
    static_key,
    topology_of_workers,
    unequal_slots,
    without_shapes,
)
from mirrax.run.forms import PLAIN, Form
from mirrax.trees import Same
from mirrax.values.layouts import Alike, Joined, Parts, join, replicate
from mirrax.values.mirrored import Mirrored


@pytest.fixture
def pair():
    return local_topology(["CPU:0", "CPU:1"])


def slot(leaf, static_numbers=False, topology=None):
    (found,) = slots_of([leaf], static_numbers, topology)
    return found


def key(leaf, static_numbers=False):
    return slot(leaf, static_numbers)[0]


def placed(topology, *parts):
    """Returns parts that lie on the devices of their replicas."""
    pairs = zip(parts, topology.devices, strict=True)
    return PerReplica([jax.device_put(part, device) for part, device in pairs])


# Arguments without structure.


def test_arrays_and_numbers_by_position_are_flat():
    values = (jnp.ones(2), np.ones(2), 1, 2.5, 3j, PerReplica((1, 2)))
    assert are_flat(values, {})
    assert are_flat((), {})


@pytest.mark.parametrize(
    "value",
    [None, (), [1], {"a": 1}, True, "text", np.float32(1), object()],
    ids=["None", "tuple", "list", "dict", "bool", "text", "number", "object"],
)
def test_what_may_have_structure_is_not_flat(value):
    assert not are_flat((1, value), {})


def test_arguments_by_name_are_not_flat():
    assert not are_flat((1,), {"x": 1})


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_structure_of_flat_arguments_is_known(count):
    args = tuple(range(count))
    assert flat_structure(count) == trees.flatten((args, {}))[1]


# Inputs of the program.


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (jnp.zeros(3), jnp.ones(3)),
        (np.zeros(3, np.float32), jnp.ones(3)),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.float32(1), jnp.float32(2)),
        (np.zeros((0, 2), np.int64), jnp.zeros((0, 2), int)),
        (1, 2),
        (0.0, -0.0),
        (1j, 2j),
        (Mirrored(jnp.ones(2)), Mirrored(jnp.zeros(2))),
    ],
    ids=[
        "array",
        "numpy",
        "canonical",
        "scalar",
        "empty",
        "int",
        "float",
        "complex",
        "mirrored",
    ],
)
def test_inputs_of_one_kind_have_one_key(first, second):
    assert key(first) == key(second)
    assert hash(key(first)) == hash(key(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (jnp.zeros(3), jnp.zeros(4)),
        (jnp.zeros(3), jnp.zeros((3, 1))),
        (jnp.zeros(3), jnp.zeros(3, int)),
        (jnp.float32(1), jnp.asarray(1.0)),
        (jnp.float32(1), 1.0),
        (1, 1.0),
        (1, True),
        (1.0, 1 + 0j),
        (np.bool_(True), True),
        (jnp.ones(2), Mirrored(jnp.ones(2))),
    ],
    ids=[
        "shape",
        "rank",
        "dtype",
        "weak",
        "number",
        "int_float",
        "bool",
        "complex",
        "numpy_bool",
        "mirrored",
    ],
)
def test_inputs_of_two_kinds_have_two_keys(first, second):
    assert key(first) != key(second)


@pytest.mark.parametrize(
    "leaf",
    [jnp.ones(2), np.ones(2), np.float32(1), 1, 2.5, 3j],
    ids=["array", "numpy", "scalar", "int", "float", "complex"],
)
def test_arrays_and_numbers_go_into_the_program_as_they_are(leaf):
    _, array, layout = slot(leaf)
    assert array is leaf
    assert layout is PLAIN
    assert form_of_slot(slot(leaf)) is PLAIN


def test_a_mirrored_value_goes_in_as_its_array():
    value = Mirrored(jnp.ones(2))
    assert slot(value)[1] is value.array
    assert form_of_slot(slot(value)) is PLAIN


def test_no_arguments_have_no_slots():
    assert slots_of([], False, None) == []
    assert unequal_slots([], False, None) == []


# Part of the program.


@pytest.mark.parametrize("leaf", ["text", True, len, 1, 2.5], ids=repr)
def test_what_is_part_of_the_program_is_no_input(leaf):
    _, array, layout = slot(leaf, static_numbers=True)
    assert (array, layout) == (None, None)


def test_static_numbers_are_told_apart_by_value():
    values = (0.0, -0.0, 0, 1, 1.0, True, float("nan"), float("inf"))
    assert len({key(value, static_numbers=True) for value in values}) == len(values)
    nans = float("nan"), float("nan")
    assert len({key(value, static_numbers=True) for value in nans}) == 1


def test_other_objects_are_told_apart_by_type_and_value():
    values = ("1", b"1", True, 1, False, None, int, "int")
    assert len({static_key(value) for value in values}) == len(values)
    assert static_key("a" + "b") == static_key("ab")


def test_a_variable_is_only_itself():
    first, second = mirrax.Variable(1.0), mirrax.Variable(1.0)
    assert static_key(first) == static_key(first)
    assert static_key(first) != static_key(second)
    assert slot(first)[1:] == (None, None)


def test_an_object_without_hash_is_only_itself():
    @dataclasses.dataclass
    class Setting:
        value: int

    first, second = Setting(1), Setting(1)
    assert static_key(first) == static_key(first)
    assert static_key(first) != static_key(second)


def test_a_set_has_a_key_without_hash():
    with pytest.raises(TypeError, match="unhashable type: 'set'"):
        hash(static_key({1}))


@pytest.mark.parametrize(
    ("dtype", "shown"), [("U1", "<U1"), ("S1", r"\|S1"), ("O", "object")]
)
def test_an_array_of_no_numbers_is_refused_by_its_dtype(dtype, shown):
    with pytest.raises(TypeError, match=rf"strings or objects.*of dtype {shown}"):
        slot(np.array(["x"], dtype))


# Values of replicas.


def test_parts_on_their_devices_become_one_array(pair):
    value = placed(pair, jnp.ones(2), jnp.zeros(2))
    found, array, layout = slot(value)
    assert array.tolist() == [1, 1, 0, 0]
    assert array.sharding == pair.split
    assert form_of_slot((found, array, layout)) == Form("joined", pair)


def test_parts_are_joined_once(pair):
    value = placed(pair, jnp.ones(2), jnp.zeros(2))
    assert slot(value)[1] is slot(value)[1]


@pytest.mark.parametrize("make", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_parts_that_lie_elsewhere_are_for_the_devices_of_the_program(pair, make):
    value = PerReplica((make([1, 2]), make([3, 4])))
    _, array, layout = slot(value, topology=pair)
    assert array.tolist() == [1, 2, 3, 4]
    assert layout.topology == pair


def test_parts_that_lie_elsewhere_are_for_the_devices_of_the_scope(two_replicas):
    value = PerReplica((np.ones(1), np.zeros(1)))
    with two_replicas.scope():
        assert slot(value)[2].topology == two_replicas.topology


def test_a_scope_of_another_number_of_replicas_does_not_count(pair, four_replicas):
    value = placed(pair, jnp.ones(1), jnp.zeros(1))
    with four_replicas.scope():
        assert slot(value)[2].topology == pair


def test_parts_for_nobodys_devices_are_only_themselves():
    value = PerReplica((np.ones(1), np.zeros(1)))
    on_one_device = PerReplica((jnp.ones(1), jnp.zeros(1)))
    assert slot(value) == (Same(value), None, None)
    assert slot(on_one_device) == (Same(on_one_device), None, None)


def test_parts_that_are_no_arrays_are_only_themselves(pair):
    value = PerReplica(("left", "right"))
    assert slot(value, topology=pair) == (Same(value), None, None)


def test_parts_that_are_numbers_stay_weak_and_are_told_apart(pair):
    weak, strong = PerReplica((1, 2)), PerReplica((np.int32(1), np.int32(2)))
    assert form_of_slot(slot(weak, topology=pair)).is_weak
    assert not form_of_slot(slot(strong, topology=pair)).is_weak
    assert slot(weak, topology=pair)[0] != slot(strong, topology=pair)[0]
    assert isinstance(weak.layout, Parts)


def test_parts_that_are_scalars_and_vectors_of_one_are_told_apart(pair):
    scalars = slot(placed(pair, jnp.float32(1), jnp.float32(2)))
    vectors = slot(placed(pair, jnp.ones(1), jnp.ones(1)))
    assert scalars[1].shape == vectors[1].shape
    assert scalars[0] != vectors[0]


def test_parts_on_other_devices_are_told_apart(pair):
    others = local_topology(["CPU:2", "CPU:3"])
    here, there = (placed(t, jnp.ones(1), jnp.ones(1)) for t in (pair, others))
    assert key(here) != key(there)


def test_joined_and_alike_values_are_told_apart(pair):
    joined = PerReplica(Joined(join((jnp.ones(1),) * 2, pair), False, pair))
    alike = PerReplica(Alike(replicate(jnp.ones(2), pair), pair))
    assert form_of_slot(slot(alike)) == Form("alike", pair)
    assert slot(alike)[1] is alike.layout.array
    assert key(joined) != key(alike)


@pytest.mark.parametrize(
    "parts",
    [(jnp.ones(2), jnp.ones(3)), (jnp.ones(2), jnp.ones(2, int)), (1, jnp.ones(1))],
    ids=["shape", "dtype", "rank"],
)
def test_parts_of_several_kinds_are_left_to_python(pair, parts):
    assert slot(PerReplica(parts), topology=pair) is DRIVEN


def test_kinds_that_the_workers_told_count(pair):
    """Parts may be equal here, and of another shape on another worker."""
    kinds = tuple(((rows,), "float32") for rows in (1, 1, 2))
    layout = Parts((jnp.ones(1), jnp.ones(1)), pair, kinds)
    assert slot(PerReplica(layout)) is DRIVEN


def test_a_dataset_is_left_to_python(pair):
    dataset = mirrax.data.Dataset.range(2)
    assert slot(dataset) is DRIVEN
    assert unequal_slots([dataset], False, pair) == [DRIVEN]


# A call of the same kind again.


def test_arguments_of_known_kinds_give_their_arrays(pair):
    first = [placed(pair, jnp.ones(2), jnp.ones(2)), jnp.ones(3), jnp.asarray(1.0)]
    keys = [found for found, _, _ in slots_of(first, False, pair)]
    again = placed(pair, jnp.zeros(2), jnp.ones(2))
    slot(again)
    arrays = known_arrays([again, jnp.zeros(3), jnp.asarray(2.0)], keys)
    assert [a.tolist() for a in arrays] == [[0, 0, 1, 1], [0, 0, 0], 2]
    assert known_arrays([], []) == []


@pytest.mark.parametrize(
    "leaf",
    [jnp.ones(4), jnp.ones(3, int), jnp.asarray(1.0), np.ones(3, np.float32), 1, "x"],
    ids=["shape", "dtype", "rank", "numpy", "number", "str"],
)
def test_arguments_of_other_kinds_are_not_known(leaf):
    keys = [key(jnp.ones(3)), key(jnp.ones(3))]
    assert known_arrays([jnp.ones(3), leaf], keys) is None


def test_parts_that_are_not_joined_yet_are_not_known(pair):
    value = placed(pair, jnp.ones(2), jnp.ones(2))
    keys = [key(placed(pair, jnp.ones(2), jnp.ones(2)))]
    assert known_arrays([value], keys) is None
    slot(value)
    assert known_arrays([value], keys) == [value.layout.array]


# Parts of unequal shapes.


def test_unequal_parts_have_the_key_of_equal_ones_like_the_first(pair):
    unequal = PerReplica((jnp.ones((3, 2)), jnp.zeros((1, 2))))
    (found,) = unequal_slots([unequal], False, pair)
    assert found[0] == key(placed(pair, jnp.ones((3, 2)), jnp.ones((3, 2))))
    assert [part.shape for part in found[1]] == [(3, 2), (1, 2)]
    assert form_of_slot(found) == Form("joined", pair)


def test_other_arguments_beside_unequal_parts_are_as_ever(pair):
    leaves = [1, "text", jnp.ones(2), PerReplica((jnp.ones(2), jnp.ones(1)))]
    found = unequal_slots(leaves, True, pair)
    assert [k for k, _, _ in found[:3]] == [key(leaf, True) for leaf in leaves[:3]]
    assert isinstance(found[3][1], tuple)


@pytest.mark.parametrize(
    "parts",
    [(jnp.ones(2), jnp.ones((1, 1))), (jnp.ones(2), jnp.ones(1, int)), (1, 2.5)],
    ids=["rank", "dtype", "scalars"],
)
def test_unequal_parts_of_two_ranks_or_dtypes_are_left_to_python(pair, parts):
    assert unequal_slots([PerReplica(parts)], False, pair) == [DRIVEN]


def test_unequal_parts_for_nobodys_devices_are_only_themselves():
    value = PerReplica((jnp.ones(2), jnp.ones(1)))
    assert unequal_slots([value], False, None) == [(Same(value), None, None)]


def test_unequal_parts_of_several_workers_are_left_to_python(pair):
    topology = Topology(pair.devices, job=Alone())
    value = PerReplica((jnp.ones(2), jnp.ones(1)))
    assert unequal_slots([value], False, topology) == [DRIVEN]


def test_only_unequal_parts_have_shapes():
    assert shapes_of((jnp.ones((2, 3)), jnp.ones((1, 3)))) == ((2, 3), (1, 3))
    assert shapes_of(jnp.ones(2)) is None
    assert shapes_of(2.5) is None


# Keys without shapes, and stand-ins.


def test_calls_that_differ_in_shapes_have_one_key_without_them(pair):
    def call_key(*leaves):
        slots = slots_of(leaves, False, pair)
        kinds = tuple(found for found, _, _ in slots)
        return without_shapes(("structure", kinds, "rest"), slots)

    small = call_key(jnp.ones(2), 1, "text", PerReplica((jnp.ones(2), jnp.ones(2))))
    large = call_key(jnp.ones(9), 2, "text", PerReplica((jnp.ones(7), jnp.ones(7))))
    assert small == large
    assert (small[0], small[2]) == ("structure", "rest")
    assert call_key(jnp.ones(2)) != call_key(jnp.ones(2, int))
    assert call_key(1) != call_key(1.0)
    assert call_key("text") != call_key("other")


def test_what_is_part_of_the_program_keeps_its_whole_key():
    variable = mirrax.Variable(1.0)
    keys = [
        without_shapes((None, (), None), slots_of([leaf], False, None))[1]
        for leaf in (True, False, variable)
    ]
    assert keys == [((bool, True),), ((bool, False),), (Same(variable),)]


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (jnp.ones((2, 3)), ((2, 3), "float32", False)),
        (jnp.asarray(1.0), ((), "float32", True)),
        (np.ones(2), ((2,), "float32", False)),
        (np.int64(3), ((), "int32", False)),
    ],
    ids=["array", "weak", "numpy", "scalar"],
)
def test_arrays_are_traced_as_their_kind(leaf, expected):
    found = stand_ins_of(slot(leaf))
    assert (found.shape, str(found.dtype), bool(found.weak_type)) == expected


@pytest.mark.parametrize("number", [1, 2.5, 3j])
def test_numbers_are_traced_as_they_are(number):
    assert stand_ins_of(slot(number)) is number


def test_unequal_parts_are_traced_as_if_all_were_alike(pair):
    value = PerReplica((jnp.ones((3, 2)), jnp.ones((0, 2))))
    (found,) = unequal_slots([value], False, pair)
    first, second = stand_ins_of(found)
    assert (first.shape, second.shape) == ((6, 2), (0, 2))


# Workers.


def test_the_devices_of_several_workers_are_found_among_arguments(pair):
    over_workers = Topology(pair.devices, job=Alone())
    parts = (jnp.ones(1), jnp.ones(1))
    theirs, ours = (PerReplica(Parts(parts, t)) for t in (over_workers, pair))
    assert topology_of_workers([1, ours, theirs]) is over_workers
    assert topology_of_workers([1, ours, PerReplica(parts)]) is None
    assert topology_of_workers([]) is None


@pytest.mark.parametrize(
    "array", [np.array(["x"]), np.array([object()])], ids=["strings", "objects"]
)
def test_an_array_that_jax_cannot_hold_is_refused(array):
    with pytest.raises(TypeError, match="Arrays of strings or objects cannot be"):
        mirrax.function(lambda x: None)(array)


def test_set_as_an_argument_is_refused():
    with pytest.raises(TypeError, match="unhashable type: 'set'"):
        mirrax.function(lambda x: None)({1})


def test_the_sign_of_a_static_zero_is_seen():
    divide = mirrax.function(lambda x, by: x / jnp.float32(by), static_numbers=True)
    assert [float(divide(1.0, 0.0)), float(divide(1.0, -0.0))] == [np.inf, -np.inf]


@pytest.mark.parametrize("numpy", [np, jnp], ids=["numpy", "jax"])
def test_parts_that_do_not_lie_on_the_replicas_are_traced_once(two_replicas, numpy):
    traces = []
    step = mirrax.function(lambda x: traces.append(None) or x + 1)
    batches = [
        mirrax.PerReplica([numpy.full(2, i), numpy.full(2, i + 1)]) for i in range(3)
    ]
    results = [two_replicas.run(step, args=(batch,)) for batch in batches]
    assert [part.tolist() for part in results[2].values] == [[3, 3], [4, 4]]
    assert len(traces) == 1


def test_parts_that_are_numbers_are_traced_once(two_replicas):
    traces = []
    step = mirrax.function(lambda x: traces.append(None) or x + 1)
    results = [
        two_replicas.run(step, args=(mirrax.PerReplica([i, i + 1]),)) for i in range(3)
    ]
    assert [int(part) for part in results[2].values] == [3, 4]
    assert len(traces) == 1
