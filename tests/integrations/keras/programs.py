"""Small Keras models of each kind, their data, and all that can be learned of them."""

import hashlib

import keras
import numpy as np

SEED = 11
ROWS = 95  # leaves a last batch of 23 rows, which no number of replicas divides


def linear():
    return [keras.Input((6,)), keras.layers.Dense(3)]


def mlp():
    return [
        keras.Input((6,)),
        keras.layers.Dense(8, activation="relu"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(3),
    ]


def cnn():
    return [
        keras.Input((6, 6, 1)),
        keras.layers.Conv2D(4, 3, use_bias=False),
        keras.layers.BatchNormalization(),
        keras.layers.Activation("relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(3),
    ]


def lstm():
    return [keras.Input((3, 2)), keras.layers.LSTM(4), keras.layers.Dense(3)]


class Attention(keras.layers.Layer):
    """One block of a Transformer."""

    def __init__(self, width=8):
        super().__init__()
        self.attend = keras.layers.MultiHeadAttention(2, width // 2)
        self.feed = keras.layers.Dense(width, activation="gelu")
        self.norms = [keras.layers.LayerNormalization() for _ in range(2)]

    def call(self, x):
        x = self.norms[0](x + self.attend(x, x))
        return self.norms[1](x + self.feed(x))


def transformer():
    return [
        keras.Input((5,), dtype="int32"),
        keras.layers.Embedding(11, 8),
        Attention(),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(3),
    ]


MODELS = {
    "linear": linear,
    "mlp": mlp,
    "cnn": cnn,
    "lstm": lstm,
    "transformer": transformer,
}

OPTIMIZERS = {
    "mlp": keras.optimizers.Adam,
    "cnn": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "lstm": lambda: keras.optimizers.SGD(0.1, clipnorm=0.1),
    "transformer": lambda: keras.optimizers.SGD(0.1),
}


def data_for(model, rows=ROWS):
    rng = np.random.default_rng(SEED)
    shape = (rows, *model.input_shape[1:])
    if model.inputs[0].dtype == "int32":
        x = rng.integers(0, 11, shape).astype("int32")
    else:
        x = rng.normal(size=shape).astype("float32")
    return x, rng.integers(0, 3, rows)


def build(name, optimizer="adam", **options):
    keras.utils.set_random_seed(SEED)
    model = keras.Sequential(MODELS[name]())
    model.compile(optimizer, loss(), metrics=["accuracy"], **options)
    return model


def loss(**options):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def experience(model):
    """Returns what training and using a model shows."""
    x, y = data_for(model)
    keras.utils.set_random_seed(SEED)
    history = model.fit(x, y, batch_size=24, epochs=2, verbose=0)
    return {
        "history": history.history,
        "weights": model.get_weights(),
        "evaluate": model.evaluate(x, y, batch_size=24, verbose=0),
        "predict": model.predict(x, batch_size=24, verbose=0),
        "predict one": model.predict(x[:1], verbose=0),
    }


def experience_of_batches(model):
    """Returns what a model shows that is given single batches."""
    x, y = data_for(model)
    keras.utils.set_random_seed(SEED)
    return {
        "train": model.train_on_batch(x[:7], y[:7]),
        "train by row": model.train_on_batch(x[:8], y[:8], np.linspace(0, 1, 8)),
        "train by class": model.train_on_batch(x[:8], y[:8], class_weight={0: 3.0}),
        "test": model.test_on_batch(x[:8], y[:8], return_dict=True),
        "test by row": model.test_on_batch(x[:8], y[:8], np.linspace(0, 1, 8)),
        "predict": model.predict_on_batch(x[:7]),
        "weights": model.get_weights(),
    }


def bits_of_training():
    """Returns a text that is another one if a bit of a trained model is another."""
    model = build("mlp")
    x, y = data_for(model, rows=20)
    history = model.fit(x, y, batch_size=8, verbose=0, validation_split=0.2).history
    arrays = [*model.get_weights(), model.predict(x, verbose=0), *history.values()]
    steps = (model.train_function, model.test_function, model.predict_function)
    names = [f"{step.__module__}.{step.__qualname__}" for step in steps]
    digests = [hashlib.sha256(np.asarray(a)).hexdigest() for a in arrays]
    return " ".join([*digests, *names])


class StepOfTensorFlow(keras.Model):
    """A model whose steps are written for another backend."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        return {"loss": 0.0}
