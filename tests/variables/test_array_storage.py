"""Where the arrays of variables are kept."""

import numpy as np
import pytest

import mirrax
from mirrax.variables import aliasing
from mirrax.variables.array_storage import Slots, in_storage_order, storage_list_of


def test_nothing_changes_when_the_arrays_cannot_be_made():
    row = [1]

    def arrays():
        raise OSError("no memory")
        yield

    with pytest.raises(OSError, match="no memory"):
        Slots([(row, 0)]).write(arrays())
    assert row == [1]


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


# Rows: the variables that one program changes, side by side.


def variables_of(count):
    return [mirrax.Variable(float(number)) for number in range(count)]


def test_variables_are_put_into_a_row_where_they_are_found_again():
    variables = variables_of(3)
    row = storage_list_of(variables)
    assert [array is v.stored for array, v in zip(row, variables, strict=True)] == [
        True
    ] * 3
    assert storage_list_of(variables) is row
    variables[1].assign(7.0)
    assert [float(array) for array in row] == [0, 7, 2]


def test_a_larger_row_takes_variables_out_of_a_smaller_one():
    variables = variables_of(5)
    small = storage_list_of(variables[:2])
    large = storage_list_of(variables)
    assert len(large) == 5
    assert small == [None, None]
    assert [float(v.numpy()) for v in variables] == [0, 1, 2, 3, 4]


def test_a_smaller_row_leaves_variables_where_they_are():
    variables = variables_of(5)
    large = storage_list_of(variables)
    assert storage_list_of(variables[:2]) is None
    assert storage_list_of(variables[::-1]) is None
    assert storage_list_of(variables) is large


def test_variables_in_one_row_come_in_its_order():
    variables = variables_of(3)
    storage_list_of(variables)
    assert [v is w for v, w in zip(in_storage_order(variables[::-1]), variables)] == [
        True
    ] * 3
    others = variables_of(2)
    assert in_storage_order(others[::-1])[0] is others[1]


def test_a_row_keeps_nothing_of_a_variable_that_is_gone():
    variables = variables_of(3)
    row = storage_list_of(variables)
    del variables[1]
    assert row[1] is None
    assert len(storage_list_of(variables)) == 2
    assert [float(v.numpy()) for v in variables] == [0, 2]


def test_moves_are_counted():
    variables = variables_of(2)
    before = aliasing.counters.moves
    storage_list_of(variables)
    storage_list_of(variables)
    assert aliasing.counters.moves == before + 1


def test_programs_over_some_of_the_variables_see_one_anothers_changes():
    variables = variables_of(4)

    def adder(some):
        def add():
            for variable in some:
                variable.assign_add(1.0)

        return mirrax.function(add)

    add_two, add_all = adder(variables[1:3]), adder(variables)
    add_back = adder(variables[::-1])
    for add in (add_two, add_all, add_two, add_back, add_two, add_all):
        add()
    assert [float(v.numpy()) for v in variables] == [3, 7, 8, 6]
