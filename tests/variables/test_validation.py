"""What may be written into a variable, and how one may be declared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import VariableAggregation, VariableSynchronization
from tests.programs import create, engines


@engines
@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
@pytest.mark.parametrize(
    "value",
    [[1.0, 2.0, 3.0], 1.0, [[1.0, 2.0]], jnp.ones(1)],
    ids=["longer", "scalar", "matrix", "shorter"],
)
def test_other_shape_is_refused(two_replicas, engine, method, value):
    v = create(two_replicas, [1.0, 2.0])
    message = r"'Variable:0' has the fixed shape \(2,\). Received: a value of shape"
    with pytest.raises(ValueError, match=message):
        engine(lambda: getattr(v, method)(value))()
    assert v.numpy().tolist() == [1.0, 2.0]


@engines
def test_other_shape_is_refused_in_run(strategy, engine):
    v = create(strategy, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"has the fixed shape \(2,\)"):
        strategy.run(engine(lambda: v.assign(jnp.ones(3))))


@engines
@pytest.mark.parametrize(
    "value",
    [
        jnp.ones(2, jnp.int32),
        jnp.ones(2, jnp.float16),
        jnp.ones(2, jnp.complex64),
    ],
    ids=["int32", "float16", "complex"],
)
def test_array_of_other_dtype_is_refused(strategy, engine, value):
    v = create(strategy, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"dtype float32.*astype\('float32'"):
        engine(lambda: v.assign(value))()


@engines
@pytest.mark.parametrize(
    "value",
    [np.array([3, 4]), np.array([3.0, 4.0], np.float16), [np.int8(3), 4]],
    ids=["int64", "float16", "list"],
)
def test_array_of_numpy_converts_where_nothing_is_lost(strategy, engine, value):
    v = create(strategy, [1.0, 2.0])
    engine(lambda: v.assign(value))()
    assert v.numpy().tolist() == [3.0, 4.0]
    assert v.value.dtype == np.float32


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1.5, TypeError), (np.array([1.5]), TypeError), (jnp.ones(2), ValueError)],
    ids=["number", "numpy", "array"],
)
def test_initial_value_converts_without_loss(strategy, value, kind):
    with (
        strategy.scope(),
        pytest.raises(kind, match="must convert to its dtype without loss"),
    ):
        mirrax.Variable(value, dtype=np.int32)


def test_initial_value_takes_a_wider_dtype(strategy):
    with strategy.scope():
        assert mirrax.Variable(jnp.ones(2, jnp.int32), dtype=np.float16).dtype == "f2"


def test_number_that_loses_its_fraction_is_a_type_error(strategy):
    v = create(strategy, 1)
    with pytest.raises(TypeError, match="does not convert without loss"):
        v.assign(1.5)


@pytest.mark.parametrize(
    "value",
    [1.5, 1j, "text", object()],
    ids=["float", "complex", "text", "object"],
)
def test_number_that_does_not_convert_is_refused(strategy, value):
    v = create(strategy, 1)
    with pytest.raises(ValueError, match="has the fixed dtype int32"):
        v.assign(value)


def test_none_is_refused(strategy):
    v = create(strategy, 1)
    with pytest.raises(ValueError, match="Does a function lack its `return`"):
        v.assign(None)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(np.int8, 300), (np.uint8, -1), (np.int32, 2**40), (np.bool_, 2)],
    ids=["int8", "uint8", "int32", "bool"],
)
def test_number_that_does_not_fit_is_refused(strategy, dtype, value):
    v = create(strategy, dtype(1))
    with pytest.raises((ValueError, OverflowError), match="Variable:0"):
        v.assign(value)


def test_weak_type_follows_the_variable():
    v = mirrax.Variable(1.0)
    mirrax.function(v.assign)(3)
    assert v.numpy() == 3.0
    assert v.value.dtype == np.float32


def test_variable_does_not_keep_a_weak_type():
    v = mirrax.Variable(1.0)
    assert not v.value.weak_type
    assert (v + jnp.bfloat16(1)).dtype == np.float32


@pytest.mark.parametrize("aggregation", ["SUM", None, 1, mirrax.ReduceOp.SUM], ids=repr)
def test_aggregation_is_an_enum(strategy, aggregation):
    message = (
        r"Invalid variable aggregation mode: .* for variable: .*`aggregation` of a "
        r"variable must be a `VariableAggregation`\. Received: "
    )
    with pytest.raises(ValueError, match=message):
        create(strategy, 1.0, aggregation=aggregation)


@pytest.mark.parametrize("synchronization", ["ON_READ", None, 3], ids=repr)
def test_synchronization_is_an_enum(strategy, synchronization):
    message = "`synchronization` of a variable must be a `VariableSynchronization`"
    with pytest.raises(ValueError, match=message):
        create(strategy, 1.0, synchronization=synchronization)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_], ids=["i", "u", "b"])
@pytest.mark.parametrize(
    "synchronization",
    [VariableSynchronization.AUTO, VariableSynchronization.ON_READ],
    ids=str,
)
def test_mean_of_integers_is_refused_at_creation(strategy, dtype, synchronization):
    with pytest.raises(
        ValueError, match=r"needs a floating-point variable. Received: dtype="
    ):
        create(
            strategy,
            dtype(1),
            aggregation=VariableAggregation.MEAN,
            synchronization=synchronization,
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_mean_of_inexact_numbers_is_allowed(strategy, dtype):
    v = create(strategy, jnp.ones((), dtype), aggregation=VariableAggregation.MEAN)
    assert v.dtype == dtype


@pytest.mark.parametrize("initial", [None, lambda: None], ids=["value", "callable"])
def test_variable_needs_an_initial_value(strategy, initial):
    with pytest.raises(
        ValueError, match="needs an initial value: an array, a number or"
    ):
        create(strategy, initial)


def test_traced_initial_value_is_refused(strategy):
    message = r"must not be traced.* Received: .* shape \(2,\). Pass a callable"
    with pytest.raises(ValueError, match=message):
        mirrax.function(lambda x: create(strategy, x))(jnp.ones(2))


@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
@pytest.mark.parametrize(
    "synchronization", [VariableSynchronization.AUTO, VariableSynchronization.ON_WRITE]
)
def test_synchronization_on_write_is_the_mirrored_kind(
    two_replicas, aggregation, synchronization
):
    v = create(
        two_replicas, 1.0, aggregation=aggregation, synchronization=synchronization
    )
    assert type(v).__name__ == "MirroredVariable"
    assert v.synchronization is VariableSynchronization.ON_WRITE
    assert v.aggregation is aggregation


@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_synchronization_on_read_is_a_kind_of_its_own(two_replicas, aggregation):
    on_read = VariableSynchronization.ON_READ
    v = create(two_replicas, 1.0, aggregation=aggregation, synchronization=on_read)
    assert type(v).__name__ == "SyncOnReadVariable"
    assert v.synchronization is on_read
    assert v.aggregation is aggregation


@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_copies_must_be_synchronized_at_some_time(two_replicas, aggregation):
    with pytest.raises(
        ValueError, match=r"`NONE` .* synchronization=NONE. Use ON_WRITE"
    ):
        create(
            two_replicas,
            1.0,
            aggregation=aggregation,
            synchronization=VariableSynchronization.NONE,
        )


@pytest.mark.parametrize(
    "make",
    [
        mirrax.Variable,
        lambda *a, **k: create(mirrax.OneDeviceStrategy("CPU:0"), *a, **k),
    ],
    ids=["outside", "one_device"],
)
@pytest.mark.parametrize("synchronization", VariableSynchronization, ids=str)
@pytest.mark.parametrize("aggregation", VariableAggregation, ids=str)
def test_plain_variable_takes_every_combination(make, synchronization, aggregation):
    v = make(1.0, synchronization=synchronization, aggregation=aggregation)
    assert v.synchronization is synchronization
    assert v.aggregation is aggregation
    assert v.assign_add(1.0).numpy() == 2.0


def test_initial_array_is_not_tied_to_a_device(two_replicas):
    tied = jax.device_put(jnp.ones(2), jax.devices("cpu")[3])
    v = create(two_replicas, tied)
    assert (v.value + jax.device_put(1.0, jax.devices("cpu")[0])).tolist() == [2.0, 2.0]


def test_the_options_are_listed(strategy):
    with pytest.raises(
        ValueError, match=r"Use one of .*VariableSynchronization.ON_READ\."
    ):
        create(strategy, 1.0, synchronization="on_read")


def test_truth_values_have_no_sum(strategy):
    with pytest.raises(ValueError, match="not a boolean"):
        create(strategy, True, aggregation=mirrax.VariableAggregation.SUM)
