import numpy as np
import pytest

from mirrax import tf


@pytest.fixture(autouse=True)
def seed():
    tf.random.set_seed(7)


def test_the_seed_decides_the_numbers():
    first = [tf.random.normal([3]).numpy().tolist() for _ in range(2)]
    tf.random.set_seed(7)
    again = [tf.random.normal([3]).numpy().tolist() for _ in range(2)]
    assert first == again
    assert first[0] != first[1]


def test_seeds_of_operations_set_them_apart():
    numbers = []
    for seed in (1, 2):
        tf.random.set_seed(7)
        numbers.append(tf.random.uniform([2], seed=seed).numpy().tolist())
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize(
    ("draw", "mean", "std"),
    [
        (lambda n: tf.random.uniform([n], 1.0, 3.0), 2, 0.577),
        (lambda n: tf.random.normal([n], 5.0, 2.0), 5, 2),
        (lambda n: tf.random.truncated_normal([n], 5.0, 2.0), 5, 1.76),
        (lambda n: tf.random.gamma([n], 3.0, 2.0), 1.5, 0.866),
        (lambda n: tf.random.poisson([n], 4.0), 4, 2),
        (lambda n: tf.random.categorical([[0.0, 0.0]], n), 0.5, 0.5),
        (lambda n: tf.random.stateless_uniform([n], [1, 2], 1.0, 3.0), 2, 0.577),
        (lambda n: tf.random.stateless_normal([n], [1, 2], 5.0, 2.0), 5, 2),
        (lambda n: tf.random.stateless_truncated_normal([n], [1, 2]), 0, 0.88),
        pytest.param(
            lambda n: tf.random.stateless_gamma([n], [1, 2], 3.0, 2.0),
            1.5,
            0.866,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda n: tf.random.stateless_poisson([n], [1, 2], 4.0),
            4,
            2,
            marks=pytest.mark.slow,
        ),
        (lambda n: tf.random.stateless_binomial([n], [1, 2], 10.0, 0.5), 5, 1.58),
        (lambda n: tf.random.stateless_categorical([[0.0, 0.0]], n, [1, 2]), 0.5, 0.5),
        (lambda n: tf.random.Generator.from_seed(1).normal([n], 5.0, 2.0), 5, 2),
        (lambda n: tf.random.Generator.from_seed(1).uniform([n], 1.0, 3.0), 2, 0.577),
        (lambda n: tf.random.Generator.from_seed(1).truncated_normal([n]), 0, 0.88),
        pytest.param(
            lambda n: tf.random.Generator.from_seed(1).binomial([n], 10.0, 0.5),
            5,
            1.58,
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_distributions_have_their_mean_and_spread(draw, mean, std):
    drawn = draw(2000).numpy()
    assert drawn.mean() == pytest.approx(mean, abs=0.2)
    assert drawn.std() == pytest.approx(std, rel=0.12)


def test_integers_stay_in_their_limits():
    drawn = tf.random.uniform([500], 2, 5, dtype=tf.int32).numpy()
    assert set(drawn) == {2, 3, 4}


def test_shuffle_keeps_the_rows():
    shuffled = tf.random.shuffle(tf.range(20)).numpy()
    assert sorted(shuffled) == list(range(20))
    assert shuffled.tolist() != list(range(20))
    assert sorted(tf.random.stateless_shuffle(tf.range(5), [1, 2]).numpy()) == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_stateless_numbers_are_the_same_every_time():
    seeds = tf.random.split([1, 2], 3)
    assert seeds.shape == (3, 2)
    draws = [
        tf.random.stateless_normal([2], s).numpy().tolist() for s in (seeds[0],) * 2
    ]
    assert draws[0] == draws[1]
    folded = [tf.random.fold_in([1, 2], n).numpy().tolist() for n in range(2)]
    assert folded[0] != folded[1]


def test_numbers_are_new_each_time_a_program_runs():
    draw = tf.function(lambda: tf.random.normal([2]))
    assert draw().numpy().tolist() != draw().numpy().tolist()


@pytest.mark.parametrize(
    "wrap", [lambda fn: fn, tf.function], ids=["eager", "compiled"]
)
def test_replicas_draw_numbers_of_their_own(wrap):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    draw = wrap(lambda: tf.random.normal([2]))
    steps = [[p.numpy().tolist() for p in strategy.run(draw).values] for _ in range(2)]
    flat = [numbers for step in steps for numbers in step]
    assert len({tuple(numbers) for numbers in flat}) == 4


def test_generators_have_a_state():
    generator = tf.random.Generator.from_seed(3)
    first = generator.normal([2]).numpy().tolist()
    assert generator.normal([2]).numpy().tolist() != first
    generator.reset_from_seed(3)
    assert generator.normal([2]).numpy().tolist() == first
    assert generator.make_seeds(4).shape == (2, 4)
    assert generator.uniform_full_int([3]).dtype == np.uint32
    assert len(generator.split(2)) == 2
    assert generator.algorithm == tf.random.Algorithm.THREEFRY.value
    assert generator.key.shape == generator.state.shape


def test_a_program_shares_one_generator():
    tf.random.set_global_generator(tf.random.Generator.from_seed(1))
    assert tf.random.get_global_generator() is tf.random.get_global_generator()


def test_initializers_draw_from_the_seed():
    made = [
        tf.random_normal_initializer(stddev=1.0)([50]),
        tf.random_uniform_initializer(-1.0, 1.0)([50], tf.float32),
    ]
    assert all(np.std(values.numpy()) > 0.3 for values in made)


def test_initializers_can_be_made_from_their_arguments():
    made = tf.constant_initializer(3.0)
    again = type(made).from_config(made.get_config())
    np.testing.assert_array_equal(again([2]), [3, 3])
    assert isinstance(tf.zeros_initializer(), tf.zeros_initializer)


@pytest.mark.parametrize(
    "name", ["random_normal", "truncated_normal", "variance_scaling", "glorot_uniform"]
)
def test_initializers_of_version_1_take_a_dtype_and_draw_anew(name):
    initializers = tf.compat.v1.initializers
    make = getattr(initializers, name)(dtype=tf.float16)
    first, second = make([50, 50]), make([50, 50])
    assert first.dtype == tf.float16
    assert np.abs(np.asarray(first - second)).max() > 0
    assert make([2], tf.float32).dtype == tf.float32
    is_normal = name in ("random_normal", "truncated_normal")
    assert (np.std(first) > 0.5) == is_normal


def test_variables_of_version_1_take_the_class_of_an_initializer():
    ones = tf.compat.v1.ones_initializer
    made = tf.compat.v1.get_variable("v", [2], initializer=ones)
    np.testing.assert_array_equal(made, [1, 1])
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        ones(scale=1.0)


def test_candidates_are_drawn_by_rank():
    given = tf.constant([[0], [9]], tf.int64)
    sampled, expected, counts = tf.random.log_uniform_candidate_sampler(
        given, 1, 4000, False, 10
    )
    shares = np.log(np.arange(2, 12) / np.arange(1, 11)) / np.log(11)
    found = np.bincount(sampled.numpy(), minlength=10) / 4000
    np.testing.assert_allclose(found, shares, atol=0.03)
    np.testing.assert_allclose(expected.numpy(), 4000 * shares[[0, 9]][:, None], 1e-4)
    assert counts.shape == (4000,)


def test_unique_candidates_differ():
    # Of 20 classes of 40, each is expected with its chance to be among them.
    uniform = tf.random.uniform_candidate_sampler
    draws = [uniform([[0]], 1, 20, True, 40) for _ in range(50)]
    assert all(len(set(one[0].numpy().tolist())) == 20 for one in draws)
    mean = np.mean([float(one.true_expected_count[0, 0]) for one in draws])
    assert mean == pytest.approx(0.5, abs=0.05)
