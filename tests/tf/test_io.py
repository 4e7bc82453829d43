import pytest

from mirrax import tf


def test_examples_are_written_and_read(tmp_path):
    path = str(tmp_path / "examples")
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[1.5, 2.5]))
    features = tf.train.Features(feature={"x": feature})
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions("GZIP")) as writer:
        writer.write(tf.train.Example(features=features).SerializeToString())
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    dataset = tf.data.TFRecordDataset(path, "GZIP")
    parsed = dataset.map(lambda record: tf.io.parse_single_example(record, spec))
    assert [x["x"].tolist() for x in parsed.as_numpy_iterator()] == [[1.5, 2.5]]


def test_writers_take_the_name_of_a_compression(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "x"), "ZLIB") as writer:
        writer.write(b"x")
    assert len(list(tf.data.TFRecordDataset(str(tmp_path / "x"), "ZLIB"))) == 1


def test_files_are_read_and_written(tmp_path):
    path = tmp_path / "folder" / "a.txt"
    tf.io.write_file(str(path), "text")
    assert tf.io.read_file(tf.constant(str(path))).numpy() == b"text"
    found = tf.io.matching_files(str(path.parent / "*.txt"))
    assert found.numpy().tolist() == [str(path).encode()]


def test_gfile_works_on_files(tmp_path):
    gfile = tf.io.gfile
    folder = gfile.join(str(tmp_path), "a", "b")
    gfile.makedirs(folder)
    gfile.mkdir(gfile.join(folder, "c"))
    name = gfile.join(folder, "x")
    with gfile.GFile(name, "w") as file:
        file.write("1")
    gfile.copy(name, name + "2")
    with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
        gfile.rename(name, name + "2")
    gfile.rename(name, name + "2", overwrite=True)
    assert not gfile.exists(name)
    assert gfile.glob([name + "*"]) == [name + "2"]
    assert sorted(gfile.listdir(folder)) == ["c", "x2"]
    assert gfile.stat(name + "2").st_size == 1
    assert len(list(gfile.walk(folder))) == 2
    gfile.remove(name + "2")
    gfile.rmtree(folder)
    assert not gfile.isdir(folder)


def test_empty_fields_need_a_default():
    with pytest.raises(ValueError, match="without default must not be empty"):
        tf.io.decode_csv("1,", [tf.int32, tf.float32])


def test_strings_are_split_into_ragged_tensors():
    assert tf.strings.split(["a b", "c"]).to_list() == [[b"a", b"b"], [b"c"]]
    characters = tf.strings.unicode_split(["hé", "i"], "UTF-8")
    assert characters.to_list() == [[b"h", "é".encode()], [b"i"]]
    assert type(characters.to_list()[0][0]) is bytes
    assert tf.strings.upper(characters).to_list()[1] == [b"I"]
    with pytest.raises(NotImplementedError, match="one dimension"):
        tf.strings.split([["a b"], ["c"]])
    with pytest.raises(NotImplementedError, match="one dimension"):
        tf.strings.unicode_decode([["ab"], ["c"]], "UTF-8")


def test_strings_are_joined_along_an_axis():
    texts = [["a", "b"], ["c", "d"]]
    join = tf.strings.reduce_join
    assert join(texts).numpy() == b"abcd"
    assert join(texts, axis=-1, separator="-").tolist() == [b"a-b", b"c-d"]
    assert join(texts, 0, True).tolist() == [[b"ac", b"bd"]]
    assert join(tf.strings.split(["a b", "c"]), -1).tolist() == [b"ab", b"c"]


def test_strings_are_reshaped_joined_and_selected():
    texts = tf.constant(["a", "b", "c"])
    assert tf.expand_dims(texts, -1).shape == tf.reshape(texts, [3, 1]).shape == (3, 1)
    assert tf.concat([texts, ["d"]], 0).numpy().tolist() == [b"a", b"b", b"c", b"d"]
    assert tf.gather(texts, [2, 0]).numpy().tolist() == [b"c", b"a"]
    chosen = tf.where([True, False, True], texts, "z")
    assert chosen.numpy().tolist() == [b"a", b"z", b"c"]


def test_functions_take_strings():
    @tf.function
    def exclaim(text):
        return tf.strings.join([text, "!"])

    assert exclaim(tf.constant(["a"])).numpy().tolist() == [b"a!"]


def test_batches_of_examples_are_parsed(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "a")) as writer:
        for i in range(2):
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[i]))
            example = tf.train.Example(features=tf.train.Features(feature={"i": value}))
            writer.write(example.SerializeToString())
    (batch,) = tf.data.TFRecordDataset(str(tmp_path / "a")).batch(2)
    parsed = tf.io.parse_example(batch, {"i": tf.io.FixedLenFeature([], tf.int64)})
    assert parsed["i"].tolist() == [0, 1]


def _example(*values):
    number = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    features = tf.train.Features(feature={"v": number})
    return tf.train.Example(features=features).SerializeToString()


@pytest.mark.parametrize("dtype", [tf.int64, tf.string])
def test_no_examples_are_parsed(dtype):
    features = {
        "v": tf.io.VarLenFeature(dtype),
        "s": tf.io.FixedLenSequenceFeature([2], dtype, allow_missing=True),
        "r": tf.io.RaggedFeature(dtype),
    }
    parsed = tf.io.parse_example(tf.constant([], tf.string), features)
    dense = parsed["v"].dense
    assert (dense.shape, dense.dtype) == ((0, 0), dtype)
    assert (parsed["s"].shape, parsed["s"].dtype) == ((0, 0, 2), dtype)
    assert (parsed["r"].to_list(), parsed["r"].dtype) == ([], dtype)


def test_a_sequence_has_whole_values():
    features = {"v": tf.io.FixedLenSequenceFeature([2], tf.int64, allow_missing=True)}
    message = r"multiple of the 2 .*Received: 3 values for the shape \[2\]. Correct"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.io.parse_example([_example(1, 2, 3)], features)


def test_values_are_read_once_or_as_equal_ragged_features():
    ragged = tf.io.RaggedFeature(tf.int64, value_key="v")
    both = tf.io.parse_example([_example(1)], {"a": ragged, "b": ragged})
    assert both["a"].to_list() == both["b"].to_list() == [[1]]
    features = {"v": tf.io.FixedLenFeature([], tf.int64), "r": ragged}
    with pytest.raises(
        ValueError, match=r"Received: Fixed.* and Ragged.* for 'v'. Par"
    ):
        tf.io.parse_example([_example(1)], features)


def _features(**features):
    lists = {
        int: lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v)),
        float: lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v)),
        bytes: lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v)),
    }
    made = {name: lists[type(v[0])](v) for name, v in features.items()}
    example = tf.train.Example(features=tf.train.Features(feature=made))
    return example.SerializeToString()


def test_sequences_of_text_are_padded_with_text():
    feature = tf.io.FixedLenSequenceFeature(
        [], tf.string, allow_missing=True, default_value="none"
    )
    records = [_features(s=[b"a", b"b"]), _features(s=[b"c"])]
    parsed = tf.io.parse_example(records, {"s": feature})
    assert parsed["s"].numpy().tolist() == [[b"a", b"b"], [b"c", b"none"]]


def test_a_default_value_takes_the_shape_of_the_feature():
    feature = tf.io.FixedLenFeature([1, 2], tf.int64, default_value=[3, 4])
    parsed = tf.io.parse_example([_features(other=[1])], {"x": feature})
    assert parsed["x"].numpy().tolist() == [[[3, 4]]]


def test_a_sparse_feature_takes_its_indices_from_another_one():
    records = [_features(i=[5, 2], v=[1.0, 2.0]), _features(other=[1])]
    features = {"x": tf.io.SparseFeature("i", "v", tf.float32, 6)}
    found = tf.io.parse_example(records, features)["x"]
    assert found.indices.numpy().tolist() == [[0, 2], [0, 5]]
    assert found.values.numpy().tolist() == [2.0, 1.0]
    assert found.dense_shape.numpy().tolist() == [2, 6]


def test_a_sparse_feature_has_a_list_of_indices_for_each_dimension():
    record = _features(i=[1, 0], j=[2, 1], v=[7, 8])
    features = {"x": tf.io.SparseFeature(["i", "j"], "v", tf.int64, [2, 3])}
    found = tf.io.parse_single_example(record, features)["x"]
    assert tf.sparse.to_dense(found).numpy().tolist() == [[0, 8, 0], [0, 0, 7]]
