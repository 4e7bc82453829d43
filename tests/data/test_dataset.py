"""Datasets as a whole: immutable, counted, printed, used."""

import os
import stat

import numpy as np
import pytest

from mirrax.data import AutoShardPolicy, Dataset, Options
from mirrax.errors import InvalidArgumentError, NotFoundError
from tests.data.plans import elements, values, with_policy
from tests.devices.fresh import run_fresh


def policy_of(dataset):
    return dataset.options().experimental_distribute.auto_shard_policy


def test_data_in_place_of_a_pipeline_is_refused():
    with pytest.raises(TypeError, match=r"Received: data of type tuple. .*as_dataset"):
        Dataset((np.zeros(3), np.zeros(3)))


def test_methods_leave_a_dataset_as_it_was():
    dataset = Dataset.range(3)
    dataset.map(lambda x: x + 1).batch(2).repeat(2).shuffle(2)
    assert values(dataset) == [0, 1, 2]


def test_iterations_are_independent():
    dataset = Dataset.range(3)
    first, second = iter(dataset), iter(dataset)
    assert [int(next(first)), int(next(first)), int(next(second))] == [0, 1, 0]


def test_length_is_the_number_of_elements():
    assert len(Dataset.range(7).batch(2)) == 4


@pytest.mark.parametrize(
    ("dataset", "kind"),
    [
        (Dataset.range(3).repeat(), "infinite"),
        (Dataset.range(3).filter(bool), "unknown"),
    ],
    ids=["infinite", "unknown"],
)
def test_length_may_not_be_known(dataset, kind):
    with pytest.raises(TypeError, match=kind):
        len(dataset)


def test_an_empty_dataset_is_true():
    assert Dataset.range(0)


def test_as_numpy_iterator_gives_arrays():
    assert [x.tolist() for x in Dataset.range(4).batch(2).as_numpy_iterator()] == [
        [0, 1],
        [2, 3],
    ]


def test_reduce_goes_through_all_elements():
    assert Dataset.range(5).reduce(10, lambda state, x: state + x) == 20


def test_apply_gives_what_the_function_gives():
    assert values(Dataset.range(3).apply(lambda d: d.take(1))) == [0]


# Options.


def test_operations_keep_options():
    dataset = with_policy(Dataset.range(4), AutoShardPolicy.OFF).batch(2).repeat(2)
    assert policy_of(dataset) is AutoShardPolicy.OFF


def test_zip_keeps_options():
    dataset = with_policy(Dataset.range(4), AutoShardPolicy.OFF)
    assert policy_of(Dataset.zip(dataset, dataset)) is AutoShardPolicy.OFF


def test_options_changed_later_do_not_reach_a_dataset():
    options = Options()
    dataset = Dataset.range(4).with_options(options)
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    assert policy_of(dataset) is AutoShardPolicy.AUTO


def test_options_hold_for_what_comes_before_them():
    seen = []
    dataset = Dataset.range(4).map(lambda x: seen.append(type(x)) or x).batch(4)
    list(dataset.with_options(Options(vectorize_map=False)))
    assert set(seen) == {np.int64}


def test_nested_elements_go_through_every_step():
    dataset = (
        Dataset.from_tensor_slices({"a": np.arange(6), "b": (np.ones((6, 2)), None)})
        .shuffle(6, seed=1)
        .cache()
        .batch(4)
        .unbatch()
        .repeat(2)
    )
    assert len(elements(dataset)) == 12
    assert sorted(int(x["a"]) for x in dataset) == sorted([*range(6)] * 2)
    assert next(iter(dataset))["b"][1] is None


def test_list_files_needs_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="At least one file"):
        Dataset.list_files(str(tmp_path / "*"))


def test_list_files_unshuffled_is_sorted(tmp_path):
    for name in "bca":
        (tmp_path / name).touch()
    names = list(Dataset.list_files(str(tmp_path / "*"), shuffle=False))
    assert [name[-1:] for name in names] == [b"a", b"b", b"c"]


def test_saved_dataset_is_loaded_with_its_spec_and_position(tmp_path):
    data = Dataset.from_tensor_slices({"x": np.arange(200), "s": [b"a", b""] * 100})
    data.save(tmp_path / "new" / "folder")
    loaded = Dataset.load(tmp_path / "new" / "folder")
    assert loaded.element_spec == data.element_spec
    assert len(loaded) == 200
    assert [e["s"] for e in loaded] == [b"a", b""] * 100
    iterator = iter(loaded.batch(7))
    next(iterator)
    other = iter(loaded.batch(7))
    other.restore_state(iterator.save_state())
    assert [b["x"].tolist() for b in other] == [b["x"].tolist() for b in iterator]


def test_saved_dataset_and_cache_file_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        Dataset.range(3).save(tmp_path / "saved")
        list(Dataset.range(3).cache(str(tmp_path / "cache")))
    finally:
        os.umask(before)
    files = [tmp_path / "saved" / "mirrax-elements", tmp_path / "cache"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o640, 0o640]


def test_load_of_a_folder_without_a_dataset_says_so(tmp_path):
    with pytest.raises(NotFoundError, match=r"no saved dataset.*Write one with"):
        Dataset.load(tmp_path)


def test_a_native_program_prints_no_names_of_tensorflow():
    printed = run_fresh(
        """
        import mirrax
        dataset = mirrax.data.Dataset.range(4).map(lambda x: (x, "a")).batch(2)
        print(dataset.element_spec, dataset, mirrax.InputContext(2, 1))
        print(iter(mirrax.MirroredStrategy(["CPU:0"]).experimental_distribute_dataset(
            dataset)).element_spec)
        """
    )
    assert "dtype=int64" in printed
    assert "dtype=object" in printed
    assert "tf." not in printed


def stop_at_two(x):
    return x if x != 2 else next(iter(()))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.map(stop_at_two),
        lambda d: d.map(stop_at_two, num_parallel_calls=2),
        lambda d: d.filter(stop_at_two),
        lambda d: d.take_while(stop_at_two),
        lambda d: d.scan(0, lambda state, x: (state, stop_at_two(x))),
        lambda d: d.flat_map(lambda x: Dataset.range(stop_at_two(x))),
        lambda d: d.group_by_window(stop_at_two, lambda key, group: group, 1),
        lambda d: d.group_by_window(
            lambda x: x, lambda key, group: group.take(stop_at_two(key)), 1
        ),
    ],
    ids=["map", "threads", "filter", "take_while", "scan", "flat_map", "key", "group"],
)
def test_a_function_cannot_end_a_dataset(change):
    with pytest.raises(InvalidArgumentError, match="must not raise StopIteration"):
        list(change(Dataset.range(1, 5)))
