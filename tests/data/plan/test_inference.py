"""Specs of what functions give."""

import numpy as np
import pytest

from mirrax.data import Dataset, parse_example
from mirrax.data.example import Example, Feature, Features, FixedLenFeature, Int64List
from mirrax.values.tensor_spec import TensorSpec


def generated(spec, *elements):
    return Dataset.from_generator(lambda: iter(elements), spec)


def test_a_function_changes_shape_and_dtype():
    dataset = Dataset.range(3).map(lambda x: np.ones((2, 3), np.float32) * x)
    assert dataset.element_spec.shape == (2, 3)


def test_a_dtype_is_that_of_the_elements():
    dataset = Dataset.range(3).map(lambda x: x / 2)
    assert dataset.element_spec.dtype == next(iter(dataset)).dtype == np.float64


def test_nesting_is_that_of_the_result():
    dataset = Dataset.range(3).map(lambda x: {"a": x, "b": (x, None)})
    scalar = TensorSpec((), np.int64)
    assert dataset.element_spec == {"a": scalar, "b": (scalar, None)}


def test_an_unknown_size_stays_unknown():
    spec = TensorSpec((None, 3), np.float32)
    dataset = generated(spec, np.zeros((4, 3))).map(lambda x: x[:, 0])
    assert dataset.element_spec == TensorSpec((None,), np.float32)


def test_an_unknown_shape_stays_unknown():
    spec = TensorSpec(None, np.float32)
    dataset = generated(spec, np.zeros((4, 3), np.float32)).map(lambda x: x + 1)
    assert dataset.element_spec.shape is None


def test_a_function_that_dislikes_zeros_is_called_with_an_element():
    dataset = Dataset.range(3, 6).map(lambda x: 6 // int(x))
    assert dataset.element_spec.shape == ()


TEXTS = Dataset.from_tensor_slices(["a", "bc", "d"])


@pytest.mark.parametrize(
    ("dataset", "function", "shape"),
    [
        (TEXTS.batch(2), lambda texts: np.array([*map(len, texts)]), (None,)),
        (TEXTS.batch(2), lambda texts: np.array([[*texts]] * 4), (4, None)),
        (TEXTS.batch(2), lambda texts: texts[:1] + b"!", (1,)),
        (TEXTS.batch(2), lambda texts: texts.reshape(1, 2), (1, 2)),
        (TEXTS.batch(2, drop_remainder=True), lambda texts: texts + b"!", (2,)),
        (TEXTS.padded_batch(2, [], b"").batch(1), lambda t: t + b"!", (None, None)),
        (
            Dataset.range(3, 6).batch(2),
            lambda x: np.array([6 // int(y) for y in x]),
            (None,),
        ),
    ],
    ids=["text", "second", "cut", "of_one_size", "drop", "two_sizes", "no_zeros"],
)
def test_a_size_that_follows_an_unknown_one_is_unknown(dataset, function, shape):
    assert dataset.map(function).element_spec.shape == shape


def test_a_smaller_last_batch_of_parsed_records_fits_the_spec():
    records = [
        Example(
            features=Features(feature={"x": Feature(int64_list=Int64List(value=[i]))})
        ).SerializeToString()
        for i in range(3)
    ]
    wanted = {"x": FixedLenFeature((1,), np.int64)}
    batches = Dataset.from_tensor_slices(records).batch(2)
    parsed = batches.map(lambda texts: parse_example(texts, wanted))
    assert parsed.element_spec == {"x": TensorSpec((None, 1), np.int64)}
    assert [batch["x"].shape for batch in parsed] == [(2, 1), (1, 1)]


def test_text_is_of_no_numeric_dtype():
    dataset = Dataset.from_tensor_slices(["a"]).map(lambda x: x + b"b")
    assert dataset.element_spec == TensorSpec((), np.dtype(object))


@pytest.mark.parametrize(
    ("dataset", "shape"),
    [
        (Dataset.range(4).batch(2), (None,)),
        (Dataset.range(4).batch(2, drop_remainder=True), (2,)),
        (Dataset.range(4).batch(2).unbatch(), ()),
        (Dataset.range(4).batch(2).rebatch(4), (None,)),
        (Dataset.range(4).interleave(lambda x: Dataset.range(2).batch(2)), (None,)),
    ],
    ids=["batch", "drop", "unbatch", "rebatch", "interleave"],
)
def test_specs_follow_the_plan(dataset, shape):
    assert dataset.element_spec.shape == shape


def test_asking_for_a_spec_is_no_iteration():
    first, second = (Dataset.range(9).shuffle(9, seed=1) for _ in range(2))
    assert first.map(lambda x: x).element_spec.shape == ()
    assert first.element_spec.shape == ()
    assert list(first) == list(second)


def test_a_size_that_depends_on_values_is_unknown():
    dataset = Dataset.range(3).map(lambda x: np.arange(int(x) % 4))
    assert dataset.element_spec == TensorSpec((None,), np.int64)


EMPTY = Dataset.range(0).flat_map(Dataset.range)


@pytest.mark.parametrize(
    "both",
    [
        lambda: EMPTY.concatenate(Dataset.range(2)),
        lambda: Dataset.sample_from_datasets([EMPTY, Dataset.range(2)]),
        lambda: Dataset.choose_from_datasets(
            [EMPTY, Dataset.range(2)], Dataset.range(2)
        ),
    ],
    ids=["concatenate", "sample", "choose"],
)
def test_a_dataset_without_elements_does_not_hide_the_spec_of_others(both):
    assert both().element_spec == TensorSpec((), np.int64)


def test_a_function_is_called_for_its_own_spec_alone():
    calls = []

    def count(x):
        calls.append(x)
        return x

    dataset = Dataset.range(3).map(count).map(count).map(count).map(count)
    assert dataset.element_spec == dataset.batch(2).unbatch().element_spec
    assert len(calls) == 8


def test_the_spec_of_text_reads_one_element_through_a_shuffle():
    read = []

    def numbers():
        for number in range(10):
            read.append(number)
            yield str(number)

    texts = Dataset.from_generator(numbers, TensorSpec((), object)).shuffle(10)
    assert texts.map(int).element_spec == TensorSpec((), np.int64)
    assert read == [0]
