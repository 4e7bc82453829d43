"""What a Python function yields."""

import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.values.tensor_spec import TensorSpec
from tests.data.plans import values

INTEGER = TensorSpec((), np.int64)


def test_a_generator_starts_anew_at_each_iteration():
    dataset = Dataset.from_generator(lambda: iter([1, 2]), INTEGER)
    assert values(dataset) == [1, 2]
    assert values(dataset) == [1, 2]


def test_a_generator_object_is_refused():
    with pytest.raises(TypeError, match="function that returns an iterable"):
        Dataset.from_generator(iter([1]), INTEGER)


def test_a_generator_is_not_read_further_than_asked():
    read = []

    def generate():
        for i in range(9):
            read.append(i)
            yield i

    iterator = iter(Dataset.from_generator(generate, INTEGER))
    next(iterator)
    assert read == [0]


@pytest.mark.parametrize(
    "then",
    [
        lambda d: d,
        lambda d: d.map(lambda x: x),
        lambda d: d.take(100),
        lambda d: d.repeat(2),
        lambda d: d.filter(lambda x: True),
        lambda d: d.concatenate(d),
        lambda d: d.cache(),
        lambda d: d.batch(1).unbatch(),
    ],
    ids=["plain", "map", "take", "repeat", "filter", "concatenate", "cache", "batch"],
)
def test_what_comes_before_a_generators_error_arrives(then):
    def generate():
        yield from range(3)
        raise OSError("the disk is gone")

    iterator = iter(then(Dataset.from_generator(generate, INTEGER)))
    assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(iterator)


@pytest.mark.parametrize(
    ("element", "signature"),
    [
        (np.zeros(3), TensorSpec((2,), np.float32)),
        (np.zeros(2), TensorSpec((), np.float32)),
        ((1, 2, 3), (INTEGER, INTEGER)),
        ("text", INTEGER),
        (1.5, INTEGER),
        (5, TensorSpec((), np.dtype(object))),
    ],
    ids=["shape", "rank", "nesting", "text", "fraction", "number for text"],
)
def test_elements_that_do_not_fit_the_signature_are_refused(element, signature):
    dataset = Dataset.from_generator(lambda: iter([element]), signature)
    with pytest.raises((ValueError, TypeError), match="element 0"):
        list(dataset)


def test_a_signature_with_unknown_sizes_takes_any():
    spec = TensorSpec((None,), np.int32)
    dataset = Dataset.from_generator(lambda: ([0] * n for n in (1, 3)), spec)
    assert [len(x) for x in dataset] == [1, 3]
