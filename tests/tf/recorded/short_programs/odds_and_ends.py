"""Names that programs use now and then."""

# The programs are data: dense, each read as a whole.
# ruff: noqa


def numbers(tf, np):
    return [
        tf.math.erfcinv([0.5, 1.0, 1.5]),
        tf.realdiv([1.0, 3.0], 2.0),
        tf.as_string([1, 2]),
        tf.strings.as_string(3),
    ]


def ranks(tf, np):
    tf.debugging.assert_rank_in(tf.ones([2, 2]), (1, 2))
    return tf.debugging.get_log_device_placement()


def wrong_rank(tf, np):
    tf.debugging.assert_rank_in(tf.ones([2, 2]), (0, 1))


def placement(tf, np):
    tf.debugging.set_log_device_placement(False)
    return tf.constant(1.0) + 1.0


def experimental_generators(tf, np):
    generator = tf.random.experimental.Generator.from_seed(1)
    seeds = tf.random.experimental.stateless_split([1, 2], num=3)
    return [
        list(generator.normal([2, 3]).shape),
        list(seeds.shape),
        list(tf.random.experimental.stateless_fold_in([1, 2], 3).shape),
    ]
