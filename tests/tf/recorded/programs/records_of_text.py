"""Sentences in TFRecord files, looked up in a vocabulary, and classified."""

import os
import tempfile

TEXTS = ["great fun", "bad plot and bad acting", "great acting", "a bad film", "fun"]


def train(tf, np):
    words = sorted({word for text in TEXTS for word in text.split()})
    numbers = {word: number for number, word in enumerate(words, 1)}
    folder = tempfile.mkdtemp()
    for index in range(2):
        path = os.path.join(folder, f"{index}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for text in TEXTS[index::2]:
                writer.write(example_of(tf, text).SerializeToString())
    features = {
        "text": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def look_up(text):
        found = [numbers[word] for word in text.numpy().decode().split()]
        return np.array(found + [0] * (5 - len(found)), np.int32)

    def parse(record):
        parsed = tf.io.parse_single_example(record, features)
        ids = tf.py_function(look_up, [parsed["text"]], tf.int32)
        ids.set_shape([5])
        return ids, tf.cast(parsed["label"], tf.float32)

    files = tf.data.Dataset.list_files(os.path.join(folder, "*"), shuffle=False)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=2)
    dataset = dataset.map(parse).cache().repeat(4).batch(4, drop_remainder=True)
    random = np.random.RandomState(7)
    table = tf.Variable(0.3 * random.randn(len(words) + 1, 3).astype(np.float32))
    weight = tf.Variable(0.3 * random.randn(3, 1).astype(np.float32))
    optimizer = tf.keras.optimizers.Adam(0.1)

    @tf.function
    def step(ids, labels):
        with tf.GradientTape() as tape:
            mask = tf.cast(tf.not_equal(ids, 0), tf.float32)[..., tf.newaxis]
            total = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) * mask, axis=1)
            logits = tf.squeeze(total / tf.reduce_sum(mask, axis=1) @ weight, axis=-1)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, [table, weight])
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, [table, weight]))
        return loss

    return [float(step(*batch)) for _ in range(4) for batch in dataset]


def example_of(tf, text):
    label = int("bad" not in text)
    feature = {
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))
