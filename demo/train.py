"""Trains a small CNN on handwritten digits: one script for any number of replicas.

    python demo/train.py FOLDER --replicas 2
    mirrax launch -n 2 --max-restarts 2 demo/train.py FOLDER --workers

Writes what the report shows into FOLDER: the steps, the parameters, and where the time
of a step goes.
"""

import argparse
import json
import os
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import mirrax

BATCH_SIZE = 60
NUM_TRAIN = 1530  # The last batch of an epoch has 30 rows.
NUM_MEASURED = 30


def load():
    """Returns images of 8 x 8 pixels and their labels, for training and for testing."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:NUM_TRAIN], order[NUM_TRAIN:]
    return (images[train], labels[train]), (images[test], labels[test])


def create_parameters():
    """Returns the kernels and biases of two convolutions and a dense layer."""
    random = np.random.default_rng(1)
    shapes = {"conv1": (3, 3, 1, 8), "conv2": (3, 3, 8, 16), "dense": (64, 10)}
    parameters = []
    for name, shape in shapes.items():
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        kernel = (random.normal(size=shape) * scale).astype(np.float32)
        parameters += [
            mirrax.Variable(kernel, name=f"{name}/kernel"),
            mirrax.Variable(np.zeros(shape[-1], np.float32), name=f"{name}/bias"),
        ]
    return parameters


def predict(parameters, images):
    *convolutions, kernel, bias = parameters
    x = images
    for weights, offset in zip(convolutions[::2], convolutions[1::2], strict=True):
        dimensions = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            x, weights, (2, 2), "SAME", dimension_numbers=dimensions
        )
        x = jax.nn.relu(x + offset)
    return x.reshape(len(x), -1) @ kernel + bias


def loss_of(parameters, images, labels, batch_size=None):
    scores = jax.nn.log_softmax(predict(parameters, images))
    losses = -jnp.take_along_axis(scores, labels[:, None], 1)[:, 0]
    # Without a size, the replicas count the rows of the whole batch together.
    return mirrax.nn.compute_average_loss(losses, global_batch_size=batch_size)


def update(parameters, velocities, gradients):
    for p, v, g in zip(parameters, velocities, gradients, strict=True):
        v.assign(0.9 * v.value + g)
        p.assign_sub(0.05 * v.value)


class Training:
    """The model, its data, and its steps."""

    def __init__(self, strategy, epochs, folder):
        self.strategy = strategy
        self.folder = folder
        with strategy.scope():
            self.parameters = create_parameters()
            self.velocities = [
                mirrax.Variable(jnp.zeros(p.shape), trainable=False)
                for p in self.parameters
            ]
        self.step = mirrax.function(self.train_step)
        data, self.test_data = load()
        dataset = mirrax.data.Dataset.from_tensor_slices(data)
        dataset = dataset.shuffle(NUM_TRAIN, seed=2).batch(BATCH_SIZE).repeat(epochs)
        self.num_steps = epochs * -(-NUM_TRAIN // BATCH_SIZE)
        self.batches = iter(strategy.experimental_distribute_dataset(dataset))

    def train_step(self, images, labels):
        values = [p.value for p in self.parameters]
        loss, gradients = jax.value_and_grad(loss_of)(values, images, labels)
        context = mirrax.get_replica_context()
        loss, gradients = context.all_reduce("SUM", (loss, gradients))
        update(self.parameters, self.velocities, gradients)
        return loss

    def run(self):
        """Trains to the end, from the newest checkpoint if there is one."""
        checkpoint = mirrax.train.Checkpoint(
            parameters=self.parameters,
            velocities=self.velocities,
            batches=self.batches,
            num_done=0,
        )
        manager = mirrax.train.CheckpointManager(
            checkpoint, self.folder / "checkpoints", max_to_keep=2, save_interval=10
        )
        steps = mirrax.train.resumable(manager, self.batches)
        progress = mirrax.train.Progress(
            steps, self.num_steps, batch_size=BATCH_SIZE, interval=0.5
        )
        before = time.perf_counter()
        for batch in progress:
            waited = time.perf_counter() - before
            loss = float(self.strategy.run(self.step, args=batch))
            checkpoint.num_done += 1
            if self.strategy.is_chief:
                self.record(step=checkpoint.num_done, loss=loss, input=waited)
            progress.show(loss=loss)
            before = time.perf_counter()

    def record(self, **facts):
        facts |= {"process": os.getpid(), "time": time.time()}
        with open(self.folder / "steps.jsonl", "a") as file:
            file.write(json.dumps(facts) + "\n")

    def measure(self):
        """Returns the seconds of a step: the whole, without sums, without anything."""
        dataset = mirrax.data.Dataset.from_tensor_slices(load()[0]).batch(BATCH_SIZE)
        batch = next(iter(self.strategy.experimental_distribute_dataset(dataset)))

        # Variables of each replica, which nothing keeps equal.
        kind = {
            "synchronization": mirrax.VariableSynchronization.ON_READ,
            "aggregation": mirrax.VariableAggregation.MEAN,
        }
        with self.strategy.scope():
            parameters, velocities = (
                [mirrax.Variable(v.numpy(), trainable=False, **kind) for v in variables]
                for variables in (self.parameters, self.velocities)
            )

        @mirrax.function
        def compute(images, labels):
            values = [p.value for p in parameters]
            loss, gradients = jax.value_and_grad(loss_of)(
                values, images, labels, BATCH_SIZE
            )
            update(parameters, velocities, gradients)
            return loss

        @mirrax.function
        def nothing(images, labels):
            return images[0, 0, 0, 0]

        whole, local, empty = self._seconds([self.step, compute, nothing], batch)
        return {
            "Python": empty,
            "compute": max(local - empty, 0.0),
            "communication": max(whole - local, 0.0),
        }

    def _seconds(self, functions, batch):
        """Returns the median of each function; they take turns."""
        rounds = []
        for _ in range(NUM_MEASURED):
            moments = [time.perf_counter()]
            for fn in functions:
                jax.block_until_ready(self.strategy.run(fn, args=batch))
                moments.append(time.perf_counter())
            rounds.append(np.diff(moments))
        return np.median(rounds[5:], axis=0).tolist()

    def accuracy(self):
        images, labels = self.test_data
        found = jnp.argmax(predict([p.value for p in self.parameters], images), 1)
        return float((found == labels).mean())

    def describe(self):
        """Returns where replicas and variables are."""
        return {
            "devices": list(self.strategy.topology.names),
            "variables": [
                {
                    "name": p.name,
                    "shape": list(p.shape),
                    "bytes": p.numpy().nbytes,
                    "devices": [part.device for part in p.values],
                }
                for p in self.parameters
            ],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--workers", action="store_true", help="one replica a worker")
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.workers:
        strategy = mirrax.MultiWorkerMirroredStrategy()
        (options.folder / f"process-{os.environ['RANK']}").write_text(str(os.getpid()))
    else:
        names = [f"CPU:{i}" for i in range(options.replicas)]
        strategy = mirrax.MirroredStrategy(names)
    training = Training(strategy, options.epochs, options.folder)
    training.run()
    parameters = [p.numpy() for p in training.parameters]
    facts = training.describe() | {"accuracy": training.accuracy()}
    facts["times"] = training.measure()  # This trains on, so it comes last.
    if strategy.is_chief:
        np.savez(options.folder / "parameters.npz", *parameters)
        (options.folder / "facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
