"""The training of `with_mirrax.py` with PyTorch DDP, for torchrun."""

# ruff: noqa: E402
import time

# Before the imports, which take most of the time.
STARTED = time.time()

import os
import pathlib
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main(folder, steps, interval):
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(784, 128, bias=False), nn.ReLU(), nn.Linear(128, 10, bias=False)
    )
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
    path, new = folder / "checkpoint", folder / "checkpoint-new"
    first = 0
    if path.exists():
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        first = saved["step"]
    for step in range(first, steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        time.sleep(0.05)
        if rank == 0:
            with (folder / "steps").open("a") as file:
                file.write(f"{STARTED} {step + 1} {time.time()}\n")
            if (step + 1) % interval == 0:
                torch.save({"model": model.state_dict(), "step": step + 1}, new)
                new.replace(path)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
