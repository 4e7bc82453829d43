"""A Keras model that is created in the scope and trained by `fit`."""


def train(tf, np):
    random = np.random.RandomState(5)
    x = random.randn(40, 6).astype(np.float32)
    y = (x.sum(axis=1, keepdims=True) > 0).astype(np.float32)
    weights = [
        0.4 * random.randn(6, 8).astype(np.float32),
        np.zeros(8, np.float32),
        0.4 * random.randn(8, 1).astype(np.float32),
        np.zeros(1, np.float32),
    ]
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input((6,)),
                tf.keras.layers.Dense(8, activation="tanh"),
                tf.keras.layers.Dense(1),
            ]
        )
        model.compile(
            optimizer=tf.keras.optimizers.Adam(0.05),
            loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        )
    model.set_weights(weights)
    history = model.fit(x, y, batch_size=20, epochs=20, shuffle=False, verbose=0)
    return [float(loss) for loss in history.history["loss"]]
