"""The program of the latest call, and when another one is needed."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import trees
from mirrax.run.compiled.arguments import keyed_argument
from mirrax.run.compiled.last_call import LastCall
from mirrax.run.compiled.program_cache import ProgramCache
from mirrax.variables import foreign_libraries


def last_call_of(args, is_run=False):
    leaves, structure = jax.tree.flatten(args, is_leaf=trees.is_leaf)
    structures = None if leaves == args else structure.children()
    keys = [keyed_argument(leaf, None).key for leaf in leaves]
    return LastCall("program", leaves, keys, structures, is_run)


def test_a_call_of_the_same_kind_gets_its_arrays():
    last_call = last_call_of([jnp.ones(3)])
    array = jnp.zeros(3)
    (given,) = last_call.arrays_of([array])
    assert given is array


def test_a_nested_call_of_the_same_kind_gets_its_arrays(two_replicas):
    batch = mirrax.PerReplica((jnp.ones(2), jnp.zeros(2)))
    batch = two_replicas.run(mirrax.function(lambda x: x * 1), (batch,))
    last_call = last_call_of(({"w": jnp.ones(3), "n": None}, (batch, 1.5)))
    array = jnp.zeros(3)
    arrays = last_call.arrays_of(({"w": array, "n": None}, (batch, 2.5)))
    assert arrays[0] is array
    assert arrays[1] is batch.layout.array
    assert arrays[2] == 2.5


@pytest.mark.parametrize(
    "args",
    [
        (jnp.ones(3), jnp.ones(3)),
        ({"w": jnp.ones(3), "b": jnp.ones(4)},),
        ({"v": jnp.ones(3), "b": jnp.ones(3)},),
        ([jnp.ones(3), jnp.ones(3)],),
        ({"w": jnp.ones(3), "b": 1.0},),
    ],
    ids=repr,
)
def test_another_nesting_is_left_to_the_key(args):
    last_call = last_call_of(({"w": jnp.ones(3), "b": jnp.ones(3)},))
    assert last_call.arrays_of(args) is None


def test_workers_compare_arguments_that_are_not_mirrored(two_replicas):
    topology = two_replicas.topology
    mirrored = jax.device_put(jnp.ones(3), topology.replicated)

    def known(leaves):
        keys = [keyed_argument(leaf, None).key for leaf in leaves]
        return LastCall("program", leaves, keys, None, True, topology)

    for leaf in (jnp.ones(3), 1.0):
        assert known([mirrored]).arrays_of([leaf]) is None
        assert known([leaf]).arrays_of([leaf]) is None
    assert known([mirrored]).arrays_of([mirrored]) == [mirrored]


def count_python_calls(function):
    count = 0

    def record(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_nested_call_is_as_direct_as_a_flat_one(two_replicas):
    @mirrax.function
    def nested(state, batch):
        return {"w": state["w"] + 1, "b": state["b"] + 1}

    @mirrax.function
    def flat(w, b, x, y):
        return {"w": w + 1, "b": b + 1}

    data = mirrax.data.Dataset.from_tensor_slices((np.ones(4), np.ones(4))).batch(4)
    batch = next(iter(two_replicas.experimental_distribute_dataset(data)))
    state = {"w": jnp.ones(3), "b": jnp.ones(3)}
    for _ in range(3):
        state = two_replicas.run(nested, (state, batch))
        two_replicas.run(flat, (*state.values(), *batch))
    args = (state["w"], state["b"], *batch)
    one = count_python_calls(lambda: two_replicas.run(nested, (state, batch)))
    other = count_python_calls(lambda: two_replicas.run(flat, args))
    # `trees.flatten`, JAX's own, and a check of each node if a library added types.
    num_nodes = len(jax.tree.leaves((state, batch))) + 5
    assert one <= other + 2 + num_nodes


@pytest.mark.parametrize(
    "args",
    [
        [],
        [jnp.ones(3), jnp.ones(3)],
        [jnp.ones(4)],
        [jnp.ones(3, int)],
        [jnp.ones((3, 1))],
        [np.ones(3, np.float32)],
        [1.0],
        [[jnp.ones(3)]],
    ],
    ids=repr,
)
def test_another_kind_of_call_is_left_to_the_key(args):
    assert last_call_of([jnp.ones(3)]).arrays_of(args) is None


def test_weak_numbers_are_another_kind():
    assert last_call_of([jnp.asarray(1.0)]).arrays_of([jnp.float32(1)]) is None


def own_number():
    return mirrax.get_replica_context().replica_id_in_sync_group


def test_parts_of_scalars_and_of_vectors_are_kept_apart(two_replicas):
    def values(shape):
        return two_replicas.run(mirrax.function(lambda: jnp.ones(shape) * own_number()))

    scalars, vectors = values(()), values((1,))
    assert scalars.layout.array.shape == vectors.layout.array.shape
    assert last_call_of([scalars]).arrays_of([vectors]) is None
    assert last_call_of([scalars]).arrays_of([scalars])[0] is scalars.layout.array


def test_a_transformation_is_another_kind_of_call():
    last_call = last_call_of([])
    assert last_call.arrays_of([]) == []
    seen = []
    jax.make_jaxpr(lambda: seen.append(last_call.arrays_of([])))()
    assert seen == [None]


def test_another_setting_is_another_kind_of_call():
    last_call = last_call_of([])
    with jax.debug_nans(True):
        assert last_call.arrays_of([]) is None
    with jax.default_matmul_precision("float32"):
        assert last_call.arrays_of([]) is None
    assert last_call.arrays_of([]) == []


def test_the_scope_is_another_place_unless_it_is_a_run(two_replicas):
    with two_replicas.scope():
        assert last_call_of([]).arrays_of([]) is None
        assert last_call_of([], is_run=True).arrays_of([]) == []


def test_a_function_called_in_and_out_of_a_scope_sees_where_it_is(two_replicas):
    @mirrax.function
    def count():
        return jnp.float32(mirrax.get_strategy().num_replicas_in_sync)

    def in_scope():
        with two_replicas.scope():
            return float(count())

    assert [float(count()), in_scope(), float(count()), in_scope()] == [1, 2, 1, 2]


def test_calls_of_several_kinds_take_turns():
    double = mirrax.function(lambda x: x * 2)
    args = [jnp.ones(3), jnp.ones(4), np.ones(3, np.float32), jnp.ones(3, int), 2, True]
    for _ in range(3):
        for arg in args:
            np.testing.assert_array_equal(double(arg), np.asarray(arg) * 2)
    assert double.trace_count == 5


def test_what_was_built_is_dropped_on_request():
    programs = ProgramCache("mine")
    built = [programs.get("key", object) for _ in range(2)]
    programs.drop("key")
    programs.drop("key")
    assert built[0] is built[1] is not programs.get("key", object)


def test_building_without_a_trace_counts_none():
    programs = ProgramCache("mine")
    programs.get("key", object)
    assert programs.trace_count == 0
    programs.get("other", programs.count_trace)
    assert programs.trace_count == 1


def test_a_library_that_is_new_stays_new_however_often_it_is_asked(monkeypatch):
    last_call = last_call_of([])
    monkeypatch.setitem(sys.modules, "mirrax_tests_something_new", sys)
    assert last_call.arrays_of([]) == []
    monkeypatch.setitem(sys.modules, "mirrax_tests_a_library", sys)
    monkeypatch.setattr(foreign_libraries, "connected", lambda: range(99))
    assert [last_call.arrays_of([]), last_call.arrays_of([])] == [None, None]
