"""Every algorithm gives the same sums, and the user's own is really used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mirrax
from mirrax.collectives import XlaAllReduce
from tests.programs import create, engines, mirrored, parts, per_replica, replica_id

ALGORITHMS = {
    "all_reduce": XlaAllReduce,
    "nccl": lambda: mirrax.NcclAllReduce(num_packs=2),
    "hierarchical": lambda: mirrax.HierarchicalCopyAllReduce(num_packs=2),
    "hierarchical_unpacked": lambda: mirrax.HierarchicalCopyAllReduce(num_packs=0),
    "one_device": mirrax.ReductionToOneDevice,
}
SHAPES = [(), (3,), (2, 2), (0,)]


def all_reduce(op, value, options=None):
    return mirrax.get_replica_context().all_reduce(op, value, options)


def make_values(number):
    """Returns values of several shapes and dtypes, different on every replica."""
    floats = [np.full(shape, number + 1, np.float32) for shape in SHAPES]
    values = {"floats": floats, "integers": np.arange(3) + number}
    return jax.tree.map(jnp.asarray, values)


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    """Each algorithm in turn."""
    return ALGORITHMS[request.param]()


@engines
@pytest.mark.parametrize("num_replicas", [3, 4])
def test_sums_are_the_same_for_every_algorithm(algorithm, num_replicas, engine):
    strategy = mirrored(num_replicas, cross_device_ops=algorithm)
    values = strategy.experimental_distribute_values_from_function(
        lambda context: make_values(context.replica_id_in_sync_group)
    )
    sums = strategy.run(engine(lambda x: all_reduce("SUM", x)), args=(values,))
    total = num_replicas * (num_replicas + 1) // 2
    for_last = jax.tree.map(
        lambda leaf: np.asarray(strategy.experimental_local_results(leaf)[-1]).tolist(),
        sums,
        is_leaf=lambda x: isinstance(x, mirrax.PerReplica),
    )
    assert for_last == {
        "floats": [(np.ones(shape) * total).tolist() for shape in SHAPES],
        "integers": [i * num_replicas + total - num_replicas for i in range(3)],
    }


def test_means_are_the_same_for_every_algorithm(algorithm):
    strategy = mirrored(3, cross_device_ops=algorithm)
    value = per_replica(strategy, [jnp.float32(x) for x in (1, 2, 6)])
    assert strategy.reduce("MEAN", value, axis=None) == 3.0


def test_sums_keep_their_dtype(algorithm):
    strategy = mirrored(2, cross_device_ops=algorithm)
    value = per_replica(strategy, [jnp.ones(2, jnp.bfloat16)] * 2)
    assert strategy.reduce("SUM", value, axis=None).dtype == jnp.bfloat16


def test_sum_of_a_compiled_step_may_be_assigned(algorithm):
    strategy = mirrored(4, cross_device_ops=algorithm)
    v = create(strategy, 0.0)

    @mirrax.function
    def step():
        v.assign(all_reduce("SUM", jnp.float32(replica_id())))

    strategy.run(step)
    assert parts(strategy, v) == [6.0] * 4


def test_gradient_goes_through_every_algorithm(algorithm):
    strategy = mirrored(4, cross_device_ops=algorithm)

    @mirrax.function
    def step():
        number = jnp.float32(replica_id())
        return jax.grad(lambda x: number * all_reduce("SUM", x))(1.0)

    assert parts(strategy, strategy.run(step)) == [6.0] * 4


class Weighted(mirrax.CrossDeviceOps):
    """Ten times the sum, so that its use shows."""

    def __init__(self):
        self.options = []

    def sum_over_replicas(self, values, num_replicas, options):
        self.options.append((num_replicas, options))
        return [10 * total for total in lax.psum(tuple(values), "replica")]


@pytest.fixture
def weighted():
    return mirrored(2, cross_device_ops=Weighted())


@engines
def test_own_algorithm_is_used_by_all_reduce(weighted, engine):
    result = weighted.run(engine(lambda: all_reduce("SUM", jnp.float32(1))))
    assert parts(weighted, result) == [20.0, 20.0]


def test_own_algorithm_is_used_by_reduce(weighted):
    value = per_replica(weighted, [jnp.float32(1), jnp.float32(2)])
    assert weighted.reduce("SUM", value, axis=None) == 30.0


def test_own_algorithm_is_used_by_uneven_reductions(weighted):
    value = per_replica(weighted, [jnp.ones(1), jnp.ones(2)])
    assert weighted.reduce("SUM", value, axis=0) == 30.0


def test_own_algorithm_is_used_by_reduce_to(weighted):
    value = per_replica(weighted, [jnp.float32(1), jnp.float32(2)])
    result = weighted.extended.reduce_to("MEAN", value, value)
    assert parts(weighted, result) == [15.0, 15.0]


@engines
def test_own_algorithm_is_used_by_variables(weighted, engine):
    v = create(weighted, 0.0, aggregation=mirrax.VariableAggregation.SUM)
    weighted.run(engine(lambda: v.assign(jnp.float32(1))))
    assert v.numpy() == 20.0


@engines
def test_own_algorithm_sees_the_options_and_the_count(engine):
    ops = Weighted()
    strategy = mirrored(2, cross_device_ops=ops)
    options = mirrax.CommunicationOptions(bytes_per_pack=64)
    strategy.run(engine(lambda: all_reduce("SUM", jnp.float32(1), options)))
    assert ops.options[-1] == (2, options)


def test_class_without_the_method_cannot_be_made():
    class Nothing(mirrax.CrossDeviceOps):
        pass

    with pytest.raises(TypeError, match="sum_over_replicas"):
        Nothing()


@pytest.mark.parametrize("ops", ["nccl", mirrax.NcclAllReduce], ids=["name", "class"])
def test_strategy_refuses_what_is_no_algorithm(ops):
    with pytest.raises(ValueError, match=r"must be a `CrossDeviceOps`.*Received: "):
        mirrored(2, cross_device_ops=ops)


# Called by the user.


@pytest.mark.parametrize(("op", "expected"), [("SUM", 3.0), ("MEAN", 1.5)])
def test_reduce_mirrors_on_the_devices_of_a_variable(algorithm, op, expected):
    strategy = mirrored(2)
    value = per_replica(strategy, [jnp.float32(1), jnp.float32(2)])
    result = algorithm.reduce(op, value, create(strategy, 0.0))
    assert isinstance(result, mirrax.Mirrored)
    assert parts(strategy, result) == [expected] * 2


def test_reduce_to_a_device_gives_an_array_there(algorithm):
    value = per_replica(mirrored(2), [jnp.float32(1), jnp.float32(2)])
    result = algorithm.reduce(mirrax.ReduceOp.SUM, value, "CPU:1")
    assert result.devices() == {jax.devices("cpu")[1]}
    assert result == 3.0


def test_reduce_uses_the_algorithm_and_its_options():
    ops, options = Weighted(), mirrax.CommunicationOptions(bytes_per_pack=64)
    value = per_replica(mirrored(2), [jnp.float32(1), jnp.float32(2)])
    assert ops.reduce("SUM", value, value, options) == 30.0
    assert ops.options == [(2, options)]


def test_reduce_inside_a_merge_function():
    strategy, ops = mirrored(2), mirrax.ReductionToOneDevice()

    def merge(_, value):
        return ops.reduce("SUM", value, value)

    def replica_fn():
        context = mirrax.get_replica_context()
        return context.merge_call(merge, (jnp.float32(replica_id()),))

    assert parts(strategy, strategy.run(replica_fn)) == [1.0, 1.0]
    assert parts(strategy, strategy.run(mirrax.function(replica_fn))) == [1.0, 1.0]


def test_reduce_of_a_plain_value_is_that_value(algorithm):
    strategy = mirrored(2)
    result = algorithm.reduce("SUM", 3.0, create(strategy, 0.0))
    assert parts(strategy, result) == [3.0, 3.0]


def test_batch_reduce_gives_one_result_for_each_pair(algorithm):
    strategy = mirrored(2)
    value = per_replica(strategy, [jnp.float32(1), jnp.float32(2)])
    first, second = algorithm.batch_reduce("SUM", [(value, value), (value, "CPU:0")])
    assert parts(strategy, first) == [3.0, 3.0]
    assert second.devices() == {jax.devices("cpu")[0]}


def test_batch_reduce_adds_up_all_values_in_one_go():
    ops = Weighted()
    value = per_replica(mirrored(2), [jnp.float32(1), jnp.float32(2)])
    results = ops.batch_reduce(
        "SUM", [(value, "CPU:0"), (1.0, "CPU:0"), (value, value)]
    )
    assert [float(result) for result in results] == [30.0, 1.0, 30.0]
    assert len(ops.options) == 1


def test_batch_reduce_refuses_what_is_no_pair(algorithm):
    with pytest.raises(ValueError, match=r"list of tuples.*Received: 3 in it"):
        algorithm.batch_reduce("SUM", [3])


def test_broadcast_mirrors_on_several_devices(algorithm):
    strategy = mirrored(2)
    result = algorithm.broadcast(3.0, create(strategy, 0.0))
    assert parts(strategy, result) == [3.0, 3.0]
    assert algorithm.broadcast(3.0, "CPU:1").devices() == {jax.devices("cpu")[1]}


def test_reduce_of_a_value_without_devices_needs_a_scope():
    value = mirrax.PerReplica((1.0, 2.0))
    with pytest.raises(ValueError, match=r"inside `strategy.scope\(\)`"):
        mirrax.NcclAllReduce().reduce("SUM", value, "CPU:0")


def test_reduce_inside_a_replica_is_refused(algorithm):
    with pytest.raises(RuntimeError, match=r"`CrossDeviceOps.reduce`"):
        mirrored(2).run(lambda: algorithm.reduce("SUM", 1.0, "CPU:0"))


@pytest.mark.parametrize("name", ["reduce_implementation", "batch_reduce", "broadcast"])
def test_methods_that_strategies_would_never_call_are_refused(name):
    with pytest.raises(TypeError, match=rf"`sum_over_replicas`.*defines `{name}`"):
        type("Own", (mirrax.NcclAllReduce,), {name: lambda self: None})
