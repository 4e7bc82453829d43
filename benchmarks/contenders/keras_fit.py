"""A Keras model that is trained with `fit`; the backend is chosen before."""

import models
import numpy as np

STEPS = 20


def make_fit(keras, scope):
    """Returns what makes a workload: epochs of `fit` in this scope, of 20 steps."""

    def make(model, batch):
        parameters = models.parameters(model)
        widths = [w.shape[1] for name, w in parameters.items() if name.endswith("/w")]
        x, y = models.batch(model, batch)
        with scope():
            layers = [keras.layers.Dense(width, "relu") for width in widths[:-1]]
            network = keras.Sequential(
                [keras.Input(x.shape[1:]), *layers, keras.layers.Dense(widths[-1])]
            )
            network.set_weights(list(parameters.values()))
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            network.compile(keras.optimizers.SGD(models.RATE), loss)

        x, y = (np.concatenate([array] * STEPS) for array in (x, y))

        def fit(repeats):
            with scope():
                options = {"batch_size": batch, "epochs": repeats, "verbose": 0}
                history = network.fit(x, y, shuffle=False, **options)
            return history.history["loss"][-1]

        return fit

    return make
