import numpy as np
import pytest

from mirrax import tf

ROWS = [[3, 1, 4, 1], [], [5, 9]]


@pytest.fixture
def ragged():
    return tf.ragged.constant(ROWS)


def test_rows_become_a_padded_tensor(ragged):
    padded = [[3, 1, 4, 1], [0, 0, 0, 0], [5, 9, 0, 0]]
    assert ragged.to_tensor().numpy().tolist() == padded
    assert ragged.to_tensor(-1, shape=[None, 2])[1:].tolist() == [[-1, -1], [5, 9]]
    assert ragged.to_list() == ROWS
    assert ragged.shape.as_list() == [3, None]


def test_lengths_and_values(ragged):
    assert ragged.row_lengths().numpy().tolist() == [4, 0, 2]
    assert ragged.row_splits.numpy().tolist() == [0, 4, 4, 6]
    assert ragged.values.numpy().tolist() == [3, 1, 4, 1, 5, 9]
    assert ragged.value_rowids().numpy().tolist() == [0, 0, 0, 0, 2, 2]
    assert ragged.bounding_shape().numpy().tolist() == [3, 4]
    assert (int(ragged.nrows()), int(tf.size(ragged))) == (3, 6)


@pytest.mark.parametrize(
    "made",
    [
        tf.RaggedTensor.from_row_lengths([3, 1, 4, 1, 5, 9], [4, 0, 2]),
        tf.RaggedTensor.from_row_splits([3, 1, 4, 1, 5, 9], [0, 4, 4, 6]),
        tf.RaggedTensor.from_row_starts([3, 1, 4, 1, 5, 9], [0, 4, 4]),
        tf.RaggedTensor.from_value_rowids([3, 1, 4, 1, 5, 9], [0, 0, 0, 0, 2, 2]),
        tf.RaggedTensor.from_tensor(
            [[3, 1, 4, 1], [0, 0, 0, 0], [5, 9, 0, 0]], padding=0
        ),
        tf.ragged.stack([np.array(row, int) for row in ROWS]),
    ],
)
def test_ways_to_make_one(made):
    assert made.to_list() == ROWS


def test_rows_are_selected(ragged):
    assert ragged[0].numpy().tolist() == [3, 1, 4, 1]
    assert ragged[2, 1] == 9
    assert ragged[1:].to_list() == [[], [5, 9]]
    assert ragged[:, :1].to_list() == [[3], [], [5]]
    assert [row.tolist() for row in ragged] == ROWS


def test_arithmetic_keeps_the_lengths(ragged):
    assert (2 - ragged).to_list() == [[-1, 1, -2, 1], [], [-3, -7]]
    assert tf.add(ragged, 1).to_list() == [[4, 2, 5, 2], [], [6, 10]]
    assert tf.cast(ragged, tf.float32).dtype == tf.float32
    assert tf.nn.relu(ragged - 3).to_list() == [[0, 0, 1, 0], [], [2, 6]]
    assert tf.one_hot(ragged, 10).shape.as_list() == [3, None, 10]
    assert ragged.with_values([1] * 6).to_list() == [[1] * 4, [], [1, 1]]
    assert (ragged > 3).to_list() == [[False, False, True, False], [], [True, True]]


def test_function_is_mapped_over_rows(ragged):
    assert tf.map_fn(tf.reduce_sum, ragged).tolist() == [9, 0, 14]


def test_reductions_leave_the_padding_out(ragged):
    assert tf.reduce_sum(ragged, axis=1).tolist() == [9, 0, 14]
    assert tf.reduce_max(-ragged, axis=1)[0] == -1
    assert tf.reduce_mean(tf.cast(ragged, tf.float32), axis=1)[2] == 7


def test_vectors_in_rows_are_looked_up_and_reduced(ragged):
    table = tf.reshape(tf.range(40.0), [10, 4])
    found = tf.nn.embedding_lookup(table, ragged)
    assert found[2].tolist() == tf.gather(table, ragged)[2].tolist()
    assert tf.reduce_sum(found, axis=1)[2].tolist() == [56, 58, 60, 62]
    assert tf.reduce_sum(found, axis=-1).to_list()[2] == [86, 150]
    assert tf.concat([found, found], axis=2).shape.as_list() == [3, None, 8]
    assert tf.expand_dims(found, -1).shape.as_list() == [3, None, 4, 1]
    with tf.GradientTape() as tape:
        tape.watch(table)
        total = tf.reduce_sum(tf.gather(table, ragged).values)
    assert tape.gradient(total, table)[:, 0].tolist() == [0, 2, 0, 1, 1, 1, 0, 0, 0, 1]


def test_specs_describe_ragged_and_sparse_tensors(ragged):
    rows, sparse = tf.type_spec_from_value(ragged), tf.SparseTensorSpec([2, None])
    assert (rows.shape.as_list(), rows.dtype) == ([3, None], tf.int32)
    assert isinstance(rows, tf.RaggedTensorSpec)
    assert isinstance(rows, tf.TypeSpec)
    assert not isinstance(ragged, tf.RaggedTensorSpec | tf.TypeSpec)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32), sparse])
    def sums(rows, sparse):
        return tf.reduce_sum(rows, axis=1), tf.sparse.reduce_sum(sparse)

    first, second = sums(ragged, tf.sparse.from_dense([[1.0, 0.0], [2.0, 3.0]]))
    assert (first.tolist(), float(second)) == ([9, 0, 14], 6.0)


def test_generator_yields_ragged_tensors(ragged):
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(lambda: [ragged], output_signature=spec)
    assert [x.to_list() for x in dataset] == [ROWS]
    assert repr(dataset.element_spec) == repr(spec)
    assert dataset.element_spec == spec
    assert spec != tf.RaggedTensorSpec([None, None], tf.float32)
    assert "RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1" in repr(spec)


def test_ragged_features_of_examples_are_rows():
    def record(*values):
        number = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        features = tf.train.Features(feature={"x": number})
        return tf.train.Example(features=features).SerializeToString()

    wanted = {"rows": tf.io.RaggedFeature(tf.int64, value_key="x")}
    parsed = tf.io.parse_example([record(1, 2), record()], wanted)
    assert parsed["rows"].to_list() == [[1, 2], []]
    assert tf.io.parse_single_example(record(3), wanted)["rows"].numpy() == [3]


def test_rows_are_joined(ragged):
    more = tf.ragged.constant([[1], [2], [3]])
    assert tf.concat([ragged, more], axis=1)[2].tolist() == [5, 9, 3]
    assert tf.concat([ragged, more], axis=0).to_list() == [*ROWS, [1], [2], [3]]


@pytest.mark.parametrize("operation", [tf.transpose, tf.shape])
def test_other_operations_ask_for_a_tensor(operation, ragged):
    with pytest.raises(TypeError, match="to_tensor"):
        operation(ragged)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: tf.ragged.constant([[[1], [2, 3]]]),
        lambda rows: tf.RaggedTensor.from_row_splits(rows, [0, 1, 3]),
        lambda rows: tf.RaggedTensorSpec([None, None, None], ragged_rank=2),
        lambda rows: tf.io.RaggedFeature(
            tf.int64, partitions=[tf.io.RaggedFeature(tf.int64)]
        ),
        lambda rows: [*tf.data.Dataset.from_tensors(rows).batch(1)],
    ],
    ids=["constant", "row_splits", "spec", "feature", "batch"],
)
def test_inner_ragged_dimensions_are_refused(make, ragged):
    with pytest.raises(NotImplementedError, match="one ragged dimension"):
        make(ragged)


def test_slices_of_a_dataset_are_rows_and_batches_are_ragged(ragged):
    dataset = tf.data.Dataset.from_tensor_slices((ragged, [0, 1, 2]))
    assert [row.tolist() for row, _ in dataset] == ROWS
    (first, _), (last, _) = dataset.batch(2)
    assert (first.to_list(), last.to_list()) == (ROWS[:2], ROWS[2:])
    padded = dataset.batch(2).map(lambda rows, _: rows.to_tensor(shape=[None, 5]))
    assert [batch.shape for batch in padded] == [(2, 5), (1, 5)]


def test_slices_of_a_ragged_tensor_are_batched_by_ragged_batch(ragged):
    dataset = tf.data.Dataset.from_tensor_slices((ragged, [0, 1, 2]))
    (first, _), (last, _) = dataset.ragged_batch(2)
    assert (first.to_list(), last.to_list()) == (ROWS[:2], ROWS[2:])


def test_elements_of_many_lengths_are_batched():
    signature = tf.TensorSpec([None], tf.int32)
    dataset = tf.data.Dataset.from_generator(lambda: ROWS, output_signature=signature)
    batch = tf.data.experimental.dense_to_ragged_batch(3)
    assert next(iter(dataset.apply(batch))).to_list() == ROWS
    assert [b.to_list() for b in dataset.ragged_batch(2, True)] == [ROWS[:2]]


def test_ragged_tensors_are_arguments_of_run():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    ragged = tf.ragged.constant([*ROWS, [2]])
    dataset = tf.data.Dataset.from_tensor_slices(ragged)
    batches = strategy.experimental_distribute_dataset(dataset.batch(4))

    @tf.function
    def total(rows):
        mask = tf.sequence_mask(rows.row_lengths(), rows.to_tensor().shape[1])
        return tf.reduce_sum(tf.where(mask, rows.to_tensor(), 0))

    (batch,) = batches
    parts = strategy.run(total, args=(batch,))
    assert strategy.reduce("SUM", parts, axis=None) == 25


def test_a_range_of_one_number_is_one_row():
    assert tf.ragged.range(3).to_list() == [[0, 1, 2]]
    assert tf.ragged.range([2, 3]).to_list() == [[0, 1], [0, 1, 2]]
