"""The cross-replica methods for those who write optimizers and libraries."""

import jax
import jax.numpy as jnp
import pytest

import mirrax
from mirrax import VariableAggregation, VariableSynchronization
from mirrax.errors import ReplicaError
from mirrax.variables import MirroredVariable
from tests.programs import (
    create,
    device_of,
    engines,
    mirrored,
    parts,
    per_replica,
    replica_id,
)


def cpu(index):
    return jax.devices("cpu")[index]


def local_name(index):
    return f"/job:localhost/replica:0/task:0/device:CPU:{index}"


@pytest.fixture
def numbers(two_replicas):
    return per_replica(two_replicas, [jnp.float32(1), jnp.float32(2)])


# Facts.


@pytest.mark.parametrize(
    ("make", "indices"),
    [
        (lambda: mirrax.MirroredStrategy(["CPU:0", "CPU:2"]), [0, 2]),
        (lambda: mirrax.OneDeviceStrategy("/cpu:1"), [1]),
    ],
    ids=["mirrored", "one_device"],
)
def test_devices_have_full_names(make, indices):
    extended = make().extended
    names = tuple(local_name(index) for index in indices)
    assert extended.worker_devices == names
    assert extended.parameter_devices == names
    assert extended.non_slot_devices([]) == names


def test_flags_are_those_of_one_machine(strategy):
    extended = strategy.extended
    assert extended.should_checkpoint
    assert extended.should_save_summary
    assert extended.experimental_should_init
    assert not extended.experimental_between_graph
    assert not extended.experimental_require_static_shapes


def test_extended_is_public(strategy):
    assert isinstance(strategy.extended, mirrax.StrategyExtended)


# Calls.


@engines
def test_call_for_each_replica_is_run(strategy, engine):
    count = strategy.num_replicas_in_sync
    result = strategy.extended.call_for_each_replica(
        engine(lambda x, k: (jnp.float32(replica_id()) + x) * k),
        args=[1.0],
        kwargs={"k": 10.0},
    )
    assert parts(strategy, result) == [10.0 * (i + 1) for i in range(count)]


# reduce_to and batch_reduce_to.


@pytest.mark.parametrize(
    ("op", "expected"), [("SUM", 3.0), ("MEAN", 1.5)], ids=["sum", "mean"]
)
def test_reduce_to_a_variable_mirrors_on_its_devices(
    two_replicas, numbers, op, expected
):
    v = create(two_replicas, 0.0)
    result = two_replicas.extended.reduce_to(op, numbers, v)
    assert isinstance(result, mirrax.Mirrored)
    assert parts(two_replicas, result) == [expected] * 2


def test_reduce_to_the_value_itself_mirrors_on_all_devices(two_replicas, numbers):
    result = two_replicas.extended.reduce_to("SUM", numbers, numbers)
    assert [device_of(part) for part in result.values] == [cpu(0), cpu(1)]


@pytest.mark.parametrize("name", ["CPU:1", "/cpu:1", "CPU:5"])
def test_reduce_to_a_device_gives_an_array_there(two_replicas, numbers, name):
    result = two_replicas.extended.reduce_to("SUM", numbers, name)
    assert device_of(result) == cpu(int(name[-1]))
    assert result == 3.0


def test_reduce_to_a_list_of_devices_mirrors_there(two_replicas, numbers):
    result = two_replicas.extended.reduce_to("SUM", numbers, ["CPU:3", "CPU:4"])
    assert [device_of(part) for part in result.values] == [cpu(3), cpu(4)]


def test_reduce_to_a_variable_of_other_devices(two_replicas, numbers):
    v = create(mirrax.MirroredStrategy(["CPU:2", "CPU:3"]), 0.0)
    result = two_replicas.extended.reduce_to("SUM", numbers, v)
    assert [device_of(part) for part in result.values] == [cpu(2), cpu(3)]
    assert [float(part) for part in result.values] == [3.0, 3.0]


def test_reduce_to_a_plain_variable_gives_an_array_there(two_replicas, numbers):
    v = create(mirrax.OneDeviceStrategy("CPU:4"), 0.0)
    result = two_replicas.extended.reduce_to("SUM", numbers, v)
    assert device_of(result) == cpu(4)


def test_reduced_values_of_different_devices_can_be_mixed(two_replicas, numbers):
    reduce_to = two_replicas.extended.reduce_to
    first = reduce_to("SUM", numbers, "CPU:1")
    second = reduce_to("SUM", numbers, "CPU:5")
    third = reduce_to("SUM", numbers, numbers)
    assert first + second + third == 9.0


@pytest.mark.parametrize("destinations", [None, 3, {"a": 1}], ids=repr)
def test_reduce_to_nowhere_is_refused(two_replicas, numbers, destinations):
    message = "`destinations` must be a variable, a distributed value.*Received: "
    with pytest.raises(TypeError, match=message):
        two_replicas.extended.reduce_to("SUM", numbers, destinations)


def test_reduce_to_refuses_another_operation(two_replicas, numbers):
    with pytest.raises(ValueError, match="Received: 'max'"):
        two_replicas.extended.reduce_to("max", numbers, numbers)


def test_sum_of_a_plain_value_to_somewhere_is_refused(two_replicas):
    with pytest.raises(ValueError, match="needs a value of each"):
        two_replicas.extended.reduce_to("SUM", 1.0, "CPU:0")


def test_mean_of_a_plain_value_stays_where_it_is(two_replicas):
    v = create(two_replicas, 0.0)
    result = two_replicas.extended.reduce_to("MEAN", jnp.float32(3), v)
    assert isinstance(result, jax.Array)
    assert result == 3.0


def test_batch_reduce_to_gives_a_list_in_order(two_replicas, numbers):
    v = create(two_replicas, [0.0, 0.0])
    rows = per_replica(two_replicas, [jnp.array([1.0, 2.0]), jnp.array([2.0, 4.0])])
    results = two_replicas.extended.batch_reduce_to(
        "MEAN", [(rows, v), (numbers, numbers), (rows, "CPU:1")]
    )
    assert isinstance(results, list)
    assert parts(two_replicas, results[0]) == [[1.5, 3.0]] * 2
    assert parts(two_replicas, results[1]) == [1.5, 1.5]
    assert results[2].tolist() == [1.5, 3.0]


def test_batch_reduce_to_of_nothing_is_nothing(two_replicas):
    assert two_replicas.extended.batch_reduce_to("SUM", []) == []


def test_batch_reduce_to_takes_options(two_replicas, numbers):
    options = mirrax.CommunicationOptions(bytes_per_pack=1)
    results = two_replicas.extended.batch_reduce_to(
        "SUM", [(numbers, numbers), (numbers, numbers)], options
    )
    assert [float(result) for result in results] == [3.0, 3.0]


@engines
def test_reduce_to_works_in_a_merge_function(two_replicas, engine):
    def merge(strategy, x):
        return strategy.extended.reduce_to("SUM", x, x)

    def step():
        x = jnp.float32(replica_id()) + 1
        return mirrax.get_replica_context().merge_call(merge, args=(x,)) + 0

    assert parts(two_replicas, two_replicas.run(engine(step))) == [3.0, 3.0]


# broadcast_to and read_var.


def test_broadcast_to_a_variable_mirrors_on_its_devices(two_replicas):
    v = create(two_replicas, 0.0)
    result = two_replicas.extended.broadcast_to(jnp.array([3.0, 4.0]), v)
    assert isinstance(result, mirrax.Mirrored)
    assert parts(two_replicas, result) == [[3.0, 4.0]] * 2


@pytest.mark.parametrize("value", [5.0, jnp.float32(5)], ids=["number", "array"])
def test_broadcast_to_a_device_gives_an_array_there(two_replicas, value):
    result = two_replicas.extended.broadcast_to(value, "CPU:1")
    assert device_of(result) == cpu(1)
    assert result == 5.0


def test_broadcast_refuses_values_of_replicas(two_replicas):
    value = mirrax.PerReplica((1.0, 2.0))
    with pytest.raises(ValueError, match="Received: one with a value for each replica"):
        two_replicas.extended.broadcast_to(value, "CPU:1")


def test_broadcast_leaves_the_given_array_alone(two_replicas):
    v = create(two_replicas, [0.0, 0.0])
    mine = jnp.array([1.0, 2.0])
    v.assign(two_replicas.extended.broadcast_to(mine, v))
    mirrax.function(lambda: v.assign_add([1.0, 1.0]))()
    assert mine.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("SUM", 4.0), ("MEAN", 2.0), ("ONLY_FIRST_REPLICA", 2.0)],
)
def test_read_var_combines_copies(two_replicas, aggregation, expected):
    v = create(
        two_replicas,
        2.0,
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation[aggregation],
    )
    assert two_replicas.extended.read_var(v) == expected


def test_read_var_reads_any_variable(strategy):
    assert strategy.extended.read_var(create(strategy, 3.0)) == 3.0


# update.


@engines
def test_update_changes_every_copy(strategy, engine):
    v = create(strategy, [1.0, 2.0])

    def change():
        strategy.extended.update(
            v, lambda var, x: var.assign_add(x), args=([1.0, 1.0],)
        )

    engine(change)()
    assert parts(strategy, v) == [[2.0, 3.0]] * strategy.num_replicas_in_sync


def test_update_takes_keyword_arguments(strategy):
    v = create(strategy, 1.0)
    strategy.extended.update(v, lambda var, x: var.assign(x), kwargs={"x": 4.0})
    assert v.numpy() == 4.0


def test_update_works_on_the_device_of_each_copy(strategy):
    v = create(strategy, 1.0)
    seen = []
    strategy.extended.update(v, lambda var: seen.append(device_of(jnp.ones(1) * var)))
    assert seen == list(strategy.topology.devices)


def test_update_gives_mirrored_arguments_by_part(two_replicas, numbers):
    v = create(two_replicas, 1.0)
    total = two_replicas.extended.reduce_to("SUM", numbers, v)
    seen = []

    def change(var, x):
        seen.append(device_of(x))
        var.assign_add(x)

    two_replicas.extended.update(v, change, args=(total,))
    assert seen == list(two_replicas.topology.devices)
    assert parts(two_replicas, v) == [4.0, 4.0]


def test_update_sees_its_own_writes(strategy):
    v = create(strategy, 1.0)

    def change(var):
        var.assign_add(1.0)
        var.assign(var.value * 10)

    strategy.extended.update(v, change)
    assert parts(strategy, v) == [20.0] * strategy.num_replicas_in_sync


def test_update_changes_other_variables_too(strategy):
    v, slot = create(strategy, 1.0), create(strategy, 0.0)

    def change(var, x):
        slot.assign(x)
        var.assign_sub(slot.value)

    strategy.extended.update(v, change, args=(0.25,))
    assert parts(strategy, v) == [0.75] * strategy.num_replicas_in_sync
    assert parts(strategy, slot) == [0.25] * strategy.num_replicas_in_sync


def test_update_merges_results_of_all_copies(two_replicas):
    v = create(two_replicas, 1.0)
    result = two_replicas.extended.update(v, lambda var: var.assign_add(1.0))
    assert isinstance(result, mirrax.Mirrored)
    assert parts(two_replicas, result) == [2.0, 2.0]


def test_update_gives_results_that_differ_as_a_per_replica(two_replicas, numbers):
    v = create(two_replicas, 1.0)
    result = two_replicas.extended.update(v, lambda var, x: var + x, args=(numbers,))
    assert isinstance(result, mirrax.PerReplica)
    assert parts(two_replicas, result) == [2.0, 3.0]


def test_update_mirrors_each_array_of_a_structure(two_replicas):
    v = create(two_replicas, 1.0)
    total, number = two_replicas.extended.update(v, lambda var: (var + 1.0, 7))
    assert isinstance(total, mirrax.Mirrored)
    assert (float(total), number) == (2.0, 7)


def test_update_gives_one_result_per_copy_without_group(two_replicas):
    v = create(two_replicas, 1.0)
    result = two_replicas.extended.update(
        v, lambda var: var.assign_add(1.0), group=False
    )
    assert [float(part) for part in result] == [2.0, 2.0]
    assert [device_of(part) for part in result] == list(two_replicas.topology.devices)


@engines
def test_update_gives_results_of_each_copy_without_group(two_replicas, engine):
    v = create(two_replicas, 1.0)

    def change():
        return two_replicas.extended.update(
            v, lambda var: {"new": var.assign_add(1.0), "n": None}, group=False
        )

    result = engine(change)()
    assert [float(part) for part in result["new"]] == [2.0, 2.0]
    assert result["n"] is None


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("results", [[(1, 2), (1,)], [(1, 2), [1, 2]]], ids=str)
def test_update_that_returns_other_structures_is_refused(two_replicas, results, group):
    v, rest = create(two_replicas, 1.0), iter(results)
    with pytest.raises(AssertionError, match="must return the same structure"):
        two_replicas.extended.update(v, lambda var: next(rest), group=group)


def test_update_without_group_takes_none_from_some_copies(two_replicas):
    v, rest = create(two_replicas, 1.0), iter([(None, 1), (2, 1)])
    result = two_replicas.extended.update(v, lambda var: next(rest), group=False)
    assert result == ((None, 2), (1, 1))


def test_update_of_a_plain_variable_gives_one_result_without_group():
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    v = create(strategy, 3.0)
    result = strategy.extended.update(v, lambda var: var.value * 2, group=False)
    assert result == (6.0,)


def test_update_that_lets_copies_drift_is_refused(two_replicas, numbers):
    v = create(two_replicas, 0.0)
    message = r"every replica must assign the same value. .*assigns 1.0, .*assigns 2.0"
    with pytest.raises(ValueError, match=message):
        two_replicas.extended.update(v, lambda var, x: var.assign(x), args=(numbers,))
    assert parts(two_replicas, v) == [0.0, 0.0]


def test_update_of_some_copies_only_is_refused(two_replicas):
    v = create(two_replicas, 0.0)
    calls = []

    def change(var):
        calls.append(1)
        return var.assign(5.0) if len(calls) == 1 else None

    with pytest.raises((ValueError, AssertionError), match="replica"):
        two_replicas.extended.update(v, change)
    assert parts(two_replicas, v) == [0.0, 0.0]


def test_failed_update_changes_nothing(two_replicas):
    v = create(two_replicas, 0.0)
    calls = []

    def change(var):
        calls.append(1)
        var.assign(5.0)
        if len(calls) == 2:
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        two_replicas.extended.update(v, change)
    assert parts(two_replicas, v) == [0.0, 0.0]


@engines
def test_update_in_a_merge_function_is_the_way_of_optimizers(two_replicas, engine):
    v = create(two_replicas, 10.0)

    def merge(strategy, gradient):
        total = strategy.extended.reduce_to("SUM", gradient, v)
        strategy.extended.update(v, lambda var, g: var.assign_sub(g), args=(total,))

    def step():
        gradient = jnp.float32(replica_id()) + 1
        mirrax.get_replica_context().merge_call(merge, args=(gradient,))

    two_replicas.run(engine(step))
    assert parts(two_replicas, v) == [7.0, 7.0]


@engines
def test_update_by_different_values_in_a_merge_function_is_refused(
    two_replicas, engine
):
    v = create(two_replicas, 0.0)

    def merge(strategy, x):
        strategy.extended.update(v, lambda var, part: var.assign(part), args=(x,))

    def step():
        x = jnp.float32(replica_id()) + 1
        mirrax.get_replica_context().merge_call(merge, args=(x,))

    with pytest.raises(ValueError, match="every replica"):
        two_replicas.run(engine(step))
    assert parts(two_replicas, v) == [0.0, 0.0]


@engines
def test_update_by_a_per_replica_argument_of_a_function_is_refused(
    two_replicas, numbers, engine
):
    v = create(two_replicas, 0.0)

    def change(x):
        two_replicas.extended.update(v, lambda var, part: var.assign(part), args=(x,))

    with pytest.raises(ValueError, match=r"every replica|PerReplica"):
        engine(change)(numbers)
    assert parts(two_replicas, v) == [0.0, 0.0]


@engines
def test_update_gives_each_copy_of_an_on_read_variable_on_its_own(
    two_replicas, numbers, engine
):
    v = create(
        two_replicas,
        [1.0, 2.0],
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation.SUM,
    )
    two_replicas.run(lambda x: v.assign(v.value + x), args=(numbers,))

    def change():
        two_replicas.extended.update(v, lambda var: var.assign(var.read_value() * 2))
        two_replicas.extended.update(v, lambda var: var.assign_add([0.0, 1.0]))

    engine(change)()
    assert parts(two_replicas, v) == [[4.0, 7.0], [6.0, 9.0]]


def test_update_inside_another_strategy_is_refused(two_replicas):
    v = create(two_replicas, 0.0)
    with mirrored(3).scope(), pytest.raises(RuntimeError, match="another strategy"):
        two_replicas.extended.update(v, lambda var: var.assign(1.0))


def test_update_non_slot_works_on_each_device(strategy):
    seen = []
    strategy.extended.update_non_slot(
        strategy.extended.non_slot_devices([]),
        lambda x: seen.append((device_of(jnp.ones(1)), x)),
        args=(3.0,),
    )
    assert seen == [(device, 3.0) for device in strategy.topology.devices]


def test_update_non_slot_takes_a_variable_as_place(two_replicas):
    v = create(two_replicas, 0.0)
    result = two_replicas.extended.update_non_slot(
        v, jnp.float32, args=(3.0,), group=False
    )
    assert [device_of(part) for part in result] == list(two_replicas.topology.devices)


def test_update_non_slot_changes_variables(strategy):
    v = create(strategy, 1.0)
    strategy.extended.update_non_slot(
        strategy.extended.parameter_devices, lambda: v.assign_add(2.0)
    )
    assert parts(strategy, v) == [3.0] * strategy.num_replicas_in_sync


# Belonging.


def test_variable_is_created_in_the_scope_of_one_strategy(strategy):
    other = mirrax.MirroredStrategy(["CPU:5", "CPU:6"])
    own, foreign, plain = (
        create(strategy, 1.0),
        create(other, 1.0),
        mirrax.Variable(1.0),
    )
    belongs = strategy.extended.variable_created_in_scope
    assert [belongs(v) for v in (own, foreign, plain)] == [True, False, False]


def test_other_objects_are_not_created_in_a_scope(strategy):
    assert not strategy.extended.variable_created_in_scope(jnp.ones(2))


def test_value_container_of_a_copy_is_the_variable(two_replicas):
    v = create(two_replicas, 1.0)
    container = two_replicas.extended.value_container
    copies = two_replicas.experimental_local_results(v)
    assert all(container(copy) is v for copy in copies)
    assert container(v) is v


@pytest.mark.parametrize(
    "make",
    [lambda: jnp.float32(1), lambda: mirrax.Variable(1.0)],
    ids=["array", "plain"],
)
def test_value_container_of_anything_else_is_itself(strategy, make):
    value = make()
    assert strategy.extended.value_container(value) is value


def test_colocate_vars_with_puts_variables_beside(strategy):
    v = create(strategy, 1.0)
    with strategy.scope(), strategy.extended.colocate_vars_with(v):
        w = mirrax.Variable(2.0)
    assert type(w) is type(v)
    assert w.device == v.device
    assert strategy.extended.variable_created_in_scope(w)


@pytest.mark.parametrize(
    "make",
    [
        lambda: create(mirrax.MirroredStrategy(["CPU:5", "CPU:6"]), 1.0, name="theirs"),
        lambda: mirrax.Variable(1.0, name="theirs"),
    ],
    ids=["other_strategy", "plain"],
)
def test_colocate_vars_with_a_foreign_variable_is_refused(strategy, make):
    theirs = make()
    message = r"variable .*created in the scope.*Received: 'theirs:0'"
    with strategy.scope(), pytest.raises(ValueError, match=message):
        strategy.extended.colocate_vars_with(theirs).__enter__()


def test_colocate_vars_with_needs_the_scope(strategy):
    v = create(strategy, 1.0)
    message = "must be called inside the scope.*Received: a call in no strategy's scope"
    with pytest.raises(RuntimeError, match=message):
        strategy.extended.colocate_vars_with(v).__enter__()


def test_colocate_vars_with_keeps_the_kind(two_replicas):
    v = create(two_replicas, 1.0)
    with two_replicas.scope(), two_replicas.extended.colocate_vars_with(v):
        assert type(mirrax.Variable(2.0)) is MirroredVariable


def test_reduce_to_a_copy_of_a_variable_goes_to_its_device(two_replicas, numbers):
    copies = two_replicas.experimental_local_results(create(two_replicas, 1.0))
    reduced = two_replicas.extended.reduce_to("SUM", numbers, copies[1])
    assert device_of(reduced) == cpu(1)


def test_reduce_to_takes_structures(two_replicas, numbers):
    v = create(two_replicas, 1.0)
    plain = two_replicas.extended.reduce_to("SUM", numbers, v)
    nested = two_replicas.extended.reduce_to("SUM", {"a": [numbers]}, v)
    assert parts(two_replicas, nested["a"][0]) == parts(two_replicas, plain)


@engines
def test_update_in_a_replica_is_done_once(strategy, engine):
    with strategy.scope():
        variable = mirrax.Variable(3.0)

    def step(delta):
        total = mirrax.get_replica_context().all_reduce("MEAN", delta)
        strategy.extended.update(variable, lambda v, x: v.assign_add(x), args=(total,))

    strategy.run(engine(step), args=(jnp.float32(2),))
    assert variable.numpy() == 5


def test_update_non_slot_belongs_outside_of_replicas(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(3.0)
    with pytest.raises(RuntimeError, match="requires being in cross-replica context"):
        two_replicas.run(
            lambda: two_replicas.extended.update_non_slot(variable, lambda: 1)
        )


def test_update_in_a_derivative_is_part_of_it(two_replicas):
    with two_replicas.scope():
        variable = mirrax.Variable(2.0)

    def step():
        def loss():
            two_replicas.extended.update(
                variable, lambda v, x: v.assign(x), args=(variable.value * 2,)
            )
            return variable.value**2

        return mirrax.value_and_grad(loss, variable)()

    value, gradient = two_replicas.run(step)
    for part in two_replicas.experimental_local_results(value):
        assert float(part) == 16
    for part in two_replicas.experimental_local_results(gradient):
        assert float(part) == 16
    assert variable.numpy() == 4


def test_replicas_must_update_the_same_variable(two_replicas):
    with two_replicas.scope():
        variables = [mirrax.Variable(0.0, name=name) for name in "ab"]

    def step():
        variable = variables[replica_id()]
        two_replicas.extended.update(variable, lambda v: v.assign_add(1.0))

    with pytest.raises(ReplicaError, match=r"variable='a:0'.*variable='b:0'"):
        two_replicas.run(step)
    assert [variable.numpy() for variable in variables] == [0, 0]
