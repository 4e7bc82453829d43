"""Elements of several datasets, each time of one that is chosen."""

import numpy as np
import pytest

from mirrax.data import AutoShardPolicy, Dataset, TextLineDataset
from mirrax.errors import InvalidArgumentError
from mirrax.input.auto_shard import auto_shard
from tests.data.plans import resumed, values

CHOICES = [0, 1, 0, 1, 0, 0, 1, 1]


def datasets():
    return [Dataset.range(3), Dataset.range(10, 15)]


@pytest.mark.parametrize(
    ("stops", "expected"),
    [(True, [0, 10, 1, 11, 2]), (False, [0, 10, 1, 11, 2, 12, 13])],
    ids=["stops", "goes_on"],
)
def test_choices_decide(stops, expected):
    # As TensorFlow 2.21 answers.
    choices = Dataset.from_tensor_slices(np.array(CHOICES))
    assert values(Dataset.choose_from_datasets(datasets(), choices, stops)) == expected


def test_endless_choices_end_with_the_datasets():
    choices = Dataset.range(2).repeat()
    dataset = Dataset.choose_from_datasets(datasets(), choices, False)
    assert sorted(values(dataset)) == [0, 1, 2, 10, 11, 12, 13, 14]
    assert dataset.cardinality() == -2


def test_a_choice_must_be_an_index():
    with pytest.raises(InvalidArgumentError, match=r"Received: 2, for 2 datasets"):
        list(Dataset.choose_from_datasets(datasets(), Dataset.range(5)))
    with pytest.raises(TypeError, match=r"must be integers.*float32"):
        Dataset.choose_from_datasets(datasets(), Dataset.from_tensors(1.0))


def test_samples_lose_nothing_and_follow_their_weights():
    both = [Dataset.from_tensors(n).repeat() for n in (0, 1)]
    drawn = values(Dataset.sample_from_datasets(both, [0.25, 0.75], 1).take(2000))
    assert 0.71 < np.mean(drawn) < 0.79
    all_of_them = values(Dataset.sample_from_datasets(datasets(), seed=1))
    assert sorted(all_of_them) == [0, 1, 2, 10, 11, 12, 13, 14]
    assert [x for x in all_of_them if x < 9] == [0, 1, 2]


def test_a_dataset_without_weight_is_left_out():
    dataset = Dataset.sample_from_datasets(datasets(), [1.0, 0.0])
    assert (dataset.cardinality(), values(dataset)) == (3, [0, 1, 2])


def test_samples_differ_in_each_iteration_unless_there_is_a_seed():
    endless = [dataset.repeat() for dataset in datasets()]
    seeded = Dataset.sample_from_datasets(endless, seed=5).take(40)
    assert values(seeded) == values(seeded)
    free = Dataset.sample_from_datasets(endless).take(40)
    assert values(free) != values(free)


def test_samples_can_stop_with_the_first_that_ends():
    dataset = Dataset.sample_from_datasets(
        [Dataset.range(2), Dataset.range(9, 99)], seed=1, stop_on_empty_dataset=True
    )
    found = values(dataset)
    assert len(found) < 92
    assert found.count(1) == 1


@pytest.mark.parametrize(
    "weights", [[1.0], [], [1.0, -1.0], [0.0, 0.0]], ids=["few", "none", "neg", "zero"]
)
def test_weights_are_checked(weights):
    with pytest.raises(ValueError, match=r"a number for each dataset.*2 dataset"):
        Dataset.sample_from_datasets(datasets(), weights)


def test_there_must_be_datasets():
    with pytest.raises(ValueError, match=r"`datasets` must not be empty"):
        Dataset.sample_from_datasets([])


@pytest.mark.parametrize("position", [0, 3, 6])
def test_their_position_can_be_saved(position):
    def make():
        drawn = Dataset.sample_from_datasets(datasets(), seed=2)
        others = [drawn.shuffle(3, seed=1), Dataset.range(20, 22)]
        choices = Dataset.range(2).repeat().shuffle(4, seed=3)
        return Dataset.choose_from_datasets(others, choices, False)

    rest, again = resumed(make, position)
    assert again == rest
    assert len(rest) == 10 - position


def test_workers_share_the_files_and_make_the_same_choices(tmp_path):
    names = [tmp_path / f"{n}.txt" for n in range(4)]
    for name in names:
        name.write_text(name.stem + "\n")
    files = [TextLineDataset(list(map(str, part))) for part in (names[:2], names[2:])]
    dataset = Dataset.choose_from_datasets(files, Dataset.range(2))
    found = [
        values(Dataset(auto_shard(dataset.plan, AutoShardPolicy.AUTO, 2, index)))
        for index in (0, 1)
    ]
    assert found == [[b"0", b"2"], [b"1", b"3"]]
