"""Objects that stand for arrays: in expressions, in jnp and in numpy."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.values.array_like import as_array
from tests.programs import create, engines, mirrored


def mirror(value):
    strategy = mirrored(2)
    return mirrax.Mirrored(jax.device_put(value, strategy.topology.replicated))


KINDS = {
    "variable": mirrax.Variable,
    "mirrored_variable": lambda value: create(mirrored(2), value),
    "variable_part": lambda value: create(mirrored(2), value).values[1],
    "mirrored": mirror,
}
FLOATS = np.array([1.0, 2.0, 4.0], np.float32)
INTEGERS = np.array([1, 2, 4], np.int32)
ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
COMPARISONS = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


def name_of(function):
    return function.__name__


@pytest.fixture(params=KINDS)
def make(request):
    """Each kind of array-like object in turn, as a function of its value."""
    return KINDS[request.param]


# All kinds have the operators of one base class.


@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS], ids=name_of)
def test_operator_takes_the_value_on_both_sides(op):
    value = mirrax.Variable(FLOATS)
    for result, expected in (
        (op(value, 2.0), op(FLOATS, 2.0)),
        (op(2.0, value), op(2.0, FLOATS)),
    ):
        np.testing.assert_array_equal(result, expected)
        assert isinstance(result, jax.Array)


@pytest.mark.parametrize("op", BITS, ids=name_of)
def test_bits_combine_on_both_sides(op):
    value = mirrax.Variable(INTEGERS)
    np.testing.assert_array_equal(op(value, 3), op(INTEGERS, 3))
    np.testing.assert_array_equal(op(3, value), op(3, INTEGERS))


@pytest.mark.parametrize("op", [operator.neg, operator.pos, abs], ids=name_of)
def test_unary_operator_applies_to_the_value(op):
    np.testing.assert_array_equal(op(mirrax.Variable(-FLOATS)), op(-FLOATS))


def test_invert_applies_to_the_value():
    np.testing.assert_array_equal(~mirrax.Variable(INTEGERS), ~INTEGERS)


def test_matrices_multiply_on_both_sides(make):
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    vector = np.array([1.0, 10.0], np.float32)
    np.testing.assert_array_equal(make(matrix) @ jnp.asarray(vector), [21.0, 43.0])
    np.testing.assert_array_equal(jnp.asarray(vector) @ make(matrix), [31.0, 42.0])


def test_two_objects_combine(make):
    np.testing.assert_array_equal(make(FLOATS) + make(FLOATS), 2 * FLOATS)


def test_numpy_array_on_the_left_gives_a_jax_array(make):
    result = FLOATS * make(FLOATS)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, FLOATS * FLOATS)


def test_numpy_array_on_the_left_works_in_a_function(two_replicas):
    v = create(two_replicas, FLOATS)
    result = mirrax.function(lambda: FLOATS * v)()
    np.testing.assert_array_equal(result, FLOATS * FLOATS)


def test_shape_dtype_and_size_are_those_of_the_array(make):
    value = make(np.ones((2, 3), np.float16))
    assert value.shape == (2, 3)
    assert value.dtype == np.float16
    assert value.ndim == 2
    assert value.size == 6


def test_size_of_a_scalar_is_one(make):
    assert make(np.float32(1)).size == 1


def test_astype_reshape_and_transpose_give_arrays(make):
    value = make(np.array([[1.0, 2.0]], np.float32))
    assert value.astype(jnp.int32).dtype == np.int32
    assert value.reshape(2).tolist() == [1.0, 2.0]
    assert value.reshape(2, 1).shape == (2, 1)
    assert value.T.tolist() == [[1.0], [2.0]]


def test_items_rows_and_length_are_those_of_the_array(make):
    value = make(FLOATS)
    assert value[1] == 2.0
    assert value[1:].tolist() == [2.0, 4.0]
    assert [float(x) for x in value] == [1.0, 2.0, 4.0]
    assert len(value) == 3


def test_scalar_converts_to_python_numbers(make):
    assert float(make(np.float32(2.5))) == 2.5
    assert int(make(np.int32(7))) == 7
    assert [10, 20, 30][make(np.int32(1))] == 20
    assert bool(make(np.float32(1)))
    assert not bool(make(np.float32(0)))


def test_truth_of_many_elements_is_refused(make):
    with pytest.raises(ValueError, match="ambiguous"):
        bool(make(FLOATS))


def test_numpy_and_jax_functions_take_the_object(make):
    assert float(jnp.sum(make(FLOATS))) == 7.0
    assert np.asarray(make(FLOATS)).tolist() == [1.0, 2.0, 4.0]
    assert np.asarray(make(FLOATS), dtype=np.int64).dtype == np.int64
    assert float(np.sum(np.asarray(make(FLOATS)))) == 7.0


def test_numpy_gives_a_copy(make):
    value = make(FLOATS)
    copy = value.numpy()
    copy[:] = 0
    assert value.numpy().tolist() == [1.0, 2.0, 4.0]


def test_conversion_to_numpy_gives_a_copy(make):
    value = make(FLOATS)
    copy = np.array(value)
    copy[:] = 0
    assert np.asarray(value).tolist() == [1.0, 2.0, 4.0]


def test_objects_are_keys_by_identity(make):
    first, second = make(FLOATS), make(FLOATS)
    names = {first: "first", second: "second"}
    assert names[first] == "first"
    assert names[second] == "second"


def test_as_array_gives_the_array(make):
    assert isinstance(as_array(make(FLOATS)), jax.Array)


def test_as_array_leaves_other_values_alone():
    assert as_array("text") == "text"


@engines
def test_expressions_mean_the_same_in_both_engines(strategy, engine):
    v = create(strategy, FLOATS)
    result = strategy.run(engine(lambda: (1 - v) ** 2 + v[0] * 2))
    for_first = strategy.experimental_local_results(result)[0]
    assert np.asarray(for_first).tolist() == [2.0, 3.0, 11.0]


def test_scalar_can_be_formatted():
    variable = mirrax.Variable(1.2345)
    assert f"{variable:.2f}" == "1.23"
    assert f"{variable}" == repr(variable)


def test_scalar_can_be_rounded():
    assert float(round(mirrax.Variable(1.26), 1)) == pytest.approx(1.3)
