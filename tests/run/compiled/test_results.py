"""What a replica function returns is taken apart, and put together again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.run.compiled.mapped_trace import join_result, split_result
from mirrax.values.mirrored import Mirrored


def test_arrays_are_taken_out_of_a_structure_and_put_back():
    given = {"a": jnp.ones(2), "b": ["text", np.arange(3), None, (jnp.int32(4), 5)]}
    arrays, rest = split_result(given)
    assert [array.tolist() for array in arrays] == [[1, 1], [0, 1, 2], 4]
    assert join_result(rest, "xyz") == {"a": "x", "b": ["text", "y", None, ("z", 5)]}


@pytest.mark.parametrize("result", [None, (), [], {}, {"a": (None, [])}], ids=repr)
def test_a_result_without_leaves_comes_back(result):
    arrays, rest = split_result(result)
    assert arrays == []
    assert join_result(rest, []) == result


def test_a_bare_array_comes_back_bare():
    arrays, rest = split_result(jnp.float32(3))
    assert join_result(rest, [7]) == 7
    assert float(arrays[0]) == 3


@pytest.mark.parametrize("leaf", [1, 2.5, True, "text", b"raw", len], ids=repr)
def test_what_is_no_array_stays_what_it_is(leaf):
    """A number in the result of a replica stays a number of Python's."""
    arrays, rest = split_result([leaf])
    (found,) = join_result(rest, arrays)
    assert found is leaf


def test_scalars_of_numpy_are_arrays():
    arrays, _ = split_result((np.float16(1.5), np.bool_(True)))
    assert [isinstance(array, jax.Array) for array in arrays] == [True, True]
    assert [str(array.dtype) for array in arrays] == ["float16", "bool"]


def test_a_mirrored_value_is_its_array():
    array = jnp.ones(2)
    arrays, _ = split_result({"a": Mirrored(array)})
    assert arrays[0] is array


def test_containers_are_new_each_time():
    given = {"log": []}
    _, rest = split_result(given)
    join_result(rest, [])["log"].append(1)
    assert join_result(rest, []) == {"log": []}


def test_an_object_that_hides_a_tracer_is_refused():
    class Output:
        def __init__(self, loss):
            self.loss = loss

    with pytest.raises(TypeError, match=r"traced value in `Output\.loss`"):
        jax.make_jaxpr(lambda x: split_result([Output(2 * x)])[0])(1.0)
