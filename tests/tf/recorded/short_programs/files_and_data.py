"""Files, their errors, and datasets that come from them."""

# The programs are data: dense, each read as a whole.
# ruff: noqa

import os
import tempfile


def _csv(text):
    path = os.path.join(tempfile.mkdtemp(), "a.csv")
    with open(path, "w") as file:
        file.write(text)
    return path


def missing_file(tf, np):
    tf.io.read_file("/no/such/file")


def missing_folder(tf, np):
    tf.io.gfile.listdir("/no/such/folder")


def missing_to_remove(tf, np):
    tf.io.gfile.remove("/no/such/file")


def missing_records(tf, np):
    list(tf.data.TFRecordDataset("/no/such/file"))


def missing_checkpoint(tf, np):
    tf.train.Checkpoint(v=tf.Variable(1.0)).restore("/no/such/checkpoint-1")


def copy_onto_a_file(tf, np):
    path = _csv("x")
    tf.io.gfile.copy(path, path)


def names_of_errors(tf, np):
    found = []
    for attempt in (
        lambda: tf.io.gfile.stat("/no/such"),
        lambda: tf.io.gfile.copy(_csv("x"), _csv("y")),
        lambda: iter(tf.data.Dataset.range(0)).get_next(),
    ):
        try:
            attempt()
        except (
            tf.errors.NotFoundError,
            tf.errors.AlreadyExistsError,
            tf.errors.OutOfRangeError,
        ) as error:
            found.append(type(error).__name__)
    return found


def csv_dataset(tf, np):
    path = _csv('a,b,c\n1,2.5,"x, y"\n3,,z\n')
    data = tf.data.experimental.CsvDataset(
        path, [tf.int32, [7.0], tf.string], header=True
    )
    return [[a, b, c] for a, b, c in data]


def csv_columns(tf, np):
    path = _csv("1|2|3\n4|5|6\n")
    data = tf.data.experimental.CsvDataset(
        [path, path], [tf.float32, tf.int32], field_delim="|", select_cols=[0, 2]
    )
    return [list(row) for row in data]


def csv_batches(tf, np):
    path = _csv("a,b,c,y\n1,2.5,x,0\n3,1,z,1\n5,6,w,0\n")
    data = tf.data.experimental.make_csv_dataset(
        path, 2, label_name="y", num_epochs=1, shuffle=False
    )
    return [[dict(features), label] for features, label in data]


def csv_chosen(tf, np):
    path = _csv("a,b,c\n1,2,3\n4,5,6\n")
    data = tf.data.experimental.make_csv_dataset(
        path,
        2,
        select_columns=["c", "a"] if False else ["a", "c"],
        num_epochs=1,
        shuffle=False,
    )
    return [dict(features) for features in data]


def csv_inferred(tf, np):
    path = _csv("z,n,y,x\n1,8589934592,3e50,?\n,?,2.5,a\n")
    make = tf.data.experimental.make_csv_dataset
    options = dict(num_epochs=1, shuffle=False, na_value="?")
    whole = make(path, 2, **options)
    numbered = make(path, 2, select_columns=[3, 1], **options)
    # In the order of the columns.
    return [
        [list(row), list(row.values())] for data in (whole, numbered) for row in data
    ]


def csv_of_one_column(tf, np):
    path = _csv("1\n\n3\n")
    return list(tf.data.experimental.CsvDataset(path, [[7]]))


def csv_label_that_is_no_column(tf, np):
    tf.data.experimental.make_csv_dataset(_csv("a,b\n1,2\n"), 1, label_name="c")


def csv_names_that_repeat(tf, np):
    tf.data.experimental.make_csv_dataset(_csv("1,2\n"), 1, column_names=["a", "a"])


def csv_lines_that_are_short(tf, np):
    tf.data.experimental.make_csv_dataset(
        _csv("1,2\n"), 1, column_names=["a", "b", "c"], header=False
    )


def records_of_a_dataset(tf, np):
    path = os.path.join(tempfile.mkdtemp(), "r")
    texts = tf.data.Dataset.from_tensor_slices(["a", "bc"])
    tf.data.experimental.TFRecordWriter(path, "GZIP").write(texts)
    return list(tf.data.TFRecordDataset(path, "GZIP"))


def records_that_are_no_strings(tf, np):
    path = os.path.join(tempfile.mkdtemp(), "r")
    tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.range(2))


def errors_are_ignored(tf, np):
    def inverse(x):
        return tf.debugging.check_numerics(1.0 / x, "bad")

    data = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0, 4.0, 0.0])
    ignored = tf.data.experimental.ignore_errors()
    made = [
        data.map(inverse).ignore_errors(),
        data.map(inverse, num_parallel_calls=2).apply(ignored),
        data.filter(lambda x: inverse(x) < 1.0).ignore_errors(),
        data.map(inverse).ignore_errors().batch(2),
    ]
    return [[list(d), d.cardinality()] for d in made]


def options_of_all_inputs(tf, np):
    options = tf.data.Options()
    options.deterministic = False
    second = tf.data.Dataset.range(2).with_options(options)
    both = (tf.data.Dataset.range(2), second)
    made = [
        tf.data.Dataset.zip(both),
        both[0].concatenate(second),
        tf.data.Dataset.sample_from_datasets(both),
    ]
    return [data.options().deterministic for data in made]


def files_that_do_not_match(tf, np):
    tf.data.Dataset.list_files("/no/such/*")


def generated_numbers_become_unsigned(tf, np):
    data = tf.data.Dataset.from_generator(lambda: [0, 255], output_types=tf.uint8)
    return list(data.prefetch(None))


def generated_numbers_keep_their_precision(tf, np):
    data = tf.data.Dataset.from_generator(
        lambda: [0.1, np.float64(0.1)], output_types=tf.float64
    )
    return [bool(x.numpy() == 0.1) for x in data]


def groups_are_reduced(tf, np):
    mean = tf.data.experimental.Reducer(
        init_func=lambda key: (0.0, 0.0),
        reduce_func=lambda state, x: (state[0] + tf.cast(x, tf.float32), state[1] + 1),
        finalize_func=lambda total, count: total / count,
    )
    reduced = tf.data.experimental.group_by_reducer(lambda x: x % 2, mean)
    return list(tf.data.Dataset.range(5).apply(reduced))


def padded_to_a_cardinality(tf, np):
    data = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": ["x", "y"]})
    padded = data.apply(tf.data.experimental.pad_to_cardinality(3))
    return list(padded) + [padded.cardinality()]


def endless_groups(tf, np):
    data = tf.data.Dataset.range(3).repeat()
    return data.group_by_window(lambda x: x, lambda k, d: d.batch(2), 2).cardinality()


def _examples(tf, np):
    return [
        tf.constant([[1.5, -2.0], [0.25, 3.0]]),
        tf.constant(7),
        tf.constant(["a", "bc", ""]),
        tf.constant("text"),
        tf.cast([[1, 0], [0, 1]], tf.bool),
        tf.zeros([0, 3], tf.uint8),
        tf.constant([300] * 200, tf.int16),
        tf.cast([1.0, 2.0], tf.bfloat16),
    ]


def bytes_that_end_in_zeros(tf, np):
    texts = [b"a\x00\x00", b"b\x00"]
    d = tf.data.Dataset
    signature = tf.TensorSpec([], tf.string)
    made = [
        d.from_tensor_slices(texts),
        d.from_tensor_slices({"x": texts}).map(lambda e: e["x"]),
        d.from_tensors(texts[0]),
        d.from_generator(lambda: texts, output_signature=signature),
        d.from_tensor_slices([*texts, b"a"]).unique(),
        d.from_tensor_slices(texts).scan(b"", lambda s, x: (s + x, s + x)),
    ]
    return [[len(text.numpy()) for text in data] for data in made]


def _records(tf):
    t = tf.train
    made = []
    for row in ([1.0, 2.0], [3.0], []):
        lists = {
            "x": t.Feature(float_list=t.FloatList(value=row)),
            "n": t.Feature(int64_list=t.Int64List(value=[len(row)])),
            "s": t.Feature(bytes_list=t.BytesList(value=[b"a"] * len(row))),
        }
        example = t.Example(features=t.Features(feature=lists))
        made.append(example.SerializeToString())
    return made


def examples_of_many_lengths(tf, np):
    features = {
        "x": tf.io.VarLenFeature(tf.float32),
        "s": tf.io.VarLenFeature(tf.string),
        "n": tf.io.FixedLenFeature([], tf.int64),
    }
    batch = tf.io.parse_example(_records(tf), features)
    one = tf.io.parse_single_example(_records(tf)[0], features)
    rows = tf.data.Dataset.from_tensor_slices(_records(tf))
    mapped = rows.batch(2).map(lambda x: tf.io.parse_example(x, features))
    return [
        [_parts(batch["x"]), _parts(batch["s"]), batch["n"]],
        [_parts(one["x"]), one["s"].values, one["n"]],
        [tf.sparse.to_dense(batch["x"], -1.0), tf.sparse.to_dense(batch["s"], "z")],
        [[tf.sparse.to_dense(e["x"]), e["n"]] for e in mapped],
    ]


def options_that_have_no_effect(tf, np):
    e = tf.data.experimental
    options = tf.data.Options()
    options.experimental_external_state_policy = e.ExternalStatePolicy.WARN
    options.experimental_optimization = e.OptimizationOptions()
    options.threading = tf.data.ThreadingOptions()
    options.threading.private_threadpool_size = 2
    options.autotune = tf.data.experimental.AutotuneOptions()
    return list(tf.data.Dataset.range(2).with_options(options))


def datasets_of_examples(tf, np):
    features = {"n": tf.io.FixedLenFeature([], tf.int64)}
    rows = tf.data.Dataset.from_tensor_slices(_records(tf)).batch(2)
    parse = tf.data.experimental.parse_example_dataset(features, num_parallel_calls=2)
    return list(rows.apply(parse))


def sequences_of_many_lengths(tf, np):
    sequence = tf.io.FixedLenSequenceFeature
    features = {
        "x": sequence([], tf.float32, allow_missing=True, default_value=-1.0),
        "s": sequence([1], tf.string, allow_missing=True),
    }
    batch = tf.io.parse_example(_records(tf), features)
    one = tf.io.parse_single_example(_records(tf)[0], features)
    rows = tf.data.Dataset.from_tensor_slices(_records(tf))
    read = rows.map(lambda x: tf.io.parse_single_example(x, features)["x"])
    return [
        [batch["x"], batch["s"]],
        [one["x"], one["s"]],
        list(read.padded_batch(3)),
    ]


def tensors_as_bytes(tf, np):
    return [tf.io.serialize_tensor(x) for x in _examples(tf, np)]


def tensors_of_bytes(tf, np):
    return [
        tf.io.parse_tensor(tf.io.serialize_tensor(x), x.dtype)
        for x in _examples(tf, np)
    ]


def tensors_in_records(tf, np):
    data = tf.data.Dataset.from_tensor_slices([[1.0, 2.0], [3.0, 4.0]])
    texts = data.map(tf.io.serialize_tensor)
    return list(texts.map(lambda x: tf.io.parse_tensor(x, tf.float32)).batch(2))


def tensor_of_another_dtype(tf, np):
    tf.io.parse_tensor(tf.io.serialize_tensor([1.0]), tf.float64)


def tensor_of_other_bytes(tf, np):
    tf.io.parse_tensor("something else", tf.float32)


def saved_and_loaded(tf, np):
    path = os.path.join(tempfile.mkdtemp(), "d")
    data = tf.data.Dataset.range(4).map(
        lambda x: {"x": x, "y": tf.cast(x, tf.float32) * 2}
    )
    data.save(path)
    again = tf.data.Dataset.load(path)
    return [[e["x"], e["y"]] for e in again.batch(2)]


def saved_strings(tf, np):
    path = os.path.join(tempfile.mkdtemp(), "d")
    tf.data.Dataset.from_tensor_slices((["a", "bc", ""], [1.0, 2.0, 3.0])).save(path)
    return [[s, x] for s, x in tf.data.Dataset.load(path)]


def load_of_nothing(tf, np):
    list(tf.data.Dataset.load("/no/such/folder"))


def transformations(tf, np):
    e = tf.data.experimental
    d = tf.data.Dataset.range(6)
    made = [
        d.apply(e.map_and_batch(lambda x: x * 2, 4)),
        d.batch(3).apply(e.unbatch()),
        d.apply(e.take_while(lambda x: x < 3)),
        d.map(lambda x: x % 2).apply(e.unique()),
        d.apply(e.scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s))),
        d.apply(
            e.parallel_interleave(
                lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2
            )
        ),
    ]
    return [[x for x in data] for data in made] + [
        [list(p) for p in d.take(2).apply(e.enumerate_dataset(5))]
    ]


def texts(tf, np):
    c = tf.compat
    return [
        c.as_bytes("a"),
        c.as_str(b"b"),
        c.as_text("c"),
        c.as_str_any(3),
        isinstance("x", c.bytes_or_text_types),
        c.dimension_value(4),
    ]


def no_text(tf, np):
    tf.compat.as_bytes(3)


def functions_that_stay_eager(tf, np):
    tf.config.run_functions_eagerly(True)
    try:
        calls = []

        @tf.function
        def f(x):
            calls.append(float(x))
            return x * 2.0

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def g(x):
            return f(x) + float(x)

        return [
            f(tf.constant(1.0)),
            f(tf.constant(2.0)),
            g(tf.constant(3.0)),
            calls,
            tf.config.functions_run_eagerly(),
        ]
    finally:
        tf.config.run_functions_eagerly(False)


def save_counter(tf, np):
    c = tf.train.Checkpoint(v=tf.Variable(1.0))
    path = os.path.join(tempfile.mkdtemp(), "c")
    names = [os.path.basename(c.save(path)) for _ in range(2)]
    return [names, int(c.save_counter.numpy()), int(c.save_counter)]


def slices_in_functions(tf, np):
    s = tf.IndexedSlices(
        tf.constant([[1.0], [2.0]]), tf.constant([0, 2]), tf.constant([3, 1])
    )
    return [tf.convert_to_tensor(s) * 2.0, tf.reduce_sum(tf.convert_to_tensor(s))]


def _parts(sparse):
    return [sparse.indices, sparse.values, sparse.dense_shape]


def _sparse(tf):
    return tf.SparseTensor([[0, 0], [1, 2], [2, 1]], [1.0, 2.0, 3.0], [3, 4])


def sparse_rows_are_batched(tf, np):
    rows = tf.data.Dataset.from_tensor_slices((_sparse(tf), [1, 2, 3]))
    return [[*_parts(x), y] for x, y in rows.batch(2)]


def sparse_values_of_map(tf, np):
    def one(i):
        return tf.SparseTensor([[0, 1]], tf.reshape(i, [1]), [1, 2])

    made = tf.data.Dataset.range(1, 4).map(one)
    dense = made.batch(2).map(tf.sparse.to_dense)
    return [[_parts(x) for x in made], [*dense]]


def sparse_argument_of_a_step(tf, np):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weights = tf.Variable([[1.0], [2.0], [3.0], [4.0]])
    data = tf.data.Dataset.from_tensor_slices((_sparse(tf), [1.0, 2.0, 3.0])).batch(2)
    losses = []

    @tf.function
    def step(features, labels):
        with tf.GradientTape() as tape:
            made = tf.sparse.sparse_dense_matmul(features, weights)
            loss = tf.reduce_sum((made[:, 0] - labels) ** 2)
        gradient = tape.gradient(loss, weights)
        context = tf.distribute.get_replica_context()
        gradient = context.all_reduce("SUM", gradient)
        weights.assign_sub(0.1 * gradient)
        return loss

    for batch in strategy.experimental_distribute_dataset(data.take(1)):
        found = strategy.run(step, args=batch)
        losses.append(strategy.reduce("SUM", found, axis=None))
    return [losses, weights.read_value()]


def sparse_functions(tf, np):
    one = _sparse(tf)
    text = tf.SparseTensor([[0, 1]], ["a"], [1, 3])
    unordered = tf.SparseTensor([[1, 0], [0, 1]], [1, 2], [2, 2])
    return [
        _parts(tf.sparse.reorder(unordered)),
        _parts(tf.sparse.concat(0, [one, one])),
        _parts(tf.sparse.transpose(one)),
        _parts(tf.sparse.slice(one, [0, 0], [2, 3])),
        _parts(tf.sparse.reshape(one, [4, 3])),
        _parts(tf.sparse.expand_dims(one, 0)),
        _parts(tf.sparse.from_dense([[1, 0], [0, 2]])),
        tf.sparse.reduce_sum(one),
        tf.sparse.to_dense(one, default_value=9.0),
        tf.sparse.to_dense(text),
        tf.sparse.to_dense(text, default_value="z"),
    ]


def sparse_arithmetic(tf, np):
    one = _sparse(tf)
    other = tf.SparseTensor([[0, 0], [1, 1]], [-1.0, -5.0], [3, 4])
    numbers = tf.sparse.from_dense([[-5, 0, -3], [0, 0, 0]])
    doubled = tf.data.Dataset.from_tensor_slices(one).map(lambda x: x * 2.0)
    return [
        _parts(tf.sparse.add(one, other)),
        tf.sparse.add(one, tf.ones([3, 4])),
        _parts(tf.sparse.map_values(tf.add, numbers, 5)),
        _parts(tf.sparse.map_values(tf.multiply, one, one)),
        tf.sparse.reduce_max(numbers),
        tf.sparse.reduce_max(numbers, axis=0),
        tf.sparse.reduce_max(numbers, axis=1, keepdims=True),
        _parts(one * 3.0),
        _parts(one / tf.constant([[2.0, 2.0, 2.0, 2.0]])),
        [_parts(x) for x in doubled],
    ]


def sparse_values_at_other_indices(tf, np):
    other = tf.SparseTensor([[0, 0], [1, 1], [2, 1]], [1.0, 2.0, 3.0], [3, 4])
    tf.sparse.map_values(tf.add, _sparse(tf), other)


def sparse_and_ragged(tf, np):
    sparse = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [1, 2, 3], [3, 2])
    ragged = tf.ragged.constant([[1, 2], [], [3]])
    return [_parts(ragged.to_sparse()), tf.RaggedTensor.from_sparse(sparse).to_list()]


def sparse_that_is_not_ragged(tf, np):
    tf.RaggedTensor.from_sparse(_sparse(tf))


def types_of_python_numbers(tf, np):
    numbers = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [1.5, 2.0]})
    return [
        *numbers,
        *tf.data.Dataset.from_tensors((1, 2.0, True, [[3]], "text")),
        *tf.data.Dataset.from_tensor_slices([2**40]),
        *tf.data.Dataset.range(2).map(lambda x: (x, 1, 2.0)),
        *tf.data.Dataset.range(1).map(lambda x: {"a": 3.5, "b": x}),
    ]


def bytes_and_code_points(tf, np):
    points = tf.ragged.constant([[104], [233, 104]])
    return [
        tf.strings.bytes_split("h\u00e9y"),
        tf.strings.bytes_split(["ab", "c", ""]).to_list(),
        tf.strings.unicode_decode("h\u00e9y", "UTF-8"),
        tf.strings.unicode_decode(["h\u00e9", "y"], "UTF-8").to_list(),
        tf.strings.unicode_decode(b"a\xffb", "UTF-8"),
        tf.strings.unicode_encode([104, 233], "UTF-8"),
        tf.strings.unicode_encode(points, "UTF-8"),
        tf.strings.unicode_encode([[104], [233]], "UTF-16-BE"),
    ]


def files_held_out(tf, np):
    folder = tempfile.mkdtemp()
    for kind in ("pos", "neg"):
        os.mkdir(os.path.join(folder, kind))
        for number in range(6):
            with open(os.path.join(folder, kind, f"{number}.txt"), "w") as file:
                file.write(f"{kind} {number}")
    parts = [
        tf.keras.utils.text_dataset_from_directory(
            folder, validation_split=0.25, subset=subset, seed=42, verbose=False
        )
        for subset in ("training", "validation")
    ]
    return [sorted(x.numpy() for batch, _ in part for x in batch) for part in parts]


def arguments_of_generators(tf, np):
    def numbers(count, name):
        kept = {count: name}
        return iter([kept[3]] * count)

    spec = tf.TensorSpec([], tf.string)
    data = tf.data.Dataset.from_generator(
        numbers, args=[tf.constant(3), "x"], output_signature=spec
    )
    return [*data]
