"""Two models against each other: two tapes, two optimizers, normalized batches."""


def train(tf, np):
    random = np.random.RandomState(6)
    real = (1 + 0.5 * random.randn(50, 6)).astype(np.float32)
    noise = random.randn(10, 10, 4).astype(np.float32)

    def constant(value):
        return tf.keras.initializers.Constant(value)

    class Generator(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = tf.keras.layers.Dense(8, kernel_initializer=constant(0.1))
            self.normalize = tf.keras.layers.BatchNormalization()
            self.outputs = tf.keras.layers.Dense(6, kernel_initializer=constant(0.2))

        def call(self, inputs, training=False):
            hidden = self.normalize(self.hidden(inputs), training=training)
            return self.outputs(tf.nn.leaky_relu(hidden))

    generator = Generator()
    judge = tf.keras.Sequential(
        [
            tf.keras.Input((6,)),
            tf.keras.layers.Dense(4, "tanh", kernel_initializer=constant(0.1)),
            tf.keras.layers.Dense(1, kernel_initializer=constant(0.3)),
        ]
    )
    entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    optimizers = [tf.keras.optimizers.Adam(0.02), tf.keras.optimizers.Adam(0.05)]

    @tf.function
    def step(images, seeds):
        with tf.GradientTape() as making, tf.GradientTape() as judging:
            made = judge(generator(seeds, training=True), training=True)
            found = judge(images, training=True)
            fooling = entropy(tf.ones_like(made), made)
            telling = entropy(tf.ones_like(found), found)
            telling += entropy(tf.zeros_like(made), made)
        for model, optimizer, tape, loss in (
            (generator, optimizers[0], making, fooling),
            (judge, optimizers[1], judging, telling),
        ):
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return fooling, telling

    dataset = tf.data.Dataset.from_tensor_slices(real).batch(10).repeat(2)
    results = []
    for seeds, images in zip(noise, dataset):
        results.extend(float(loss) for loss in step(images, seeds))
    return results
