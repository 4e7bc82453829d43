"""Where elements come from."""

import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.values.specs import TensorSpec
from tests.data.plans import values

INTEGER = TensorSpec((), np.int32)


def test_range_gives_what_pythons_range_gives():
    assert values(Dataset.range(10, 0, -3)) == [10, 7, 4, 1]


def test_range_is_of_64_bit_integers():
    assert Dataset.range(3).element_spec == TensorSpec((), np.int64)
    assert next(iter(Dataset.range(3))).dtype == np.int64


def test_from_tensors_is_one_element():
    (element,) = Dataset.from_tensors({"a": [1, 2], "b": 3})
    assert element["a"].tolist() == [1, 2]
    assert element["b"] == 3


def test_from_tensor_slices_keeps_nesting():
    dataset = Dataset.from_tensor_slices(({"a": np.arange(2)}, jnp.ones((2, 3)), None))
    first, second = dataset
    assert second[0]["a"] == 1
    assert first[1].shape == (3,)
    assert first[2] is None


def test_lists_of_strings_become_bytes():
    assert list(Dataset.from_tensor_slices(["a", "longer"])) == [b"a", b"longer"]


def test_lists_of_floats_are_of_32_bits():
    assert Dataset.from_tensor_slices([1.0, 2.0]).element_spec.dtype == np.float32


def test_slices_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"same number of rows.*\[2, 3\]"):
        Dataset.from_tensor_slices((np.zeros(2), np.zeros(3)))


def test_slices_of_scalars_are_refused():
    with pytest.raises(ValueError, match="first dimension"):
        Dataset.from_tensor_slices(3)


def test_no_rows_give_no_elements():
    assert list(Dataset.from_tensor_slices(np.zeros((0, 3)))) == []


# Generators.


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


def test_list_files_needs_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="At least one file"):
        Dataset.list_files(str(tmp_path / "*"))


def test_list_files_unshuffled_is_sorted(tmp_path):
    for name in "bca":
        (tmp_path / name).touch()
    names = list(Dataset.list_files(str(tmp_path / "*"), shuffle=False))
    assert [name[-1:] for name in names] == [b"a", b"b", b"c"]
