"""Gradients that replicas add up for themselves, applied every second step."""

BATCH = 8


def train(tf, np):
    random = np.random.RandomState(8)
    x = random.randn(40, 4).astype(np.float32)
    y = np.tanh(x.sum(axis=1, keepdims=True)).astype(np.float32)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weights = [
            tf.Variable(0.3 * random.randn(*shape).astype(np.float32))
            for shape in ((4, 6), (6, 1))
        ]
        sums = [
            tf.Variable(
                tf.zeros_like(weight),
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            for weight in weights
        ]

    def add(inputs, targets):
        with tf.GradientTape() as tape:
            outputs = tf.matmul(tf.nn.tanh(tf.matmul(inputs, weights[0])), weights[1])
            loss = tf.reduce_sum(tf.math.squared_difference(outputs, targets)) / BATCH
        for total, gradient in zip(sums, tape.gradient(loss, weights)):
            total.assign_add(gradient)
        return loss

    def apply():
        context = tf.distribute.get_replica_context()
        totals = context.all_reduce("SUM", [total.read_value() for total in sums])
        totals, _ = tf.clip_by_global_norm(totals, 1.0)
        for weight, gradient, total in zip(weights, totals, sums):
            weight.assign_sub(0.2 * gradient)
            total.assign(tf.zeros_like(total))

    @tf.function
    def accumulate(inputs, targets):
        losses = strategy.run(add, args=(inputs, targets))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    @tf.function
    def update():
        strategy.run(apply)

    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).repeat(4)
    results = []
    for batch in strategy.experimental_distribute_dataset(dataset):
        results.append(float(accumulate(*batch)))
        if len(results) % 2 == 0:
            update()
    return results
