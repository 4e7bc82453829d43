"""Datasets of Hugging Face, the real ones."""

import numpy as np
import pytest

from mirrax.data import as_dataset
from tests.data.plans import elements, plain, resumed, through_json

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def no_progress_bars(monkeypatch):
    tqdm = pytest.importorskip("tqdm").tqdm
    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # it would start a thread
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def make_table(**columns):
    return datasets.Dataset.from_dict(
        columns or {"x": list(range(10)), "y": [[float(i), 1.0] for i in range(10)]}
    )


def make_tokens():
    """Returns rows without a scalar, which could be divided themselves."""
    return make_table(ids=[[1, 2, 3, 4]] * 3)


def make_stream():
    return make_tokens().to_iterable_dataset()


def test_rows_are_elements():
    first, *_ = elements(as_dataset(make_table()))
    assert first == {"x": ("<i8", 0), "y": ("<f4", [0.0, 1.0])}


@pytest.mark.parametrize("form", ["numpy", "torch", "jax"])
def test_any_format_gives_the_same_rows(form):
    if form == "torch":
        pytest.importorskip("torch")
    table = make_table(x=[1, 2], y=[[1.0, 2.0], [3.0, 4.0]]).with_format(form)
    batch = next(iter(as_dataset(table).batch(2)))
    assert batch["x"].tolist() == [1, 2]
    assert batch["y"].tolist() == [[1, 2], [3, 4]]


def test_rows_are_batched_and_divided(two_replicas):
    dataset = as_dataset(make_table()).batch(8)
    distributed = two_replicas.experimental_distribute_dataset(dataset)
    assert [[p.tolist() for p in step["x"].values] for step in distributed] == [
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        [[8], [9]],
    ]


def test_rows_that_are_batches_are_divided(two_replicas):
    batches = as_dataset(make_table().batch(8))
    distributed = two_replicas.experimental_distribute_dataset(batches)
    sizes = [[len(p) for p in step["x"].values] for step in distributed]
    assert sizes == [[4, 4], [1, 1]]


@pytest.mark.parametrize("make", [make_table, make_tokens, make_stream])
def test_rows_are_not_distributed_one_by_one(make, strategy):
    with pytest.raises(ValueError, match=r"as_dataset\(data\)\.batch\(n\)"):
        strategy.experimental_distribute_dataset(make())


def test_text_is_bytes():
    dataset = as_dataset(make_table(t=["a", "bc"])).batch(2)
    assert [batch["t"].tolist() for batch in dataset] == [[b"a", b"bc"]]


def test_rows_of_unequal_length_can_be_padded():
    dataset = as_dataset(make_table(r=[[1], [2, 3]])).padded_batch(2)
    assert [batch["r"].tolist() for batch in dataset] == [[[1, 0], [2, 3]]]


def test_structures_in_rows_keep_their_nesting():
    table = make_table(d=[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    (batch,) = as_dataset(table).batch(2)
    assert plain(batch) == {"d": {"a": ("<i8", [1, 2]), "b": ("|O", [b"x", b"y"])}}


def test_a_missing_value_is_an_error():
    with pytest.raises(ValueError, match="no value may be missing"):
        list(as_dataset(make_table(x=[1, None])).batch(2))


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_shuffled_table_resumes_identically(position):
    rest, other = resumed(
        lambda: as_dataset(make_table()).shuffle(10, seed=1).batch(3), position
    )
    assert other == rest


def test_a_shuffle_of_a_table_looks_up_its_rows_by_number():
    dataset = as_dataset(make_table()).shuffle(10, seed=1)
    assert "Table" in dataset.explain()
    assert sorted(row["x"].item() for row in dataset) == list(range(10))


def test_an_empty_table_has_no_elements():
    assert list(as_dataset(make_table(x=[]))) == []


def test_a_stream_is_read_again_and_skipped_exactly():
    def make():
        stream = make_table().to_iterable_dataset(num_shards=2)
        return as_dataset(stream.shuffle(seed=1, buffer_size=4))

    iterator = iter(make())
    for _ in range(3):
        next(iterator)
    other = iter(make())
    with pytest.warns(UserWarning, match="IterableDataset cannot go to a position"):
        other.restore_state(through_json(iterator.save_state()))
    rest = [row["x"].item() for row in iterator]
    assert [row["x"].item() for row in other] == rest


def test_a_stream_gives_its_rows():
    stream = make_table().to_iterable_dataset()
    rows = list(as_dataset(stream))
    assert np.array_equal([row["x"] for row in rows], np.arange(10))
