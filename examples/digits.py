"""Trains a small network on handwritten digits, on one replica and on two.

    python examples/digits.py [--replicas 2] [--epochs 5]

Both runs see the same batches and end with the same parameters: the number of devices
affects speed, not results.
"""

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import mirrax

BATCH_SIZE = 60
SIZES = (64, 128, 10)


def load():
    """Returns training and test data: images as vectors, and labels."""
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1500], order[1500:]
    return (images[train], labels[train]), (images[test], labels[test])


def create_parameters():
    """Returns the weights and biases of the network, as variables."""
    random = np.random.default_rng(1)
    parameters = []
    for rows, columns in itertools.pairwise(SIZES):
        scale = np.sqrt(2 / rows)
        weights = random.normal(size=(rows, columns)).astype(np.float32) * scale
        parameters += [
            mirrax.Variable(weights.astype(np.float32)),
            mirrax.Variable(np.zeros(columns, np.float32)),
        ]
    return parameters


def predict(parameters, images):
    weights, bias, last_weights, last_bias = parameters
    return jax.nn.relu(images @ weights + bias) @ last_weights + last_bias


def train(strategy, data, epochs):
    """Trains a network with `strategy`; returns its variables."""
    with strategy.scope():
        parameters = create_parameters()

    def loss_of(images, labels):
        scores = jax.nn.log_softmax(predict([p.value for p in parameters], images))
        losses = -jnp.take_along_axis(scores, labels[:, None], 1)
        return mirrax.nn.compute_average_loss(losses)  # the shares add up to the mean

    def replica_step(batch):
        loss, gradients = mirrax.value_and_grad(loss_of, parameters)(*batch)
        gradients = mirrax.get_replica_context().all_reduce("SUM", gradients)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.assign_sub(0.5 * gradient)
        return loss

    @mirrax.function
    def step(batch):
        losses = strategy.run(replica_step, args=(batch,))
        return strategy.reduce("SUM", losses, axis=None)

    dataset = mirrax.data.Dataset.from_tensor_slices(data).batch(BATCH_SIZE)
    distributed = strategy.experimental_distribute_dataset(dataset.repeat(epochs))
    steps = epochs * -(-len(data[0]) // BATCH_SIZE)
    progress = mirrax.train.Progress(distributed, steps, batch_size=BATCH_SIZE)
    print(f"{strategy.num_replicas_in_sync} replica(s)")
    for batch in progress:
        progress.show(loss=step(batch))
    return parameters


def accuracy(parameters, data):
    images, labels = data
    found = jnp.argmax(predict([p.value for p in parameters], images), 1)
    return float((found == labels).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()

    # Splits one CPU into several devices; not needed with GPUs.
    mirrax.config.set_logical_devices("CPU", options.replicas)
    names = [f"CPU:{i}" for i in range(options.replicas)]
    train_data, test_data = load()
    results = []
    for devices in (names[:1], names):
        strategy = mirrax.MirroredStrategy(devices)
        parameters = train(strategy, train_data, options.epochs)
        print(f"  accuracy on unseen digits: {accuracy(parameters, test_data):.1%}")
        results.append([parameter.numpy() for parameter in parameters])
    difference = max(
        np.abs(one - many).max() for one, many in zip(*results, strict=True)
    )
    print(
        f"Largest difference between the parameters of 1 and of {options.replicas} "
        f"replicas: {difference:.1e}"
    )
    if difference > 1e-4:
        raise SystemExit("The runs should have ended alike.")


if __name__ == "__main__":
    main()
