"""Random datasets to test with, and their elements as plain Python values."""

import json

import jax
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from mirrax.data import Dataset, Options
from mirrax.values.tensor_spec import TensorSpec

quick = settings(deadline=None, max_examples=30)

PER_ELEMENT = Options(vectorize_map=False)

counts = st.integers(0, 12)
sizes = st.integers(1, 5)


def plain(element):
    """Returns an element with its arrays as lists, and their dtypes."""
    return jax.tree.map(
        lambda x: (np.asarray(x).dtype.str, np.asarray(x).tolist()), element
    )


def elements(dataset):
    return [plain(element) for element in dataset]


def values(dataset):
    """Returns the elements of a dataset of arrays, as numbers and lists."""
    return [np.asarray(element).tolist() for element in dataset]


def fail_at(*numbers):
    """Returns a function that gives what it gets, and raises for these."""

    def function(x):
        if int(x) in numbers:
            raise ArithmeticError(f"no good: {int(x)}")
        return x

    return function


def through_json(state):
    return json.loads(json.dumps(state))


def resumed(make, position):
    """Returns what a new iterator gives that goes on from `position` elements."""
    iterator = iter(make())
    for _ in range(position):
        next(iterator)
    state = through_json(iterator.save_state())
    rest = elements(iterator)
    other = iter(make())
    other.restore_state(state)
    return rest, elements(other)


def ragged(*lengths, label=False):
    """Returns a dataset of vectors of these lengths."""
    spec = TensorSpec((None,), np.int64)
    if label:
        scalar = TensorSpec((), np.int64)
        pairs = [([n] * n, n) for n in lengths]
        return Dataset.from_generator(lambda: iter(pairs), (spec, scalar))
    return Dataset.from_generator(lambda: ([n] * n for n in lengths), spec)


def _numbers(start, count):
    return np.arange(start, start + count)


def _mapping(function):
    return lambda d, a, b: d.map(function)


MAPS = {
    "add": lambda x: x + 1,
    "scale": lambda x: x * 3 - 2,
    "divide": lambda x: x // 2,
    "square": lambda x: x**2,
    "branch": lambda x: x if x % 2 else -x,
}

# Each step takes a dataset of scalars and two numbers, and gives a dataset of scalars.
STEPS = {
    "shuffle": lambda d, a, b: d.shuffle(100, seed=a),
    "small shuffle": lambda d, a, b: d.shuffle(b, seed=a),
    "fixed shuffle": lambda d, a, b: d.shuffle(
        b, seed=a, reshuffle_each_iteration=False
    ),
    "repeat": lambda d, a, b: d.repeat(1 + a % 3),
    "take": lambda d, a, b: d.take(a),
    "skip": lambda d, a, b: d.skip(a),
    "shard": lambda d, a, b: d.shard(b, a % b),
    "filter": lambda d, a, b: d.filter(lambda x: x % b != 0),
    "cache": lambda d, a, b: d.cache(),
    "prefetch": lambda d, a, b: d.prefetch(b),
    "rebatch": lambda d, a, b: d.batch(b).rebatch([1, a + 1]).unbatch(),
    "batch": lambda d, a, b: d.batch(b).map(lambda x: x + a).unbatch(),
    "drop": lambda d, a, b: d.batch(b, drop_remainder=True).unbatch(),
    "interleave": lambda d, a, b: d.interleave(
        lambda x: Dataset.range(int(abs(x)) % 4).map(lambda y: y * 100),
        cycle_length=b,
        block_length=1 + a % 3,
    ),
    "threads": lambda d, a, b: d.map(lambda x: int(x) + a, num_parallel_calls=b),
    "interleave in threads": lambda d, a, b: d.interleave(
        lambda x: Dataset.range(int(abs(x)) % 4),
        cycle_length=b,
        block_length=1 + a % 3,
        num_parallel_calls=2,
    ),
    "flat_map": lambda d, a, b: d.flat_map(
        lambda x: Dataset.from_tensors(x).repeat(int(abs(x)) % 3)
    ),
    "zip": lambda d, a, b: Dataset.zip(d, Dataset.range(a)).map(lambda x, y: x - y),
    "concatenate": lambda d, a, b: d.concatenate(Dataset.range(a)),
    "take_while": lambda d, a, b: d.take_while(lambda x: x < 5 * a),
    "scan": lambda d, a, b: d.scan(a, lambda s, x: (s + x, s * 2 + x)),
    "unique": lambda d, a, b: d.map(lambda x: x // b).unique(),
    "choose": lambda d, a, b: Dataset.choose_from_datasets(
        [d, Dataset.range(a)], Dataset.range(2).repeat(b), a % 2 == 0
    ),
    "sample": lambda d, a, b: Dataset.sample_from_datasets(
        [d, Dataset.range(a)], [b, 1], seed=a
    ),
    "group": lambda d, a, b: d.group_by_window(
        lambda x: x % 3, lambda key, group: group.map(lambda x: x + a), window_size=b
    ),
    "enumerate": lambda d, a, b: d.enumerate(a).map(lambda i, x: i * 1000 + x),
    **{name: _mapping(function) for name, function in MAPS.items()},
}

SOURCES = {
    "range": Dataset.range,
    "slices": lambda n: Dataset.from_tensor_slices(_numbers(5, n)),
    "generator": lambda n: Dataset.from_generator(
        lambda: iter(_numbers(0, n)), Dataset.range(1).element_spec
    ),
}

# Elements that can be looked up, that come many at a time, and one by one.
KINDS = {
    "looked up": Dataset.range,
    "read": lambda n: Dataset.range(n).filter(lambda x: True),
    "one by one": lambda n: Dataset.from_generator(
        lambda: iter(range(n)), Dataset.range(1).element_spec
    ),
}
sources = pytest.mark.parametrize("source", KINDS.values(), ids=KINDS.keys())


@st.composite
def recipes(draw, max_steps=4):
    """Draws what `build` makes a dataset of."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(STEPS)), counts, sizes),
            max_size=max_steps,
        )
    )
    last = draw(st.sampled_from([None, 1, 3]))
    return draw(st.sampled_from(sorted(SOURCES))), draw(counts), tuple(steps), last


def build(recipe, options=None):
    """Returns a new dataset made as a recipe says."""
    source, count, steps, last = recipe
    dataset = SOURCES[source](count).with_options(options or Options())
    for name, a, b in steps:
        dataset = STEPS[name](dataset, a, b)
    return dataset if last is None else dataset.batch(last)


def with_policy(dataset, policy):
    options = Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dataset.with_options(options)
