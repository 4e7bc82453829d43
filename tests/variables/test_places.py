"""Where the arrays of variables are kept."""

import numpy as np
import pytest

import mirrax
from mirrax.variables.places import Places


def test_places_are_read_in_order():
    places = Places([([1, 2], 1), ({"x": 3}, "x")])
    assert places.read() == [2, 3]


def test_what_is_written_is_found_where_it_belongs():
    row, named = [1, 2], {"x": 3}
    rest = Places([(row, 0), (named, "x")]).write(iter([7, 8]))
    assert (row, named, list(rest)) == ([7, 2], {"x": 8}, [])


def test_what_comes_after_the_places_is_returned():
    row = [None]
    assert Places([(row, 0)]).write(iter([1, 2, 3]), num_rest=2) == [2, 3]
    assert row == [1]


def test_results_without_places_are_returned():
    assert Places([]).write(iter([1, 2]), num_rest=2) == [1, 2]


def test_nothing_changes_when_the_arrays_cannot_be_made():
    row = [1]

    def arrays():
        raise OSError("no memory")
        yield

    with pytest.raises(OSError, match="no memory"):
        Places([(row, 0)]).write(arrays())
    assert row == [1]


def test_a_variable_is_at_its_place():
    variable = mirrax.Variable(1.0)
    holder, key = variable.place()
    assert holder[key] is variable.stored
    variable.assign(2.0)
    assert holder[key] is variable.stored


def test_a_copy_has_a_place_of_its_own():
    import copy

    variable = mirrax.Variable(1.0)
    other = copy.copy(variable)
    other.assign(5.0)
    assert (variable.numpy(), other.numpy()) == (1.0, 5.0)


def test_results_of_a_step_are_not_taken_apart_before_someone_looks():
    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
    value = strategy.experimental_distribute_values_from_function(
        lambda context: np.float32(context.replica_id_in_sync_group)
    )
    result = strategy.run(mirrax.function(lambda x: x + 1), args=(value,))
    assert "parts" not in vars(result.layout)
    assert [float(part) for part in result.values] == [1, 2]
