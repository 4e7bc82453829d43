"""What a replica function returns is taken apart, and put together again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.run.compiled.results import split_results_of_replica as split
from mirrax.values.mirrored import Mirrored


def test_arrays_are_taken_out_of_a_structure_and_put_back():
    given = {"a": jnp.ones(2), "b": ["text", np.arange(3), None, (jnp.int32(4), 5)]}
    arrays, rest = split(given)
    assert [array.tolist() for array in arrays] == [[1, 1], [0, 1, 2], 4]
    assert rest.filled("xyz") == {"a": "x", "b": ["text", "y", None, ("z", 5)]}


@pytest.mark.parametrize("result", [None, (), [], {}, {"a": (None, [])}], ids=repr)
def test_a_result_without_leaves_comes_back(result):
    arrays, rest = split(result)
    assert arrays == []
    assert rest.filled([]) == result


def test_a_bare_array_comes_back_bare():
    arrays, rest = split(jnp.float32(3))
    assert rest.filled([7]) == 7
    assert float(arrays[0]) == 3


@pytest.mark.parametrize("leaf", [1, 2.5, True, "text", b"raw", len], ids=repr)
def test_what_is_no_array_stays_what_it_is(leaf):
    """A number in the result of a replica stays a number of Python's."""
    arrays, rest = split([leaf])
    (found,) = rest.filled(arrays)
    assert found is leaf


def test_scalars_of_numpy_are_arrays():
    arrays, _ = split((np.float16(1.5), np.bool_(True)))
    assert [isinstance(array, jax.Array) for array in arrays] == [True, True]
    assert [str(array.dtype) for array in arrays] == ["float16", "bool"]


def test_a_mirrored_value_is_its_array():
    array = jnp.ones(2)
    arrays, _ = split({"a": Mirrored(array)})
    assert arrays[0] is array


def test_containers_are_new_each_time():
    given = {"log": []}
    _, rest = split(given)
    rest.filled([])["log"].append(1)
    assert rest.filled([]) == {"log": []}


def test_an_object_that_hides_a_tracer_is_refused():
    class Output:
        def __init__(self, loss):
            self.loss = loss

    with pytest.raises(TypeError, match=r"traced value in `Output\.loss`"):
        jax.make_jaxpr(lambda x: split([Output(2 * x)])[0])(1.0)
