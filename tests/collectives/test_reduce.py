"""From per-replica values to one, seen from outside the replicas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import ReduceOp
from mirrax.errors import InvalidArgumentError
from tests.programs import cut_in_two, engines, mirrored, per_replica, replica_id

MATRIX = jnp.array([[1.0, 2.0], [3.0, 4.0]])


def number():
    return jnp.float32(replica_id())


@engines
@pytest.mark.parametrize(
    "op", ["SUM", "sum", ReduceOp.SUM], ids=["upper", "lower", "enum"]
)
def test_sum_adds_the_values_of_all_replicas(strategy, engine, op):
    count = strategy.num_replicas_in_sync
    result = strategy.run(engine(lambda: number() + 1))
    assert strategy.reduce(op, result, axis=None) == count * (count + 1) / 2


@pytest.mark.parametrize(
    "op", ["MEAN", "Mean", ReduceOp.MEAN], ids=["upper", "mixed", "enum"]
)
def test_mean_divides_by_the_number_of_replicas(strategy, op):
    count = strategy.num_replicas_in_sync
    result = strategy.run(lambda: number() + 1)
    assert strategy.reduce(op, result, axis=None) == (count + 1) / 2


@pytest.mark.parametrize(
    "value",
    ["text", b"text", np.array(["2020-01-01"], "M8[D]"), np.timedelta64(1, "s")],
    ids=["text", "bytes", "date", "duration"],
)
def test_strings_and_dates_are_not_combined(two_replicas, value):
    values = mirrax.PerReplica((value, value))
    with pytest.raises(TypeError, match=r"combine numbers.*dates.*local_results"):
        two_replicas.reduce("SUM", values, axis=None)


@engines
@pytest.mark.parametrize("axis", [None, 0])
def test_values_of_a_strategy_on_other_devices_are_reduced(two_replicas, engine, axis):
    other = mirrax.MirroredStrategy(["CPU:2", "CPU:3"])
    values = other.run(engine(lambda: jnp.ones(2) * replica_id()))
    total = two_replicas.reduce("SUM", values, axis=axis)
    assert total.tolist() == ([1.0, 1.0] if axis is None else 2.0)


@engines
@pytest.mark.parametrize("count", [1, 4])
def test_values_of_another_number_of_replicas_are_refused(two_replicas, engine, count):
    values = two_replicas.run(engine(number))
    message = rf"2 part\(s\) for {count} replica\(s\).*the strategy that made the value"
    with pytest.raises(ValueError, match=message):
        mirrored(count).reduce("SUM", values, axis=None)


def test_axis_has_no_default(two_replicas):
    with pytest.raises(TypeError, match="axis"):
        two_replicas.reduce("SUM", 1.0)


@pytest.mark.parametrize("op", ["max", None, 3], ids=repr)
def test_unknown_operation_is_refused(strategy, op):
    with pytest.raises(ValueError, match=r"one of SUM, MEAN.*Received: "):
        strategy.reduce(op, strategy.run(number), axis=None)


def test_aggregation_of_variables_is_refused(strategy):
    result = strategy.run(number)
    with pytest.raises(AssertionError, match="takes a ReduceOp, not a VariableAggr"):
        strategy.reduce(mirrax.VariableAggregation.SUM, result, axis=None)


@pytest.mark.parametrize(
    ("axis", "sums", "means"),
    [
        (None, [[3.0, 6.0], [9.0, 12.0]], [[1.5, 3.0], [4.5, 6.0]]),
        (0, [12.0, 18.0], [3.0, 4.5]),
        (1, [9.0, 21.0], [2.25, 5.25]),
        (-1, [9.0, 21.0], [2.25, 5.25]),
        ((0, 1), 30.0, 3.75),
        ([0, 1], 30.0, 3.75),
        ((-2, 1), 30.0, 3.75),
    ],
    ids=str,
)
@engines
def test_axis_is_reduced_too(two_replicas, engine, axis, sums, means):
    value = per_replica(two_replicas, [MATRIX, 2 * MATRIX])

    def both(x):
        return [two_replicas.reduce(op, x, axis=axis) for op in ("SUM", "MEAN")]

    total, mean = engine(both)(value)
    assert total.tolist() == sums
    assert mean.tolist() == means


def test_axis_of_one_replica_is_reduced_too(strategy):
    count = strategy.num_replicas_in_sync
    result = strategy.run(lambda: MATRIX)
    assert strategy.reduce("SUM", result, axis=0).tolist() == [4 * count, 6 * count]
    assert strategy.reduce("MEAN", result, axis=(0, 1)) == 2.5


@pytest.mark.parametrize("axis", [1, -2, True, 0.5, "0", (0, 1)], ids=repr)
@pytest.mark.parametrize("op", ["SUM", "MEAN"])
def test_axis_that_is_not_there_is_refused(strategy, op, axis):
    result = strategy.run(lambda: jnp.ones(2))
    with pytest.raises(ValueError, match=r"`axis` of reduce .* with 1 dimension"):
        strategy.reduce(op, result, axis=axis)


def test_array_that_is_cut_is_its_own_mean(two_replicas):
    array = cut_in_two(jnp.arange(4.0))
    assert two_replicas.reduce("MEAN", array, axis=None).tolist() == [0, 1, 2, 3]


@engines
def test_scalars_have_no_axis(two_replicas, engine):
    result = two_replicas.run(engine(number))
    with pytest.raises(ValueError, match=r"axis=0 for values with 0 dimension"):
        two_replicas.reduce("SUM", result, axis=0)


@pytest.mark.parametrize(
    ("op", "expected"),
    [("SUM", [14.0, 140.0]), ("MEAN", [3.5, 35.0])],
    ids=["sum", "mean"],
)
def test_partial_batch_counts_each_row_once(two_replicas, op, expected):
    rows = [[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]], [[8.0, 80.0]]]
    value = per_replica(two_replicas, [jnp.array(part) for part in rows])
    assert two_replicas.reduce(op, value, axis=0).tolist() == expected


def test_mean_over_two_axes_counts_each_element_once(two_replicas):
    value = per_replica(two_replicas, [jnp.ones((3, 2)), 7 * jnp.ones((1, 2))])
    assert two_replicas.reduce("MEAN", value, axis=(0, 1)) == 2.5


@pytest.mark.parametrize(
    ("op", "expected"), [("SUM", 3.0), ("MEAN", 1.5)], ids=["sum", "mean"]
)
def test_empty_part_counts_for_nothing(two_replicas, op, expected):
    value = per_replica(two_replicas, [jnp.array([1.0, 2.0]), jnp.zeros(0)])
    assert two_replicas.reduce(op, value, axis=0) == expected


def test_sum_of_empty_parts_is_zero(strategy):
    empty = strategy.run(lambda: jnp.zeros(0))
    assert strategy.reduce("SUM", empty, axis=0) == 0.0


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32], ids=["float", "integer"])
def test_mean_of_empty_parts_is_nan(strategy, dtype):
    empty = strategy.run(lambda: jnp.zeros(0, dtype))
    assert np.isnan(strategy.reduce("MEAN", empty, axis=0))


def test_structures_are_reduced_leaf_by_leaf(strategy):
    count = strategy.num_replicas_in_sync
    result = strategy.run(
        lambda: {"loss": jnp.float32(2), "more": (jnp.arange(2.0), [jnp.int32(1)])}
    )
    total = strategy.reduce("SUM", result, axis=None)
    assert total["loss"] == 2 * count
    assert total["more"][0].tolist() == [0.0, count]
    assert total["more"][1][0] == count


def test_none_stays_none(strategy):
    result = strategy.run(lambda: (jnp.float32(1), None))
    assert strategy.reduce("MEAN", result, axis=None)[1] is None


def test_structure_may_mix_even_and_uneven_leaves(two_replicas):
    value = {
        "even": per_replica(two_replicas, [jnp.ones(2), 3 * jnp.ones(2)]),
        "uneven": per_replica(two_replicas, [jnp.ones(3), 5 * jnp.ones(1)]),
    }
    mean = two_replicas.reduce("MEAN", value, axis=0)
    assert (mean["even"], mean["uneven"]) == (2.0, 2.0)


def test_structure_may_mix_distributed_and_plain_leaves(two_replicas):
    value = (per_replica(two_replicas, [1.0, 3.0]), 5.0)
    assert two_replicas.reduce("MEAN", value, axis=None) == (2.0, 5.0)


@pytest.mark.parametrize(
    ("op", "axis", "expected"),
    [
        ("SUM", None, [3.0, 6.0]),
        ("MEAN", None, [1.0, 2.0]),
        ("SUM", 0, 9.0),
        ("MEAN", 0, 1.5),
    ],
    ids=["sum", "mean", "sum_axis", "mean_axis"],
)
@engines
def test_mirrored_array_counts_once_for_each_replica(op, axis, expected, engine):
    strategy = mirrored(3)
    step = mirrax.function(
        lambda: mirrax.get_replica_context().all_reduce("MEAN", jnp.array([1.0, 2.0]))
    )
    combine = engine(lambda: strategy.reduce(op, strategy.run(step), axis=axis))
    assert combine().tolist() == expected


def test_sum_of_a_plain_value_is_refused(two_replicas):
    message = r"needs a value of each. Received: 3.0 for 2 replicas.*jnp.array\(x\)"
    with pytest.raises(ValueError, match=message):
        two_replicas.reduce("SUM", 3.0, axis=None)


def test_sum_of_a_plain_value_on_one_replica_is_that_value():
    assert mirrored(1).reduce("SUM", 3.0, axis=None) == 3.0


@pytest.mark.parametrize(
    ("op", "axis", "expected"),
    [("MEAN", None, [3.0, 4.0]), ("SUM", 0, 14.0), ("MEAN", 0, 3.5)],
    ids=["mean", "sum_axis", "mean_axis"],
)
def test_plain_value_is_there_on_every_replica(two_replicas, op, axis, expected):
    result = two_replicas.reduce(op, jnp.array([3.0, 4.0]), axis=axis)
    assert result.tolist() == expected


@pytest.mark.parametrize("axis", [None, 0])
def test_mean_of_integers_is_a_float(strategy, axis):
    result = strategy.run(lambda: jnp.array([1, 2]))
    mean = strategy.reduce("MEAN", result, axis=axis)
    assert jnp.issubdtype(mean.dtype, jnp.floating)
    assert np.mean(mean) == 1.5


def test_mean_of_integers_is_not_rounded(two_replicas):
    value = per_replica(two_replicas, [jnp.array([1, 2]), jnp.array([4, 8])])
    assert two_replicas.reduce("MEAN", value, axis=None).tolist() == [2.5, 5.0]
    assert two_replicas.reduce("MEAN", value, axis=0) == 3.75


@pytest.mark.parametrize("sizes", [(2, 2), (1, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_mean_of_integers_along_an_axis_does_not_overflow(two_replicas, sizes, dtype):
    largest = jnp.iinfo(dtype).max
    value = per_replica(two_replicas, [jnp.full(n, largest, dtype) for n in sizes])
    mean = two_replicas.reduce("MEAN", value, axis=0)
    assert float(mean) == pytest.approx(largest)


@pytest.mark.parametrize(
    ("dtype", "axis"), [("int8", 0), ("float16", None), ("bfloat16", 0)]
)
def test_sum_keeps_the_dtype(strategy, dtype, axis):
    result = strategy.run(lambda: jnp.ones(2, dtype))
    assert strategy.reduce("SUM", result, axis=axis).dtype == dtype


def test_sum_of_complex_values(two_replicas):
    value = per_replica(two_replicas, [jnp.complex64(1 + 2j), jnp.complex64(3j)])
    assert two_replicas.reduce("SUM", value, axis=None) == 1 + 5j


@pytest.mark.parametrize("axis", [None, 0])
def test_sum_of_booleans_counts(strategy, axis):
    count = strategy.num_replicas_in_sync
    result = strategy.run(lambda: jnp.array([True, True, False]))
    total = strategy.reduce("SUM", result, axis=axis)
    assert np.sum(total) == 2 * count
    assert jnp.issubdtype(total.dtype, jnp.integer)


@pytest.mark.parametrize("axis", [None, 0])
def test_mean_of_booleans_is_their_share(strategy, axis):
    result = strategy.run(lambda: jnp.array([True, True, False, False]))
    mean = strategy.reduce("MEAN", result, axis=axis)
    assert jnp.issubdtype(mean.dtype, jnp.floating)
    assert np.mean(mean) == 0.5


def test_numbers_of_python_are_reduced(two_replicas):
    value = two_replicas.run(lambda: 1.5 + replica_id())
    assert two_replicas.reduce("SUM", value, axis=None) == 4.0


@pytest.mark.parametrize(
    "arrays",
    [[(2,), (3,)], [(1,), (2,)], [(), (1,)], [(2, 1), (1, 2)]],
    ids=["sizes", "no_broadcasting", "ranks", "transposed"],
)
def test_unequal_shapes_are_refused(two_replicas, arrays):
    value = per_replica(two_replicas, [jnp.ones(shape) for shape in arrays])
    message = (
        r"needs the same shape and dtype on each. Received: replica 0: float32\[.*\], "
        r"replica 1: float32\[.*\]. Give an `axis`"
    )
    with pytest.raises(InvalidArgumentError, match=message):
        two_replicas.reduce("SUM", value, axis=None)


def test_unequal_dtypes_are_refused(two_replicas):
    value = per_replica(two_replicas, [jnp.ones(2), jnp.ones(2, jnp.int32)])
    with pytest.raises(
        InvalidArgumentError, match=r"float32\[2\], replica 1: int32\[2\]"
    ):
        two_replicas.reduce("SUM", value, axis=None)


def test_unequal_sizes_along_another_axis_are_refused(two_replicas):
    value = per_replica(two_replicas, [jnp.ones((2, 2)), jnp.ones((1, 3))])
    with pytest.raises(InvalidArgumentError, match="same shape and dtype on each"):
        two_replicas.reduce("SUM", value, axis=0)


def test_results_are_ordinary_arrays(strategy):
    result = strategy.reduce("SUM", strategy.run(number), axis=None)
    assert isinstance(result, jax.Array)
    assert len(result.devices()) == 1


def test_results_of_different_strategies_can_be_mixed(two_replicas):
    others = mirrax.MirroredStrategy(["CPU:2", "CPU:3"])
    alone = mirrax.OneDeviceStrategy("CPU:5")
    results = [
        s.reduce("MEAN", s.run(number), axis=None) for s in (two_replicas, others)
    ]
    results.append(alone.reduce("SUM", alone.run(lambda: number() + 1), axis=None))
    assert sum(results) == 2.0


def test_result_can_be_mixed_with_a_part_on_another_device(two_replicas):
    result = two_replicas.run(number)
    total = two_replicas.reduce("SUM", result, axis=None)
    assert total + result.values[1] == 2.0


def test_reduction_inside_a_function_is_part_of_the_program(strategy):
    count = strategy.num_replicas_in_sync

    @mirrax.function
    def step(x):
        result = strategy.run(lambda y: y + number(), args=(x,))
        return strategy.reduce("SUM", result, axis=None) * 10

    assert step(jnp.float32(1)) == 10 * (count + sum(range(count)))


def test_an_axis_can_be_a_number_of_numpys(two_replicas):
    value = two_replicas.run(lambda: MATRIX * (replica_id() + 1))
    assert two_replicas.reduce("SUM", value, axis=np.int64(0)).tolist() == [12, 18]
