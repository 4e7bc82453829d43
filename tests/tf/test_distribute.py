import pytest

import mirrax
from mirrax import tf


def test_results_of_a_compiled_run_are_per_replica():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    result = strategy.run(tf.function(lambda: tf.constant(3.0)))
    assert isinstance(result, mirrax.PerReplica)
    assert [part.numpy() for part in result.values] == [3, 3]


def test_results_of_one_replica_are_tensors():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    assert isinstance(strategy.run(tf.function(lambda: tf.constant(3.0))), tf.Tensor)


def test_what_a_run_gave_can_be_given_to_the_next():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        total = tf.Variable(0.0)
    double = tf.function(lambda x: 2 * x)
    summed = strategy.run(double, args=(tf.constant(2.0),))
    strategy.run(tf.function(lambda x: [total.assign(x)]), args=(summed,))
    assert total.numpy() == 4


@pytest.mark.parametrize(
    ("make", "is_v2"),
    [
        (lambda: tf.distribute.MirroredStrategy(["CPU:0"]), True),
        (tf.distribute.get_strategy, True),
        (lambda: tf.compat.v1.distribute.MirroredStrategy(["CPU:0"]), False),
    ],
    ids=["v2", "default", "v1"],
)
def test_strategies_of_both_versions_are_told_apart(make, is_v2):
    strategy = make()
    assert isinstance(strategy, tf.distribute.Strategy) is is_v2


def test_numbers_are_part_of_a_function_as_in_tensorflow():
    traces = []
    repeat = tf.function(lambda n: traces.append(n) or tf.constant([1.0] * n))
    assert [len(repeat(n)) for n in (2, 3, 2)] == [2, 3, 2]
    assert traces == [2, 3]
