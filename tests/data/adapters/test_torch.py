"""PyTorch's DataLoader, the real one."""

import numpy as np
import pytest

from mirrax.data import as_dataset
from tests.data.plans import plain, through_json

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")


def make_loader(seed=None):
    pairs = data.TensorDataset(torch.arange(10), torch.ones(10, 2))
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    is_shuffled = seed is not None
    return data.DataLoader(
        pairs, batch_size=4, shuffle=is_shuffled, generator=generator
    )


def test_batches_are_pairs_of_arrays():
    found = [(x.tolist(), y.shape) for x, y in as_dataset(make_loader())]
    assert found == [
        ([0, 1, 2, 3], (4, 2)),
        ([4, 5, 6, 7], (4, 2)),
        ([8, 9], (2, 2)),
    ]


def test_the_number_of_batches_is_known():
    assert len(as_dataset(make_loader())) == 3


def test_batches_are_divided(two_replicas):
    loader = make_loader()
    steps = [
        [part.tolist() for part in x.values]
        for x, _ in two_replicas.experimental_distribute_dataset(loader)
    ]
    assert steps == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8], [9]]]


def test_a_dictionary_with_text_keeps_its_nesting():
    rows = [{"n": i, "t": str(i)} for i in range(4)]
    (batch,) = as_dataset(data.DataLoader(rows, batch_size=4))
    assert plain(batch) == {
        "n": ("<i8", [0, 1, 2, 3]),
        "t": ("|O", [b"0", b"1", b"2", b"3"]),
    }


def test_tensors_that_numpy_does_not_take_at_once_are_taken():
    tensors = [torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16)]
    plain_tensor, half = as_dataset(tensors)
    assert plain_tensor.tolist() == [1, 1]
    assert (half.dtype.name, half.astype(np.float32).tolist()) == ("bfloat16", [1, 1])


def test_a_position_is_read_again_and_skipped():
    iterator = iter(as_dataset(make_loader(seed=5)))
    next(iterator)
    other = iter(as_dataset(make_loader(seed=5)))
    with pytest.warns(UserWarning, match="DataLoader cannot go to a position"):
        other.restore_state(through_json(iterator.save_state()))
    assert list(map(plain, other)) == list(map(plain, iterator))


def test_a_stream_of_unknown_length_is_read_to_its_end():
    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    dataset = as_dataset(data.DataLoader(Stream(), batch_size=2))
    assert dataset.cardinality() == -2
    assert [x.tolist() for x in dataset] == [[0, 1], [2, 3], [4]]


def test_distributing_a_loader_does_not_start_it(two_replicas):
    before = torch.random.get_rng_state()
    pairs = data.TensorDataset(torch.arange(10))
    loader = data.DataLoader(pairs, batch_size=4, shuffle=True)
    two_replicas.experimental_distribute_dataset(loader)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_dataset_without_a_loader_is_refused(two_replicas):
    class Examples(data.Dataset):
        def __getitem__(self, index):
            return index

    with pytest.raises(TypeError, match="A dataset must be"):
        two_replicas.experimental_distribute_dataset(Examples())


def test_a_tensor_is_its_rows():
    rows = torch.arange(6.0, requires_grad=True).reshape(3, 2)
    batches = as_dataset({"x": rows}).batch(2)
    assert [batch["x"].tolist() for batch in batches] == [
        [[0.0, 1.0], [2.0, 3.0]],
        [[4.0, 5.0]],
    ]


def test_a_tensor_is_not_distributed_row_by_row(two_replicas):
    with pytest.raises(ValueError, match=r"as_dataset\(data\)\.batch\(n\)"):
        two_replicas.experimental_distribute_dataset(torch.ones(4, 2))
