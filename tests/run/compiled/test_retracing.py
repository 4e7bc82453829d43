"""What JAX has traced for one place is not used in another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mirrax
from tests.programs import parts


def context():
    return mirrax.get_replica_context()


@pytest.fixture
def weight(two_replicas):
    with two_replicas.scope():
        return mirrax.Variable(1.0)


def test_a_scan_body_sees_a_variable_that_was_written(weight):
    def body(total, _):
        return total + weight.value, None

    @mirrax.function
    def step():
        before, _ = lax.scan(body, 0.0, None, length=3)
        weight.assign(10.0)
        after, _ = lax.scan(body, 0.0, None, length=3)
        return before, after

    assert [float(total) for total in step()] == [3, 30]


def test_a_jitted_helper_reads_variables_in_every_trace(weight):
    helper = jax.jit(lambda x: x * weight.value)
    step = mirrax.function(helper)
    assert float(step(2.0)) == 2
    assert step(jnp.ones(3)).tolist() == [1, 1, 1]
    loss = mirrax.value_and_grad(helper, weight)
    grads = mirrax.function(lambda x: loss(x)[1])
    assert [float(grads(3.0)), float(grads(jnp.float32(4)))] == [3, 4]


def test_a_jitted_helper_on_one_replica_reads_variables_in_every_trace():
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        weight = mirrax.Variable(2.0)
    helper = jax.jit(lambda x: x * weight.value)
    step = mirrax.function(lambda x, y: helper(x) * len(y))
    assert float(strategy.run(step, args=(3.0, jnp.ones(1)))) == 6
    assert float(strategy.run(step, args=(3.0, jnp.ones(2)))) == 12


def test_a_jitted_helper_sees_what_runs_on_one_replica_wrote():
    strategy = mirrax.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        weight = mirrax.Variable(1.0)
    helper = jax.jit(lambda x: x + weight.value)

    @mirrax.function
    def steps():
        seen = []
        for _ in range(3):
            strategy.run(lambda: weight.assign(helper(1.0)))
            seen.append(helper(0.0))
        return seen

    assert [float(value) for value in steps()] == [2, 3, 4]
    assert float(weight) == 4


def test_a_jitted_helper_knows_how_many_replicas_there_are():
    helper = jax.jit(lambda x: x / context().num_replicas_in_sync)
    for count in (1, 2, 4):
        strategy = mirrax.MirroredStrategy([f"CPU:{i}" for i in range(count)])
        result = strategy.run(lambda: helper(12.0))
        assert parts(strategy, result) == [12 / count] * count


def test_a_jitted_helper_knows_its_replica(two_replicas):
    helper = jax.jit(lambda x: x + context().replica_id_in_sync_group)
    assert parts(two_replicas, two_replicas.run(lambda: helper(1))) == [1, 2]
    compiled = two_replicas.run(mirrax.function(lambda: helper(1)))
    assert parts(two_replicas, compiled) == [1, 2]


def test_a_function_in_an_eager_run_of_one_replica_is_traced_once():
    strategy = mirrax.MirroredStrategy(["CPU:0"])
    step = mirrax.function(lambda x: x + 1)

    def replica_step(x):
        return step(x)

    for number in range(3):
        strategy.run(replica_step, args=(jnp.float32(number),))
    assert step.trace_count == 1


def test_a_constant_of_an_inner_program_counts(two_replicas, weight):
    uneven = two_replicas.experimental_distribute_values_from_function(
        lambda c: jnp.ones(3 - c.replica_id_in_sync_group)
    )

    @mirrax.function
    def step(x):
        rows = np.full(4, x.shape[0], np.float32)
        weight.assign(jax.jit(lambda: jnp.asarray(rows).sum())())

    with pytest.raises(ValueError, match="must assign the same value"):
        two_replicas.run(step, args=(uneven,))


def test_a_branch_on_the_shape_between_collectives(two_replicas):
    uneven = two_replicas.experimental_distribute_values_from_function(
        lambda c: jnp.ones(2 * (1 - c.replica_id_in_sync_group))
    )

    @mirrax.function
    def step(x):
        total = context().all_reduce("SUM", jnp.float32(x.shape[0]))
        mean = jnp.mean(x) if x.shape[0] else jnp.zeros(())
        return total, context().all_reduce("SUM", mean)

    total, mean = two_replicas.run(step, args=(uneven,))
    assert parts(two_replicas, total) == [2, 2]
    assert parts(two_replicas, mean) == [1, 1]


@pytest.mark.parametrize("engine", [lambda f: f, mirrax.function], ids=["eager", "F"])
def test_too_many_parts_are_refused(two_replicas, engine):
    value = mirrax.PerReplica([jnp.ones(1)] * 4)
    with pytest.raises(ValueError, match="a part for each replica"):
        two_replicas.run(engine(lambda x: x), args=(value,))


def test_an_algorithm_of_the_users_own_gives_mirrored_sums():
    class Ring(mirrax.CrossDeviceOps):
        def sum_over_replicas(self, values, num_replicas, options):
            return [v + lax.ppermute(v, "replica", [(0, 1), (1, 0)]) for v in values]

    strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"], Ring())
    with strategy.scope():
        total = mirrax.Variable(0.0)
    step = mirrax.function(
        lambda: [total.assign_add(context().all_reduce("SUM", jnp.float32(1)))]
    )
    strategy.run(step)
    assert total.numpy() == 2


def test_a_function_over_a_dataset_runs_its_python_once_per_call(two_replicas):
    calls = []
    dataset = two_replicas.experimental_distribute_dataset(
        mirrax.data.Dataset.range(4).batch(2)
    )

    @mirrax.function
    def epoch():
        calls.append(1)
        return sum(
            two_replicas.reduce("SUM", two_replicas.run(jnp.sum, args=(x,)), axis=None)
            for x in dataset
        )

    assert int(epoch()) == 6
    before = len(calls)
    assert int(epoch()) == 6
    assert len(calls) == before + 1
