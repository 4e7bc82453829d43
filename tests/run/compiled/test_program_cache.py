"""The program of the latest call, and when another one is needed."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.run.compiled.arguments import slots_of
from mirrax.run.compiled.program_cache import LastCall, ProgramCache
from mirrax.variables import foreign_libraries


def last_call_of(args, is_run=False):
    return LastCall("program", slots_of(args, None), is_run)


def test_a_call_of_the_same_kind_gets_its_arrays():
    last_call = last_call_of([jnp.ones(3)])
    array = jnp.zeros(3)
    (given,) = last_call.arrays_of([array])
    assert given is array


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
