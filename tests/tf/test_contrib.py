"""The strategy of TensorFlow 1.11, in the words of its reference page."""

import pytest

import mirrax
from mirrax import tf
from mirrax.testing import launch_processes
from tests.tf.cluster_programs import configure_too_late, count_towers

SUM = tf.VariableAggregation.SUM


@pytest.fixture
def distribution():
    return tf.contrib.distribute.MirroredStrategy(devices=["CPU:0", "CPU:1"])


def tower_number():
    return tf.constant(1.0) * (tf.get_tower_context().tower_id + 1)


def numbers(distribution, value):
    return [x.numpy().tolist() for x in distribution.unwrap(value)]


def test_every_member_of_the_reference_page_is_there(distribution):
    members = """between_graph is_single_tower num_towers parameter_devices
        should_checkpoint should_init should_save_summary worker_device_index
        worker_devices batch_reduce broadcast call_for_each_tower colocate_vars_with
        configure distribute_dataset finalize group initialize map non_slot_devices
        read_var reduce run_steps_on_dataset scope unwrap update update_non_slot
        value_container"""
    assert [name for name in members.split() if not hasattr(distribution, name)] == []


def test_the_scope_gives_the_strategy(distribution):
    with distribution.scope() as entered:
        assert entered is distribution
        assert tf.contrib.distribute.get_distribution_strategy() is distribution
        assert tf.contrib.distribute.get_cross_tower_context() is distribution
        assert tf.contrib.distribute.in_cross_tower_context()
        assert tf.contrib.distribute.has_distribution_strategy()
    assert not tf.contrib.distribute.has_distribution_strategy()
    assert tf.contrib.distribute.get_cross_tower_context() is None


def test_towers_know_themselves(distribution):
    seen = []

    def fn():
        context = tf.get_tower_context()
        seen.append((context.device[-5:], context.num_towers, context.is_single_tower))
        assert context.distribution_strategy is distribution

    distribution.call_for_each_tower(fn, run_concurrently=False)
    assert seen == [("CPU:0", 2, False), ("CPU:1", 2, False)]


def test_merge_functions_get_the_strategy(distribution):
    def merge(strategy, value, *, factor):
        assert strategy is distribution
        return sum(strategy.unwrap(value)) * factor

    result = distribution.call_for_each_tower(
        lambda: tf.get_tower_context().merge_call(merge, tower_number(), factor=2)
    )
    assert numbers(distribution, result) == [6]


def test_a_tower_outside_every_strategy_is_alone():
    context = tf.get_tower_context()
    assert context.is_single_tower
    assert context.merge_call(lambda strategy, x: x + strategy.num_towers, 1) == 2


def test_reduce_to_all_towers_is_an_all_reduce(distribution):
    value = distribution.call_for_each_tower(tower_number)
    reduced = distribution.reduce(SUM, value, destinations=value)
    assert numbers(distribution, reduced) == [3, 3]


def test_reduce_needs_an_aggregation(distribution):
    value = distribution.call_for_each_tower(tower_number)
    with pytest.raises(ValueError, match=r"SUM, MEAN or ONLY_FIRST_TOWER.*NONE"):
        distribution.reduce(tf.VariableAggregation.NONE, value, value)


def test_broadcast_goes_to_all_towers_or_one(distribution):
    assert numbers(distribution, distribution.broadcast(tf.constant(3.0))) == [3, 3]
    one = distribution.broadcast(tf.constant(3.0), "/device:CPU:1")
    assert numbers(distribution, one) == [3]


@pytest.mark.parametrize("initial", [[1.0, 2.0], 0.0], ids=["vector", "zero"])
def test_broadcast_goes_to_the_devices_of_a_variable(distribution, initial):
    with distribution.scope():
        variable = tf.get_variable("v", initializer=initial)
        copies = distribution.broadcast(tf.constant(3.0), variable)
    assert numbers(distribution, copies) == [3, 3]


def test_variables_of_one_place_are_updated_together(distribution):
    with distribution.scope():
        first = tf.get_variable("first", initializer=1.0)
        with distribution.colocate_vars_with(first):
            second = tf.get_variable("second", initializer=2.0)
        distribution.update(first, lambda v, other: v.assign_add(other), second)
    assert numbers(distribution, first) == [3, 3]
    assert distribution.value_container(distribution.unwrap(first)[1]) is first


def test_colocating_needs_the_scope(distribution):
    with distribution.scope():
        variable = tf.get_variable("v", initializer=1.0)
    with pytest.raises(RuntimeError, match="Need to be inside"):
        distribution.colocate_vars_with(variable)


@pytest.mark.parametrize("method", ["update", "update_non_slot"])
def test_updates_take_no_values_that_differ(distribution, method):
    with distribution.scope():
        variable = tf.get_variable("v", initializer=1.0)
    differing = distribution.call_for_each_tower(tower_number)
    with pytest.raises(TypeError, match="must be the same on all devices"):
        getattr(distribution, method)(variable, lambda *_: None, differing)


def test_read_var_combines_what_towers_counted(distribution):
    with distribution.scope():
        on_read = tf.VariableSynchronization.ON_READ
        count = tf.get_variable(
            "n", initializer=0.0, synchronization=on_read, aggregation=SUM
        )
    distribution.call_for_each_tower(lambda: count.assign_add(tower_number()))
    assert distribution.read_var(count).numpy() == 3


def test_datasets_give_an_element_to_each_tower(distribution):
    dataset = distribution.distribute_dataset(lambda: tf.data.Dataset.range(4).batch(1))
    elements = [numbers(distribution, x) for x in dataset]
    assert elements == [[[0], [1]], [[2], [3]]]
    iterator = dataset.make_initializable_iterator()
    context = distribution.run_steps_on_dataset(
        lambda context, x: context.set_last_step_output("x", x), iterator, iterations=2
    )
    assert numbers(distribution, context.last_step_outputs["x"]) == [[2], [3]]
    with pytest.raises(tf.errors.OutOfRangeError, match="no more elements"):
        distribution.run_steps_on_dataset(lambda *_: None, iterator)
    assert dataset.make_one_shot_iterator().get_next() is not None


def test_map_takes_devices_in_turn(distribution):
    results = distribution.map([1, 2, 3], lambda x, y: tf.constant(x) * y, 10)
    found = [[int(x) for x in part.get()] for part in distribution.unwrap(results)]
    assert found == [[10, 30], [20]]


def test_starting_and_ending_do_nothing(distribution):
    assert distribution.initialize() is None
    assert distribution.finalize() is None
    assert distribution.group(tf.constant(1)) is None
    assert distribution.configure() is None


def test_devices_and_num_gpus_exclude_each_other():
    with pytest.raises(ValueError, match="both say where to run"):
        tf.contrib.distribute.MirroredStrategy(devices=["CPU:0"], num_gpus=1)


def test_no_gpus_means_the_cpu():
    strategy = tf.contrib.distribute.MirroredStrategy(num_gpus=0)
    assert strategy.is_single_tower
    assert strategy.worker_device_index == 0


def test_one_device_strategy_has_one_tower():
    strategy = tf.contrib.distribute.OneDeviceStrategy("CPU:1")
    assert strategy.call_for_each_tower(tower_number).numpy() == 1
    with pytest.raises(ValueError, match="runs on one machine"):
        strategy.configure(cluster_spec={"worker": ["a:1"]})


def test_cross_tower_ops_are_used():
    ops = tf.contrib.distribute.ReductionToOneDeviceCrossTowerOps()
    strategy = tf.contrib.distribute.MirroredStrategy(
        devices=["CPU:0", "CPU:1"], cross_tower_ops=ops
    )
    value = strategy.call_for_each_tower(tower_number)
    assert numbers(strategy, strategy.reduce(SUM, value, value)) == [3, 3]
    assert issubclass(mirrax.ReductionToOneDevice, tf.contrib.distribute.CrossTowerOps)


@pytest.mark.slow
def test_a_cluster_makes_one_tower_per_worker():
    results = launch_processes(count_towers, 2)
    assert results == [[2, True, [3.0]], [2, False, [3.0]]]


def test_a_cluster_comes_before_everything_else():
    assert "`configure` chooses the devices" in configure_too_late()
