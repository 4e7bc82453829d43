"""Random numbers: independent on every replica, the same in every engine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.random import Generator, replica_key

engines = pytest.mark.parametrize(
    "engine", [lambda fn: fn, mirrax.function], ids=["eager", "compiled"]
)


def bits(strategy, result):
    """Returns what each replica drew, as numbers that can be compared."""
    parts = strategy.experimental_local_results(result)
    return [np.asarray(part).tolist() for part in parts]


def draw_from(key):
    return jax.random.bits(replica_key(key), (4,))


def generator_in(strategy, seed=0):
    with strategy.scope():
        return Generator(seed)


# Keys of the replicas.


@engines
def test_each_replica_draws_other_numbers(four_replicas, engine):
    drawn = bits(
        four_replicas, four_replicas.run(engine(lambda: draw_from(jax.random.key(0))))
    )
    assert len({tuple(part) for part in drawn}) == 4


def test_eager_and_compiled_replicas_draw_the_same_numbers(strategy):
    key = jax.random.key(7)
    eager = strategy.run(draw_from, args=(key,))
    compiled = strategy.run(mirrax.function(draw_from), args=(key,))
    assert bits(strategy, eager) == bits(strategy, compiled)


@engines
def test_a_replica_draws_the_same_numbers_however_many_there_are(engine):
    key, step = jax.random.key(7), engine(draw_from)
    strategies = [
        mirrax.MirroredStrategy([f"CPU:{i}" for i in range(count)])
        for count in (1, 2, 4)
    ]
    one, two, four = [bits(s, s.run(step, args=(key,))) for s in strategies]
    assert four[:1] == one
    assert four[:2] == two


def test_outside_run_the_key_stays_as_it_is(strategy):
    key = jax.random.key(0)
    assert replica_key(key) is key
    with strategy.scope():
        assert replica_key(key) is key


def test_in_a_merge_function_the_key_stays_as_it_is(two_replicas):
    key = jax.random.key(0)
    seen = []

    def step():
        mirrax.get_replica_context().merge_call(lambda _: seen.append(replica_key(key)))

    two_replicas.run(step)
    assert seen == [key]


# Generators.


def draws(generator, count=3):
    return [jax.random.bits(generator.key()).item() for _ in range(count)]


def test_a_generator_never_gives_a_key_twice(strategy):
    assert len(set(draws(generator_in(strategy)))) == 3


def test_the_seed_decides(strategy):
    first, again, other = (generator_in(strategy, seed) for seed in (1, 1, 2))
    numbers = draws(first)
    assert numbers == draws(again)
    assert numbers != draws(other)


def test_outside_run_the_keys_do_not_depend_on_the_strategy(strategy):
    assert draws(generator_in(strategy)) == draws(Generator(0))


@engines
def test_a_generator_advances_once_in_each_run(strategy, engine):
    generator = generator_in(strategy)
    step = engine(lambda: jax.random.bits(generator.key()))
    drawn = [bits(strategy, strategy.run(step)) for _ in range(3)]
    numbers = [number for parts in drawn for number in parts]
    assert len(set(numbers)) == 3 * strategy.num_replicas_in_sync


@engines
def test_a_generator_advances_by_one_key_whatever_the_number_of_replicas(
    strategy, engine
):
    generator = generator_in(strategy)
    step = engine(lambda: jax.random.bits(generator.key()))
    strategy.run(step)
    strategy.run(step)
    assert draws(generator, 2) == draws(Generator(0), 4)[2:]


def test_eager_and_compiled_generators_give_the_same_numbers(strategy):
    eager, compiled = generator_in(strategy), generator_in(strategy)
    step = mirrax.function(lambda: jax.random.bits(compiled.key(), (2,)))
    first = [
        bits(strategy, strategy.run(lambda: jax.random.bits(eager.key(), (2,))))
        for _ in range(2)
    ]
    assert first == [bits(strategy, strategy.run(step)) for _ in range(2)]


def test_two_keys_in_one_step_differ(two_replicas):
    generator = generator_in(two_replicas)

    @mirrax.function
    def step():
        return jax.random.bits(generator.key()), jax.random.bits(generator.key())

    first, second = two_replicas.run(step)
    numbers = bits(two_replicas, first) + bits(two_replicas, second)
    assert len(set(numbers)) == 4


def test_a_generator_works_in_a_function_outside_run(strategy):
    generator = generator_in(strategy)
    step = mirrax.function(lambda: jax.random.bits(generator.key()))
    assert [step().item() for _ in range(3)] == draws(Generator(0))


def test_the_state_can_be_put_back(strategy):
    generator = generator_in(strategy)
    draws(generator)
    saved = generator.state.numpy()
    numbers = draws(generator)
    generator.state.assign(saved)
    assert draws(generator) == numbers


def test_the_state_is_not_trained():
    assert not Generator(0).state.trainable


def test_the_copies_of_the_state_stay_equal(four_replicas):
    generator = generator_in(four_replicas)
    four_replicas.run(lambda: jax.random.bits(generator.key()))
    four_replicas.run(mirrax.function(lambda: jax.random.bits(generator.key())))
    first, *others = [part.numpy().tolist() for part in generator.state.values]
    assert others == [first] * 3


def test_dropout_works_in_a_compiled_training_step(two_replicas):
    generator = generator_in(two_replicas)
    with two_replicas.scope():
        weight = mirrax.Variable(jnp.ones(16))

    def loss():
        kept = jax.random.bernoulli(generator.key(), 0.5, (16,))
        return jnp.sum(jnp.where(kept, weight.value, 0))

    step = mirrax.function(lambda: mirrax.value_and_grad(loss, weight)()[1])
    left, right = two_replicas.run(step).values
    assert set(np.asarray(left).tolist()) == {0, 1}
    assert left.tolist() != right.tolist()
