"""Elements in groups of the same key."""

import numpy as np
import pytest

from mirrax.data import Dataset
from mirrax.errors import InvalidArgumentError
from tests.data.plans import ragged, resumed, values


def lengths(x):
    return len(x)


def test_groups_come_when_they_are_complete_and_the_rest_in_order_of_keys():
    # As TensorFlow 2.21 answers.
    dataset = Dataset.range(10).group_by_window(
        lambda x: x % 3, lambda key, group: group.batch(2), window_size=2
    )
    assert values(dataset) == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
    assert dataset.element_spec.shape == (None,)


def test_the_size_of_a_group_can_depend_on_its_key():
    dataset = Dataset.range(7).group_by_window(
        lambda x: x % 2,
        lambda key, group: group.batch(5),
        window_size_func=lambda key: key + 2,
    )
    assert values(dataset) == [[0, 2], [1, 3, 5], [4, 6]]


def test_one_size_must_be_given():
    with pytest.raises(ValueError, match=r"either `window_size` or `window_size_func`"):
        Dataset.range(7).group_by_window(lambda x: x, lambda key, group: group)
    empty = Dataset.range(3).group_by_window(lambda x: 0, lambda k, g: g, 0)
    with pytest.raises(InvalidArgumentError, match=r"at least one.*a size of 0, for k"):
        list(empty)


def test_buckets_hold_elements_of_similar_length():
    # As TensorFlow 2.21 answers.
    dataset = ragged(1, 4, 2, 5, 1, 3).bucket_by_sequence_length(
        lengths, bucket_boundaries=[3, 5], bucket_batch_sizes=[2, 2, 2]
    )
    assert values(dataset) == [
        [[1, 0], [2, 2]],
        [[4, 4, 4, 4], [3, 3, 3, 0]],
        [[1]],
        [[5, 5, 5, 5, 5]],
    ]
    assert dataset.element_spec.shape == (None, None)


def test_buckets_can_drop_the_rest_and_fill_up_with_a_value():
    dataset = ragged(1, 4, 2, 3, 1).bucket_by_sequence_length(
        lengths, [3, 5], [2, 2, 2], padding_values=-1, drop_remainder=True
    )
    assert values(dataset) == [[[1, -1], [2, 2]], [[4, 4, 4, 4], [3, 3, 3, -1]]]


def test_buckets_have_a_few_lengths_by_default():
    sizes = [3, 40, 5, 16, 33, 17]
    buckets = ragged(*sizes).bucket_by_sequence_length(lengths, bucket_batch_sizes=2)
    shapes = [batch.shape for batch in buckets]
    assert shapes == [(2, 16), (2, 64), (1, 16), (1, 32)]


def test_buckets_are_filled_up_where_the_first_element_does_not_tell_the_shape():
    rows = Dataset.range(3).map(lambda i: np.ones(int(i) + 1))
    buckets = rows.bucket_by_sequence_length(
        lengths, [5], [4, 4], pad_to_bucket_boundary=True
    )
    assert [batch.shape for batch in buckets] == [(3, 4)]


def test_buckets_can_be_filled_up_to_their_boundary():
    dataset = ragged(1, 2, 1).bucket_by_sequence_length(
        lengths, [4], [2, 2], pad_to_bucket_boundary=True
    )
    assert values(dataset) == [[[1, 0, 0], [2, 2, 0]], [[1, 0, 0]]]
    too_long = ragged(4).bucket_by_sequence_length(
        lengths, [4], [2, 2], pad_to_bucket_boundary=True
    )
    with pytest.raises(InvalidArgumentError, match=r"shorter than the last.*boundary"):
        list(too_long)


def test_buckets_without_padding_are_batches():
    rows = Dataset.from_tensor_slices([[1, 1], [2, 2], [3, 3]])
    dataset = rows.bucket_by_sequence_length(
        lambda x: x[0], [2], [2, 2], no_padding=True
    )
    assert values(dataset) == [[[2, 2], [3, 3]], [[1, 1]]]


def test_buckets_need_a_size_each():
    with pytest.raises(ValueError, match=r"one more entry. Received: .3, 5. and .2."):
        ragged(1).bucket_by_sequence_length(lengths, [3, 5], [2])


@pytest.mark.parametrize("position", [0, 2, 3])
def test_their_position_can_be_saved(position):
    def make():
        numbers = Dataset.range(12).shuffle(12, seed=1)
        return numbers.group_by_window(
            lambda x: x % 3, lambda key, group: group.shuffle(3).batch(2), window_size=4
        )

    dataset = make()
    rest, again = resumed(lambda: dataset, position)
    assert again == rest
    assert len(rest) == 6 - position


def test_groups_of_elements_of_unknown_shape_can_be_grouped_again():
    def grouped(dataset):
        return dataset.group_by_window(
            lambda x: x % 2, lambda key, group: group.map(lambda x: x + 0), 2
        )

    windows = Dataset.range(8).window(2)
    twice = grouped(grouped(windows.map(lambda window: sum(map(int, window)))))
    assert sorted(values(twice)) == [1, 5, 9, 13]
    assert twice.element_spec.dtype == np.int64
