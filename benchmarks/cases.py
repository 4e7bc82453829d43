"""What is compared with what, and what each ratio may be at most."""

import dataclasses

from teams import Entry

MODELS = {
    "mlp_small": ("MLP 784-128-10", 256),
    "mlp_large": ("MLP 784-1024-1024-10", 256),
    "cnn": ("CNN with BatchNorm", 64),
    "transformer": ("Transformer, 2 layers", 32),
}
MIRRAX, JAX = Entry("mirrax"), Entry("jax")
TENSORFLOW = Entry("tensorflow")
TORCH = {name: Entry(name) for name in ("torch", "accelerate", "fabric")}
NAMES = {"Mirrax": "mirrax", "JAX": "jax", "TensorFlow": "tensorflow"}
# How many times faster than tf.data each pipeline should be.
PIPELINES = {
    "shuffle, batch": 8,
    "map, batch": 20,
    "batch, map": 4,
    "TFRecord": 1,
    "interleaved": 1,
    "examples": 1,
    "text lines": 5,
    "over replicas": 8,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: the same work done by several contenders, who take turns.

    Args:
        name: The row's name, unique in its group.
        entries: By label: who does it, and what is asked. The first one is compared
            with all others.
        limits: What the ratio to another label may be at most.
        are_values_equal: Whether all return the same value, such as the loss.
        x: Where the row lies in a plot of its group, if there is one.
    """

    group: str
    name: str
    entries: dict[str, tuple[Entry, dict]]
    limits: dict[str, float] = dataclasses.field(default_factory=dict)
    are_values_equal: bool = False
    x: float | None = None
    is_quick: bool = False


def all_cases(folder):
    """Returns the cases, the most important first: the last may not fit."""
    return [
        *train_on_replicas(),
        *train_on_workers(),
        *dispatch(),
        *inputs(folder),
        *checkpoints(),
        *sharded_state(),
        *keras_and_nnx(),
        *growth(folder),
    ]


def train(model, batch=None, **options):
    batch = batch or MODELS[model][1]
    return {"kind": "train", "model": model, "batch": batch, **options}


def train_on_replicas():
    limits = {
        "mlp_small": {"JAX": 1.10, "TensorFlow": 0.67, "PyTorch DDP": 0.77},
        "mlp_large": {"JAX": 1.03, "TensorFlow": 0.67, "PyTorch DDP": 0.77},
        "cnn": {"JAX": 1.05, "TensorFlow": 0.67},
        "transformer": {"JAX": 1.05},
    }
    for model, (name, _) in MODELS.items():
        work = train(model)
        entries = {
            "Mirrax": (MIRRAX, work),
            "JAX": (JAX, work),
            "TensorFlow": (TENSORFLOW, work),
            "PyTorch DDP": (TORCH["torch"], work),
            "Accelerate": (TORCH["accelerate"], work),
            "Fabric": (TORCH["fabric"], work),
        }
        is_quick = model != "transformer"
        yield Case("2 replicas", name, entries, limits[model], True, is_quick=is_quick)


def train_on_workers():
    limits = {
        "mlp_small": {"JAX, exchange": 1.10, "PyTorch DDP": 0.65, "TensorFlow": 1.0},
        "mlp_large": {"JAX, exchange": 1.10, "PyTorch DDP": 0.95, "TensorFlow": 1.0},
    }

    def two(contender, variant=""):
        return Entry(contender, variant, workers=2, replicas=1)

    for model, (name, _) in MODELS.items():
        work = train(model)
        entries = {
            "Mirrax": (two("mirrax"), work),
            "JAX, psum": (two("jax"), work),
            "JAX, exchange": (two("jax", "exchange"), work),
            "TensorFlow": (two("tensorflow"), work),
            # One process for each replica anyway.
            "PyTorch DDP": (TORCH["torch"], work),
            "Accelerate": (TORCH["accelerate"], work),
            "Fabric": (TORCH["fabric"], work),
        }
        is_quick = model in limits
        yield Case(
            "2 workers", name, entries, limits.get(model, {}), True, is_quick=is_quick
        )


def dispatch():
    for count in (100, 500):
        work = {"kind": "variables", "count": count}
        entries = {"Mirrax": (MIRRAX, work), "JAX": (JAX, work)}
        name = f"step of {count} variables"
        yield Case("dispatch", name, entries, {"JAX": 1.10}, True)
    for model in ("mlp_small", "mlp_large"):
        work = train(model)
        entries = {"Mirrax": (MIRRAX, {**work, "kind": "state"}), "JAX": (JAX, work)}
        name = f"nested arguments, {model.removeprefix('mlp_')} MLP"
        yield Case("dispatch", name, entries, {"JAX": 1.05}, True)
    uneven = {
        "uneven": (MIRRAX, train("mlp_small", rows=192)),
        "even": (MIRRAX, train("mlp_small")),
    }
    yield Case("dispatch", "batch of 192 of 256 rows", uneven, {"even": 2.0})
    loops = {
        "compiled": (MIRRAX, {"kind": "loop", "compiled": True}),
        "Python": (MIRRAX, {"kind": "loop", "compiled": False}),
    }
    yield Case("dispatch", "while of 1,000 steps", loops, {"Python": 0.05}, True)
    work = {"kind": "callback"}
    entries = {"Mirrax": (MIRRAX, work), "JAX": (JAX, work)}
    yield Case("dispatch", "step with a callback", entries, {"JAX": 1.5}, True)
    for name, all_reduce in (("empty run", False), ("run with all_reduce", True)):
        work = {"kind": "eager", "all_reduce": all_reduce}
        entries = {"Mirrax": (MIRRAX, work), "TensorFlow": (TENSORFLOW, work)}
        yield Case("eager", name, entries, {"TensorFlow": 1.0})


def inputs(folder):
    for pipeline, factor in PIPELINES.items():
        work = {"kind": "input", "pipeline": pipeline, "folder": str(folder)}
        entries = {"Mirrax": (MIRRAX, work), "tf.data": (TENSORFLOW, work)}
        yield Case("input", pipeline, entries, {"tf.data": 1 / factor}, True)


def checkpoints():
    for count, size in ((200, 1 << 14), (20, 1 << 20)):
        work = {"kind": "checkpoint", "count": count, "size": size}
        entries = {
            "Mirrax, in background": (MIRRAX, {**work, "asynchronous": True}),
            "Mirrax": (MIRRAX, work),
            "TensorFlow": (TENSORFLOW, work),
            "torch.save": (TORCH["torch"], work),
        }
        name = f"{count} variables, {count * size * 4 >> 20} MiB"
        yield Case("checkpoint", f"save {name}", entries, {"Mirrax": 0.10})
        work = {**work, "kind": "restore"}
        entries = {
            "Mirrax": (MIRRAX, work),
            "TensorFlow": (TENSORFLOW, work),
            "torch.load": (TORCH["torch"], work),
        }
        yield Case("checkpoint", f"restore {name}", entries, are_values_equal=True)


def sharded_state():
    team = Entry("sharded_state", replicas=4)
    for sizes in ([1024] * 7, [64, 64, 64, 16], [784, 128, 10]):
        is_large = sizes[-1] == 1024
        work = {"kind": "mirrax", "sizes": sizes}
        entries = {
            "sharded": (team, {**work, "shard_state": True}),
            "mirrored": (team, {**work, "shard_state": False}),
        }
        limits = {"mirrored": 0.70 if is_large else 1.15}
        if is_large:
            entries["by hand"] = (team, {"kind": "by_hand", "sizes": sizes})
            limits["by hand"] = 1.10
        name = "6 layers of 1024" if is_large else "-".join(map(str, sizes))
        # With mirrored variables, whose new values are computed in parts.
        entries["updates"] = (team, {**work, "shard_state": "updates"})
        yield Case("sharded state, Adam", name, entries, limits, True)


def keras_and_nnx():
    for model in ("mlp_small", "mlp_large"):
        name, batch = MODELS[model]
        work = {"kind": "fit", "model": model, "batch": batch}
        entries = {
            "Mirrax": (Entry("keras", "mirrax"), work),
            "DataParallel": (Entry("keras", "own"), work),
            "TensorFlow": (Entry("keras_tensorflow"), work),
        }
        limits = {"DataParallel": 1.0, "TensorFlow": 1.0}
        is_quick = model == "mlp_small"
        yield Case("Keras fit", name, entries, limits, True, is_quick=is_quick)
    name, batch = MODELS["mlp_small"]
    work = {"kind": "fit", "model": "mlp_small", "batch": batch}
    # `DataParallel` and Keras 3 on TensorFlow have only one process.
    entries = {
        "Mirrax": (Entry("keras", "mirrax", workers=2, replicas=1), work),
        "tf_keras": (Entry("tf_keras", workers=2, replicas=1), work),
    }
    limits = {"tf_keras": 1.0}
    yield Case("Keras fit", f"{name}, 2 workers", entries, limits, True)
    for layers in (2, 30):
        work = {"kind": "nnx", "layers": layers}
        entries = {
            "Mirrax": (Entry("nnx", "mirrax"), work),
            "JAX": (Entry("nnx", "own"), work),
        }
        yield Case("Flax NNX", f"{layers} layers, Adam", entries, {"JAX": 1.10}, True)


def growth(folder):
    for count in (10, 50, 200, 1000, 2000):
        work = {"kind": "variables", "count": count}
        entries = {"Mirrax": (MIRRAX, work), "JAX": (JAX, work)}
        yield Case("by variables", f"{count}", entries, x=count)
    for batch in (32, 128, 512, 2048):
        work = train("mlp_small", batch)
        entries = {"Mirrax": (MIRRAX, work), "JAX": (JAX, work)}
        entries["TensorFlow"] = (TENSORFLOW, work)
        yield Case("by batch", f"{batch}", entries, x=batch)
    for rows in (1_000, 10_000, 100_000):
        work = {"kind": "input", "pipeline": "shuffle, batch", "rows": rows}
        work["folder"] = str(folder)
        entries = {"Mirrax": (MIRRAX, work), "tf.data": (TENSORFLOW, work)}
        yield Case("by dataset", f"{rows}", entries, x=rows)
    for replicas in (1, 2, 4, 8, 16):
        work = train("mlp_small")
        entries = {
            label: (Entry(name, replicas=replicas), work)
            for label, name in NAMES.items()
        }
        yield Case("by replicas", f"{replicas}", entries, x=replicas)
    for workers in (1, 2, 4, 8):
        work = train("mlp_small")
        names = {"Mirrax": "mirrax", "PyTorch DDP": "torch"}
        entries = {
            label: (Entry(name, workers=workers, replicas=1), work)
            for label, name in names.items()
        }
        yield Case("by workers", f"{workers}", entries, x=workers)


START_UP = "start-up"
"""The group of rows without rounds: processes that are started alone."""

START_UPS = {
    replicas: {
        label: Entry(name, replicas=replicas)
        for label, name in {**NAMES, "PyTorch DDP": "torch"}.items()
    }
    for replicas in (1, 2, 4, 8)
}
"""By number of replicas and label: who starts, up to the end of the first step."""

IMPORTS = {"Mirrax": ("mirrax", "mirrax"), "JAX": ("jax", "jax")}
IMPORTS |= {"TensorFlow": ("tensorflow", "tensorflow"), "PyTorch": ("torch", "torch")}
"""By label: the contender whose environment is used, and the module."""
