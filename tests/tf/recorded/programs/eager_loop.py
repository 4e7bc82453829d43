"""A loop that runs eagerly: tapes without `tf.function`, and elements as tensors."""


def train(tf, np):
    x = np.linspace(-2, 2, 60).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, np.tanh(3 * x + 1)))
    dataset = dataset.batch(12)

    class Line(tf.Module):
        def __init__(self):
            super().__init__()
            self.weight = tf.Variable(0.5)
            self.bias = tf.Variable(tf.zeros([1]))

        def __call__(self, inputs):
            return tf.tanh(self.weight * inputs + self.bias)

    model = Line()
    scale = tf.constant(1.0)
    losses = []
    for _ in range(4):
        for inputs, targets in dataset:
            assert inputs.shape.as_list() == [12]
            assert targets[0].numpy() == targets.numpy()[0]
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(scale)
                difference = scale * model(inputs) - targets
                loss = tf.reduce_mean(tf.square(difference))
            weight, bias = tape.gradient(loss, [model.weight, model.bias])
            model.weight.assign_sub(0.5 * weight)
            model.bias.assign_sub(0.5 * bias)
            scale = scale - 0.1 * tape.gradient(loss, scale)
            losses.append(float(loss))
    return losses
