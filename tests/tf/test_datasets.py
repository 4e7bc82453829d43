"""`tf.data`: datasets whose elements are tensors."""

import gzip

import numpy as np
import pytest

import mirrax
from mirrax import tf

Dataset = tf.data.Dataset


def test_elements_are_tensors():
    data = np.random.RandomState(0).randn(5, 2), np.arange(5)
    batches = list(Dataset.from_tensor_slices(data).batch(3))
    x, y = batches[1]
    np.testing.assert_array_equal(x.numpy(), data[0][3:])
    assert x.dtype == tf.float64
    assert x.shape.as_list() == [2, 2]
    assert [label.numpy() for label in y] == [3, 4]


def _in_two_orders(x):
    return {"b": x, "a": x + 2} if int(x) == 0 else {"a": x + 2, "b": x}


@pytest.mark.parametrize(
    "make",
    [
        lambda first, second: first.concatenate(second),
        lambda *both: Dataset.choose_from_datasets(both, Dataset.range(2)),
        lambda *both: Dataset.sample_from_datasets(both, seed=1),
        lambda *_: Dataset.range(2).map(_in_two_orders),
    ],
    ids=["concatenate", "choose", "sample", "map"],
)
def test_dicts_with_keys_in_another_order_are_combined(make):
    first = Dataset.from_tensors({"b": 0, "a": 2})
    second = Dataset.from_tensors({"a": 3, "b": 1})
    elements = list(make(first, second))
    values = sorted((int(x["b"]), int(x["a"])) for x in elements)
    assert values == [(0, 2), (1, 3)]


@pytest.mark.parametrize(
    "make",
    [
        Dataset.from_tensor_slices,
        Dataset.from_tensors,
        lambda given: list(Dataset.range(2).map(lambda x: (x, given))),
    ],
    ids=["slices", "tensors", "map"],
)
def test_lists_that_are_no_tensors_are_refused(make):
    message = (
        r"of the same length .*Received: \[\[1, 2\], \[3\]\]. Pad them, or use `tf"
    )
    with pytest.raises(ValueError, match=message):
        make([[1, 2], [3]])
    message = r"at most 64 bits. Received: \[1180591620717411303424\]. Give them as"
    with pytest.raises(ValueError, match=message):
        make([2**70])


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.map(lambda x: x * 1).batch(2).unbatch(),
        lambda d: d.shuffle(3, seed=1).take(3).prefetch(1),
        lambda d: d.repeat(2).skip(3).cache(),
        lambda d: d.with_options(tf.data.Options()),
        lambda d: d.flat_map(Dataset.from_tensors),
        lambda d: Dataset.zip(d, d).map(lambda a, b: a),
        lambda d: d.apply(lambda e: e.concatenate(Dataset.range(0))),
    ],
    ids=["map", "shuffle", "repeat", "options", "flat_map", "zip", "apply"],
)
def test_every_operation_gives_tensors(change):
    dataset = change(Dataset.range(3))
    assert isinstance(dataset, Dataset)
    assert sorted(x.numpy() for x in dataset) == [0, 1, 2]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda d: [d.map(lambda x: x + i) for i in (0, 5)], [[0, 1], [5, 6]]),  # noqa: B023
        (
            lambda d: [d.map(lambda x: sum([i for _ in range(2)])) for i in (0, 5)],  # noqa: B023
            [[0, 0], [10, 10]],
        ),
        (lambda d: [d.filter(lambda x: x == i) for i in (0, 1)], [[0], [1]]),  # noqa: B023
        (lambda d: [d.flat_map(lambda x: d.take(i)) for i in (0, 1)], [[], [0, 0]]),  # noqa: B023
        (lambda d: [d.interleave(lambda x: d.take(i)) for i in (0, 1)], [[], [0, 0]]),  # noqa: B023
        (
            lambda d: [d.scan(0, lambda s, x: (s, x + i)) for i in (0, 5)],  # noqa: B023
            [[0, 1], [5, 6]],
        ),
    ],
    ids=["map", "map with a list", "filter", "flat_map", "interleave", "scan"],
)
def test_functions_keep_the_values_that_names_had(made, expected):
    datasets = made(Dataset.range(2))
    assert [[int(x) for x in dataset] for dataset in datasets] == expected


factor = 2


def test_functions_keep_the_values_that_globals_had(monkeypatch):
    dataset = Dataset.range(3).map(lambda x: x * factor)
    monkeypatch.setitem(globals(), "factor", 3)
    assert [int(x) for x in dataset] == [0, 2, 4]


def test_functions_that_run_later_see_later_values():
    def called():
        nonlocal calls
        calls += 1
        return calls

    calls = 0
    later = Dataset.range(2).map(lambda x: tf.py_function(lambda: calls, [], tf.int32))
    counted = Dataset.range(2).map(lambda x: x * 0 + called())
    calls = 7
    assert [int(x) for x in later] == [7, 7]
    assert [int(x) for x in counted] == [8, 9]


def test_strings_are_bytes():
    (first, second) = Dataset.from_tensor_slices(["ab", "c"])
    (batch,) = Dataset.from_tensor_slices(["ab", "c"]).batch(2)
    assert first.numpy().decode() == "ab"
    assert second.numpy() == b"c"
    assert batch.numpy().tolist() == [b"ab", b"c"]


def test_records_of_files_are_bytes(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\n")
    lines = tf.data.TextLineDataset(str(path))
    assert [line.numpy() for line in lines] == [b"one", b"two"]
    assert [line.numpy() for line in lines.skip(1)] == [b"two"]
    assert [
        line.numpy() for line in tf.data.TextLineDataset(Dataset.list_files(str(path)))
    ]


def test_as_numpy_iterator_gives_what_is_numpys_own():
    numbers = list(Dataset.range(2).batch(2).as_numpy_iterator())
    texts = list(Dataset.from_tensor_slices(["a"]).as_numpy_iterator())
    assert type(numbers[0]) is np.ndarray
    assert texts == [b"a"]


def test_windows_are_datasets_of_tensors():
    windows = Dataset.range(4).window(2)
    assert [[x.numpy() for x in window] for window in windows] == [[0, 1], [2, 3]]


def test_cardinality_and_reduce_give_tensors():
    dataset = Dataset.range(4)
    assert dataset.cardinality().numpy() == len(dataset) == 4
    assert dataset.reduce(0, lambda count, _: count + 1).numpy() == 4
    assert dataset.reduce(np.int64(0), lambda a, b: a + b).numpy() == 6


def test_the_only_element_is_given():
    assert Dataset.range(3).batch(3).get_single_element().numpy().tolist() == [0, 1, 2]
    assert tf.data.experimental.get_single_element(Dataset.range(1)).numpy() == 0


@pytest.mark.parametrize(("count", "found"), [(0, "none"), (2, "several")])
def test_not_just_one_element_is_refused(count, found):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Received: {found}"):
        Dataset.range(count).get_single_element()


def test_iterators_give_elements_one_by_one():
    iterator = iter(Dataset.range(2))
    assert isinstance(iterator, tf.data.Iterator)
    assert iterator.element_spec == tf.TensorSpec([], tf.int64)
    assert iterator.get_next().numpy() == 0
    assert iterator.get_next_as_optional().get_value().numpy() == 1
    assert not iterator.get_next_as_optional().has_value()
    with pytest.raises(tf.errors.OutOfRangeError, match="no more elements"):
        iterator.get_next()


def test_an_iterator_that_a_function_closes_over_goes_on():
    iterator = iter(Dataset.range(3))
    step = tf.function(lambda: next(iterator) * 2)
    assert [int(step()) for _ in range(3)] == [0, 2, 4]


def test_iterators_can_be_saved():
    dataset = Dataset.range(5)
    iterator, other = iter(dataset), iter(dataset)
    next(iterator)
    other.restore_state(iterator.save_state())
    assert next(other).numpy() == 1


def test_parts_of_distributed_elements_are_tensors():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    dataset = strategy.experimental_distribute_dataset(Dataset.range(4).batch(4))
    texts = Dataset.from_tensor_slices(["a", "b"]).batch(2)
    (element,) = dataset
    (text,) = strategy.experimental_distribute_dataset(texts)
    parts = strategy.experimental_local_results(element)
    assert [part.numpy().tolist() for part in parts] == [[0, 1], [2, 3]]
    assert element.values[1].get_shape().as_list() == [2]
    assert [part.numpy().tolist() for part in text.values] == [[b"a"], [b"b"]]


def test_numpy_dataset_keeps_a_copy_of_the_arrays():
    array = np.arange(2)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    dataset = strategy.experimental_make_numpy_dataset({"a": array})
    array[0] = 9
    assert [row["a"].numpy() for row in dataset] == [0, 1]


def test_datasets_of_numpy_arrays_are_tensors():
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    dataset = strategy.experimental_make_numpy_dataset(np.arange(2))
    assert [x.numpy() for x in dataset] == [0, 1]


def test_generators_may_be_described_by_types_and_shapes():
    dataset = Dataset.from_generator(
        lambda n: ((i, [i, i]) for i in range(int(n))),
        output_types=(tf.int32, tf.float32),
        output_shapes=([], [2]),
        args=[2],
    )
    assert dataset.element_spec[1] == tf.TensorSpec([2], tf.float32)
    assert [int(number) for number, _ in dataset] == [0, 1]
    loose = Dataset.from_generator(lambda: iter([[1], [1, 2]]), tf.int32)
    assert [len(x) for x in loose] == [1, 2]


def test_a_generator_needs_a_description():
    with pytest.raises(TypeError, match="needs `output_signature`"):
        Dataset.from_generator(lambda: iter([1]))


def test_generators_may_yield_strings_in_lists_and_tensors():
    signature = (tf.TensorSpec([], tf.string), tf.TensorSpec([None], tf.string))
    yielded = [(tf.constant("a"), ["b", "c"]), (b"d", np.array(["e"]))]
    dataset = Dataset.from_generator(lambda: yielded, output_signature=signature)
    found = [(one.numpy(), several.numpy().tolist()) for one, several in dataset]
    assert found == [(b"a", [b"b", b"c"]), (b"d", [b"e"])]


@pytest.mark.parametrize(("value", "dtype"), [(1, tf.string), ("a", tf.int32)])
def test_generators_must_yield_what_they_were_said_to(value, dtype):
    spec = tf.TensorSpec([], dtype)
    dataset = Dataset.from_generator(lambda: [value], output_signature=spec)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must fit"):
        list(dataset)


def test_every_operation_takes_a_name(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("one\n")
    (line,) = tf.data.TextLineDataset(str(path), name="lines").take(1, name="take")
    dataset = Dataset.range(4, name="range").map(lambda x: x + 1, name="map")
    dataset = dataset.filter(lambda x: x > 2, name="filter").batch(2, name="batch")
    assert line.numpy() == b"one"
    assert dataset.get_single_element(name="only").numpy().tolist() == [3, 4]


def test_a_list_returned_by_map_is_a_tuple_of_components():
    dataset = Dataset.range(3).map(
        lambda x: [x, "text"], synchronous=False, use_unbounded_threadpool=True
    )
    assert isinstance(dataset.element_spec, tuple)
    assert [int(x) for x in dataset.map(lambda x, text: x * 2)] == [0, 2, 4]


def test_one_padding_value_is_for_all_components():
    lists = Dataset.from_generator(
        lambda: [([1], [2.0, 3.0]), ([4, 5], [6.0])],
        output_types=(tf.int32, tf.float32),
        output_shapes=([None], [None]),
    )
    ((x, y),) = lists.padded_batch(2, padding_values=-1)
    assert x.numpy().tolist() == [[1, -1], [4, 5]]
    assert y.numpy().tolist() == [[2, 3], [6, -1]]


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_shuffle_of_unknown_size_draws_from_all_elements(is_indexed):
    dataset = Dataset.range(200)
    if not is_indexed:
        dataset = dataset.filter(lambda x: True)
    shuffled = dataset.shuffle(tf.data.UNKNOWN_CARDINALITY, seed=3)
    found = [int(x) for x in shuffled]
    assert sorted(found) == list(range(200))
    assert min(found[:20]) < 100 < max(found[:20])


def test_lists_of_elements_become_datasets():
    dataset = tf.data.experimental.from_list([("a", [1, 2]), ("b", [3, 4])])
    assert tf.data.experimental.get_structure(dataset) == dataset.element_spec
    found = [(text.numpy(), x.numpy().tolist()) for text, x in dataset]
    assert found == [(b"a", [1, 2]), (b"b", [3, 4])]
    records = tf.data.experimental.from_list([{"x": 1}, {"x": 2}])
    assert [int(record["x"]) for record in records] == [1, 2]
    with pytest.raises(ValueError, match="Received: an empty list"):
        tf.data.experimental.from_list([])


@pytest.mark.parametrize("label", [None, "y"])
def test_batches_of_examples_are_read_from_files(tmp_path, label):
    for name, numbers in {"a": [0, 1, 2], "b": [3, 4]}.items():
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for number in numbers:
                ints = tf.train.Int64List(value=[number])
                feature = tf.train.Feature(int64_list=ints)
                features = tf.train.Features(feature={"x": feature, "y": feature})
                example = tf.train.Example(features=features)
                writer.write(example.SerializeToString())
    batches = tf.data.experimental.make_batched_features_dataset(
        str(tmp_path / "*"),
        batch_size=2,
        features={key: tf.io.FixedLenFeature([], tf.int64) for key in ("x", "y")},
        label_key=label,
        num_epochs=1,
    )
    columns = [batch["x"] if label is None else batch[1] for batch in batches]
    assert [len(column) for column in columns] == [2, 2, 1]
    assert sorted(int(x) for column in columns for x in column) == [0, 1, 2, 3, 4]


def test_a_range_may_have_another_type():
    (last,) = Dataset.range(2, 3, output_type=tf.float32)
    assert last.dtype == tf.float32
    assert last.numpy() == 2


@pytest.mark.parametrize("size", [3, None])
def test_sparse_batches_hold_elements_of_different_shapes(size):
    rows = Dataset.range(1, 4).map(lambda i: tf.fill([i], i))
    batches = list(rows.apply(tf.data.experimental.dense_to_sparse_batch(2, [size])))
    assert batches[0].indices.numpy().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert batches[0].values.numpy().tolist() == [1, 2, 2]
    assert batches[0].dense_shape.numpy().tolist() == [2, size or 2]
    assert batches[1].dense_shape.numpy().tolist() == [1, 3]


def test_batches_pad_sparse_elements_of_different_shapes():
    def sparse(i):
        return tf.sparse.from_dense(tf.range(i + 1))

    (batch,) = Dataset.range(1, 3).map(sparse).batch(2)
    assert batch.dense_shape.numpy().tolist() == [2, 3]
    assert batch.indices.numpy().tolist() == [[0, 1], [1, 1], [1, 2]]
    assert batch.values.numpy().tolist() == [1, 1, 2]


def test_a_snapshot_is_read_again(tmp_path):
    path = str(tmp_path / "made" / "here")
    written = Dataset.range(3).apply(tf.data.experimental.snapshot(path))
    assert [x.numpy() for x in written] == [0, 1, 2]
    read = Dataset.range(3).map(lambda x: x * 0 + 7).snapshot(path)
    assert [x.numpy() for x in read] == [0, 1, 2]


def test_a_table_is_filled_from_a_dataset():
    pairs = Dataset.zip((Dataset.range(2), Dataset.from_tensor_slices(["a", "b"])))
    initializer = tf.data.experimental.DatasetInitializer(pairs)
    table = tf.lookup.StaticHashTable(initializer, default_value="")
    found = table.lookup(tf.constant([1, 5], tf.int64))
    assert found.numpy().tolist() == [b"b", b""]
    with pytest.raises(ValueError, match="pair"):
        tf.data.experimental.DatasetInitializer(Dataset.range(2))


def test_version_1_makes_iterators_of_datasets():
    iterator = tf.compat.v1.data.make_one_shot_iterator(Dataset.range(2))
    assert iterator.get_next().numpy() == 0
    assert Dataset.range(1).make_one_shot_iterator().get_next().numpy() == 0


def test_datasets_of_mirrax_stay_arrays_of_numpy():
    (batch,) = mirrax.data.Dataset.range(2).batch(2)
    assert type(batch) is np.ndarray


@pytest.mark.parametrize(
    "build",
    [lambda d: d.batch(0), lambda d: d.shard(2, 2)],
    ids=["batch", "shard"],
)
def test_numbers_out_of_range_are_invalid_arguments(build):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Received"):
        build(tf.data.Dataset.range(3))


def test_options_for_threads_and_rewrites_are_accepted():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 4
    options.experimental_optimization.map_fusion = True
    options.experimental_slack = True
    dataset = Dataset.range(3).with_options(options)
    assert dataset.options().threading.private_threadpool_size == 4
    assert dataset.options().autotune.enabled is None
    assert [int(x) for x in dataset] == [0, 1, 2]
    assert tf.data.Options() == tf.data.Options() != options


def test_later_options_leave_earlier_ones():
    first, second = tf.data.Options(), tf.data.Options()
    first.threading.private_threadpool_size = 4
    first.experimental_slack = True
    second.threading.max_intra_op_parallelism = 1
    found = tf.data.Dataset.range(3).with_options(first).with_options(second).options()
    assert found.threading.private_threadpool_size == 4
    assert found.threading.max_intra_op_parallelism == 1
    assert found.experimental_slack is True
    assert first.threading.max_intra_op_parallelism is None


def test_datasets_that_others_are_made_of_have_tensors_as_elements():
    both = [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 12)]
    chosen = tf.data.Dataset.choose_from_datasets(both, tf.data.Dataset.range(2))
    assert [x.numpy() for x in chosen] == [0, 10]
    drawn = tf.data.Dataset.sample_from_datasets(both, weights=[1.0, 0.0])
    assert [x.numpy() for x in drawn] == [0, 1]
    counted = tf.data.Dataset.counter(5, dtype=tf.int32).take(2)
    assert [x.numpy() for x in counted] == [5, 6]
    assert next(iter(tf.data.Dataset.random(seed=1))).shape.rank == 0
    checked = both[0].apply(tf.data.experimental.assert_cardinality(2))
    assert checked.cardinality().numpy() == 2
    grouped = both[0].group_by_window(lambda x: 0, lambda key, group: group.batch(2), 2)
    assert [x.numpy().tolist() for x in grouped] == [[0, 1]]


def test_missing_operations_name_what_to_use():
    with pytest.raises(AttributeError, match=r"has no.*fingerprint.*from_generator"):
        getattr(tf.data.Dataset.range(1), "fingerprint")  # noqa: B009


def test_missing_name_in_a_mapped_function_is_not_taken_for_the_spec():
    dataset = tf.data.Dataset.range(1).map(lambda x: x.no_such_method())
    with pytest.raises(AttributeError, match="no_such_method"):
        _ = dataset.element_spec


def test_a_smaller_last_batch_of_parsed_texts_fits_the_spec_of_its_dataset():
    batches = Dataset.from_tensor_slices(["1,a", "2,b", "3,c"]).batch(2)
    parsed = batches.map(lambda lines: tf.io.decode_csv(lines, [0, ""]))

    @tf.function(input_signature=parsed.element_spec)
    def total(numbers, texts):
        return tf.reduce_sum(numbers)

    assert [int(total(*batch)) for batch in parsed] == [3, 3]


@pytest.mark.parametrize("initial", [None, [0.9, 0.1]], ids=["estimated", "known"])
def test_rare_classes_become_as_frequent_as_wanted(initial):
    labels = np.arange(2000) % 10 == 0
    dataset = tf.data.Dataset.from_tensor_slices((np.arange(2000), labels)).repeat(2)
    chosen = dataset.rejection_resample(
        lambda x, label: tf.cast(label, tf.int32), [0.5, 0.5], initial, seed=3
    )
    found = [(int(label), int(x)) for label, (x, _) in chosen]
    assert all(label == (x % 10 == 0) for label, x in found)
    # All 400 of the rare class, and about as many of the other.
    assert sum(label for label, _ in found) == 400
    assert 330 < sum(1 - label for label, _ in found) < 480
    assert found == [(int(label), int(x)) for label, (x, _) in chosen]


def test_csv_files_are_decompressed(tmp_path):
    path = str(tmp_path / "rows.csv.gz")
    with gzip.open(path, "wt") as file:
        file.write("label,x,y\n1,2.0,3.0\n0,5.0,6.0\n")

    rows = tf.data.experimental.CsvDataset(
        path, [tf.int32, tf.float32], "GZIP", header=True, exclude_cols=[1]
    )
    assert [(int(a), float(b)) for a, b in rows] == [(1, 3.0), (0, 6.0)]
    batches = tf.data.experimental.make_csv_dataset(
        path,
        2,
        label_name="label",
        shuffle=False,
        num_epochs=1,
        compression_type="GZIP",
    )
    features, labels = next(iter(batches))
    assert features["y"].numpy().tolist() == [3.0, 6.0]
    assert labels.numpy().tolist() == [1, 0]
    for options, message in (
        ({"label_name": "z"}, "one of the columns. Received: 'z', .* Select that"),
        ({"select_columns": ["z"]}, r"Received: \['z'\]. Give some of \['label', 'x'"),
        ({"column_names": ["x", "x"]}, r"\['x', 'x'\]. Give others as `column_names`"),
        ({"column_names": ["x", "y"]}, r"3 fields, .* or give all `column_names`"),
    ):
        with pytest.raises(ValueError, match=message):
            tf.data.experimental.make_csv_dataset(
                path, 2, compression_type="GZIP", **options
            )
    with pytest.raises(ValueError, match="Decompress the files"):
        list(tf.data.experimental.CsvDataset(path, [tf.int32], "BZIP2"))


def test_datasets_have_the_options_of_tensorflow():
    dataset = Dataset.range(2)
    assert dataset.options() == tf.data.Options()
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    found = dataset.with_options(options).map(lambda x: x).options()
    assert found.threading.private_threadpool_size == 3


@pytest.mark.parametrize("line", ['"a"b",c', '"a,c'], ids=["inside", "open"])
def test_wrong_quotes_in_a_csv_file_are_an_error(tmp_path, line):
    path = tmp_path / "table.csv"
    path.write_text(f"a,b\n{line}\n")
    dataset = tf.data.experimental.CsvDataset(str(path), [tf.string, tf.string])
    iterator = iter(dataset)
    assert [x.numpy() for x in next(iterator)] == [b"a", b"b"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"line 2.*table\.csv"):
        next(iterator)


def test_optionals_hold_an_element_or_none():
    # As TensorFlow 2.21 answers.
    held = tf.experimental.Optional.from_value(3.0)
    assert (bool(held.has_value()), float(held.get_value())) == (True, 3)
    empty = tf.data.experimental.Optional.empty(tf.TensorSpec([]))
    assert not empty.has_value()
    assert empty.element_spec == tf.TensorSpec([])
    of_iterator = iter(tf.data.Dataset.range(1)).get_next_as_optional()
    assert isinstance(of_iterator, tf.experimental.Optional)
    assert not isinstance(3.0, tf.experimental.Optional)


@pytest.mark.parametrize(
    "make",
    [
        lambda first, second: first.concatenate(second),
        lambda *both: Dataset.choose_from_datasets(both, Dataset.range(2)),
        lambda *both: Dataset.sample_from_datasets(both),
    ],
    ids=["concatenate", "choose", "sample"],
)
@pytest.mark.parametrize(
    "other",
    [["a"], [1.5], ([1], [2]), {"a": [1]}],
    ids=["text", "float", "pair", "dict"],
)
def test_datasets_of_other_types_cannot_be_combined(make, other):
    with pytest.raises(TypeError, match="have different types"):
        make(Dataset.range(3), Dataset.from_tensor_slices(other))


def test_integers_of_32_and_64_bits_are_combined():
    both = Dataset.range(2).concatenate(Dataset.range(2).map(tf.square))
    assert list(both.as_numpy_iterator()) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"padded_shapes": [2]}, ValueError, r"shape \(2,\) is not compatible"),
        ({"padded_shapes": [2, 2]}, ValueError, r"shape \(2, 2\) is not compatible"),
        ({"padded_shapes": [-2]}, ValueError, r"shape \(-2,\) is not compatible"),
        ({"padded_shapes": [[4]]}, ValueError, r"its shape was \(1, 1\)"),
        ({"padded_shapes": [4.5]}, TypeError, "must be a list of integers"),
        ({"padding_values": 1.5}, TypeError, "must have the dtypes of the elements"),
        ({"padding_values": "a"}, TypeError, "must have the dtypes of the elements"),
        ({"padding_values": np.zeros(2)}, ValueError, "should be scalars"),
    ],
    ids=["small", "rank", "negative", "nested", "float", "value", "text", "vector"],
)
def test_wrong_padding_is_an_error_when_the_dataset_is_made(given, error, message):
    with pytest.raises(error, match=message):
        Dataset.from_tensors([1, 2, 3]).padded_batch(2, **given)


def test_padding_of_another_structure_is_an_error():
    pairs = Dataset.from_tensors(([1, 2], 3))
    with pytest.raises(ValueError, match="must have the structure of the elements"):
        pairs.padded_batch(2, padded_shapes=[None])


def test_ragged_elements_are_not_padded():
    ragged = Dataset.from_tensors(tf.ragged.constant([[1], [2, 3]]))
    with pytest.raises(TypeError, match="elements of dense tensors"):
        ragged.padded_batch(2)


def test_padding_is_not_checked_before_the_files_exist(tmp_path):
    records = tf.data.TFRecordDataset(str(tmp_path / "missing"))
    batches = records.map(lambda record: tf.io.decode_raw(record, tf.uint8))
    with pytest.raises(tf.errors.NotFoundError):
        next(iter(batches.padded_batch(2, [None])))


@pytest.mark.parametrize("tensors", [1, ([1, 2], [1, 2, 3])], ids=["scalar", "unequal"])
def test_elements_without_equal_rows_are_not_unbatched(tensors):
    with pytest.raises(ValueError, match="a first dimension of the same size"):
        Dataset.from_tensors(tensors).unbatch()


@pytest.mark.parametrize("method", ["filter", "take_while"])
@pytest.mark.parametrize(
    "made", [1, None, "a", [True, True]], ids=["number", "none", "text", "vector"]
)
def test_predicates_return_one_truth_value(method, made):
    dataset = getattr(Dataset.range(2), method)(lambda x: made)
    with pytest.raises(ValueError, match="must return one truth value"):
        list(dataset)


def test_tables_are_made_of_datasets():
    words = Dataset.from_tensor_slices(["zero", "one"])
    index = tf.data.experimental.index_table_from_dataset(words)
    assert index.lookup(tf.constant(["one", "two"])).numpy().tolist() == [1, -1]
    pairs = Dataset.zip((Dataset.range(2), words))
    table = tf.data.experimental.table_from_dataset(pairs, default_value="?")
    assert table.lookup(tf.constant([1, 5])).numpy().tolist() == [b"one", b"?"]
    with_buckets = tf.data.experimental.index_table_from_dataset(words, 3)
    assert int(with_buckets.lookup(tf.constant("two"))) in (2, 3, 4)


@pytest.fixture
def without_global_seed():
    yield
    tf.random.set_seed(None)


def test_set_seed_makes_shuffles_reproducible(tmp_path, without_global_seed):
    for name in "abcdefgh":
        (tmp_path / name).touch()

    def orders():
        tf.random.set_seed(3)
        files = Dataset.list_files(str(tmp_path / "*"))
        shuffled = [Dataset.range(50).shuffle(50) for _ in range(2)]
        return [list(d.as_numpy_iterator()) for d in (files, *shuffled, shuffled[0])]

    first = orders()
    assert orders() == first
    assert len(set(map(str, first))) == 4


def test_states_of_reduce_have_32_bits():
    count = Dataset.range(3).reduce(0, lambda state, _: state + 1)
    total = Dataset.range(3).reduce({"a": 0.0}, lambda s, _: {"a": s["a"] + 1.5})
    assert (count.dtype, int(count)) == (tf.int32, 3)
    assert (total["a"].dtype, float(total["a"])) == (tf.float32, 4.5)


def test_specs_of_datasets_and_optionals_hold_that_of_the_elements():
    number = tf.TensorSpec([], tf.int32)
    assert tf.data.DatasetSpec(number).element_spec == number
    assert tf.OptionalSpec(number) == tf.OptionalSpec(tf.TensorSpec([], tf.int32))

    @tf.function(input_signature=[tf.data.DatasetSpec(tf.TensorSpec([], tf.int64))])
    def total(dataset):
        return dataset.reduce(np.int64(0), lambda state, x: state + x)

    assert int(total(Dataset.range(4))) == 6


def test_csv_columns_need_as_many_defaults(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="an entry for each selected column"):
        tf.data.experimental.make_csv_dataset(
            str(tmp_path / "a.csv"), 1, column_defaults=[0, 0], select_columns=["a"]
        )


@pytest.mark.parametrize(
    ("defaults", "line"),
    [([tf.int32, ""], ",b"), ([0, ""], "x,b"), ([0], "1,b")],
    ids=["required", "no number", "fields"],
)
def test_wrong_csv_lines_are_invalid_arguments(tmp_path, defaults, line):
    (tmp_path / "a.csv").write_text(line)
    lines = tf.data.experimental.CsvDataset(str(tmp_path / "a.csv"), defaults)
    with pytest.raises(tf.errors.InvalidArgumentError, match="field"):
        list(lines)


def test_csv_columns_have_the_dtype_that_is_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text(f"{2**40},2\n")
    path, defaults = str(tmp_path / "a.csv"), [tf.int64, tf.float64]
    (line,) = tf.data.experimental.CsvDataset(path, defaults).as_numpy_iterator()
    assert [x.dtype for x in line] == defaults
    assert line == (2**40, 2.0)


def test_features_that_are_missing_are_invalid_arguments():
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": feature}))
    for name, dtype in (("y", tf.int64), ("x", tf.float32)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Feature|Data types"):
            tf.io.parse_single_example(
                example.SerializeToString(), {name: tf.io.FixedLenFeature([], dtype)}
            )
