"""Variables that the first call of a `tf.function` makes of computed values."""

import numpy as np
import pytest

from mirrax import tf


@pytest.mark.parametrize(
    "initial",
    [
        pytest.param(lambda x, w: 2 * x, id="argument"),
        pytest.param(lambda x, w: w + 4.0, id="variable"),
        pytest.param(lambda x, w: tf.zeros(()) + 6.0, id="constant"),
        pytest.param(lambda x, w: lambda: 2 * x, id="callable"),
    ],
)
def test_function_makes_a_variable_of_a_computed_value_at_its_first_call(initial):
    other, made = tf.Variable(2.0), []

    @tf.function
    def fn(x):
        other.assign_add(1.0)
        if not made:
            made.append(tf.Variable(initial(x, other - 1.0)))
        made[0].assign_add(1.0)
        return made[0] + x

    x, y = tf.constant(3.0), tf.constant(5.0)
    assert [float(fn(x)), float(fn(y))] == [10.0, 13.0]
    assert (float(made[0]), float(other)) == (8.0, 4.0)


@pytest.mark.parametrize("is_inside", [True, False])
def test_replicas_make_a_variable_of_a_computed_value(is_inside):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    made = []

    def step(x):
        if not made:
            made.append(tf.Variable(2 * x))
        return made[0] * x

    inner = tf.function(step)
    whole = tf.function(lambda x: strategy.run(step, (x,)))

    def call(x):
        return whole(x) if is_inside else strategy.run(inner, (x,))

    results = [strategy.reduce("MEAN", call(np.float32(x)), axis=None) for x in (3, 5)]
    assert [float(x) for x in results] == [18.0, 30.0]
    assert all(variable is made[0] for variable in made)


def test_function_that_makes_a_variable_of_each_call_is_refused():
    fn = tf.function(lambda x: tf.Variable(2 * x).value)
    assert float(fn(tf.constant(1.0))) == 2.0
    with pytest.raises(ValueError, match=r"singleton .* created on the first"):
        fn(tf.constant(1.0))


def test_each_object_makes_its_own_variable():
    class Scale(tf.Module):
        v = None

        @tf.function
        def __call__(self, x):
            if self.v is None:
                self.v = tf.Variable(x)
            return self.v * x

    first, second = Scale(), Scale()
    x = tf.constant(3.0)
    assert [float(first(x)), float(second(x)), float(first(x + 1))] == [9.0, 9.0, 12.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda v: v[0].assign(9.0),
        lambda v: v.scatter_nd_update([[0]], [9.0]),
        lambda v: v.scatter_nd_add([[0]], [9.0]),
    ],
    ids=["slice", "scatter_nd_update", "scatter_nd_add"],
)
def test_write_of_some_rows_refuses_to_add_up_the_others(write):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        v = tf.Variable([1.0, 2.0], aggregation=tf.VariableAggregation.SUM)
    with pytest.raises(NotImplementedError, match=r"keeps the other rows.*SUM.*MEAN"):
        strategy.run(lambda: write(v))
    assert v.numpy().tolist() == [1.0, 2.0]
    write(v)
    assert v.numpy()[1] == 2.0
