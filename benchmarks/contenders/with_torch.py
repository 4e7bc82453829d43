"""PyTorch with DistributedDataParallel, one process for each replica."""

import os
import sys
import tempfile

from serve import TEAM, serve

ENVIRONMENT = "torch"
REQUIRES = ["torch==2.13.0", "numpy"]
HAS_A_PROCESS_FOR_EACH_REPLICA = True

import models
import torch
from torch.nn import functional

os.environ |= {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": str(TEAM.ports[0]),
    "RANK": str(TEAM.worker),
    "LOCAL_RANK": str(TEAM.worker),
    "WORLD_SIZE": str(TEAM.size),
    "LOCAL_WORLD_SIZE": str(TEAM.size),
}
relu = functional.relu
# The operations of `models.py` are the functions of this module.
ops = sys.modules[__name__]


def dense(x, w, b):
    return functional.linear(x, w, b)


def conv(x, w, stride):
    return functional.conv2d(x, w, stride=stride, padding=1)


def batch_norm(x, scale, shift):
    return functional.batch_norm(x, None, None, scale, shift, training=True)


def layer_norm(x, scale, shift):
    return functional.layer_norm(x, x.shape[-1:], scale, shift)


def embed(table, ids):
    return functional.embedding(ids, table)


def split_heads(x):
    parts = x.unflatten(-1, (3, models.NUM_HEADS, -1))
    return parts.permute(2, 0, 3, 1, 4).unbind()


def attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


def mean_pool(x):
    return x.mean((2, 3))


def parameter(name, array):
    """Returns an array as PyTorch's layers keep it."""
    tensor = torch.from_numpy(array)
    if name.startswith("conv"):
        tensor = tensor.permute(3, 2, 0, 1)
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    elif name.startswith("dense"):
        tensor = tensor.T.contiguous()
    return torch.nn.Parameter(tensor)


class Model(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        named = models.parameters(model).items()
        self.names = [name for name, _ in named]
        self.values = torch.nn.ParameterList([parameter(*pair) for pair in named])

    def forward(self, x):
        named = dict(zip(self.names, self.values, strict=True))
        return models.scores(ops, self.model, named, x)


def own_rows(model, batch):
    """Returns this process's part of the batch."""
    rows = batch // TEAM.size
    x, y = (
        torch.from_numpy(a[TEAM.worker * rows :][:rows])
        for a in models.batch(model, batch)
    )
    if x.ndim == 4:
        # A view: channels come last in memory, which is quickest on CPUs.
        x = x.permute(0, 3, 1, 2)
    return x, y.long()


def serve_training(prepare, backward):
    """Serves steps of a training loop.

    Args:
        prepare: Makes a module and its optimizer what the library trains.
        backward: Computes the gradients of a loss.
    """

    def make_train(model, batch):
        x, y = own_rows(model, batch)
        module = Model(model)
        module, optimizer = prepare(
            module, torch.optim.SGD(module.parameters(), models.RATE)
        )

        def train(repeats):
            for _ in range(repeats):
                optimizer.zero_grad()
                logits = module(x)
                loss = functional.cross_entropy(logits.flatten(0, -2), y.flatten())
                backward(loss)
                optimizer.step()
            total = loss.detach() / TEAM.size
            if TEAM.size > 1:
                torch.distributed.all_reduce(total)
            return float(total)

        return train

    serve(train=make_train, checkpoint=make_checkpoint, restore=make_restore)


def tensors_to_save(count, size):
    tensors = {str(i): torch.ones(size) for i in range(count)}
    return tensors, os.path.join(tempfile.mkdtemp(), "ckpt")


def make_checkpoint(count, size):
    tensors, path = tensors_to_save(count, size)

    def run(repeats):
        # All processes have the same tensors: one of them saves.
        for _ in range(repeats if TEAM.worker == 0 else 0):
            torch.save(tensors, path)
        return 0.0

    return run


def make_restore(count, size):
    tensors, path = tensors_to_save(count, size)
    torch.save(tensors, path)

    def run(repeats):
        for _ in range(repeats):
            for name, saved in torch.load(path).items():
                tensors[name].copy_(saved)
        return float(tensors[str(count - 1)][-1])

    return run


def prepare(module, optimizer):
    if TEAM.size > 1:
        module = torch.nn.parallel.DistributedDataParallel(module)
    return module, optimizer


if __name__ == "__main__":
    if TEAM.size > 1:
        torch.distributed.init_process_group("gloo")
    serve_training(prepare, lambda loss: loss.backward())
