"""Random replica programs, and what plain NumPy says that they compute.

A program is a list of steps on a pool of values. It runs in two ways: on the replicas
of a strategy, and here, replica by replica, in NumPy. Both must agree.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

import mirrax

WIDTH = 3
SYNCHRONIZATION = mirrax.VariableSynchronization
AGGREGATION = mirrax.VariableAggregation

ENGINES = ("eager", "compiled", "around")
"""A plain function, a `function` given to `run`, and a `function` around `run`.

The last one captures what the others get as arguments beside the batch.
"""


@dataclasses.dataclass(frozen=True)
class Program:
    """A random program.

    Args:
        seed: What it is made from.
        rows: How many rows the global batch has.
        steps: The names of its steps, each with a random number for its choices.
    """

    seed: int
    rows: int
    steps: tuple[tuple[str, int], ...]

    @classmethod
    def make(cls, seed, num_steps=6):
        random = np.random.default_rng(seed)
        names = sorted(STEPS)
        steps = [
            (names[random.integers(len(names))], int(random.integers(1 << 30)))
            for _ in range(num_steps)
        ]
        return cls(seed, int(random.integers(1, 11)), tuple(steps))

    @property
    def batch(self):
        random = np.random.default_rng(self.seed + 1)
        return random.normal(size=(self.rows, WIDTH)).astype(np.float32)


class State:
    """Values of all replicas at once, in NumPy: what a program must compute."""

    def __init__(self, parts):
        self.count = len(parts)
        self.rows = [[part] for part in parts]
        self.vectors = [[part.sum(0)] for part in parts]
        self.weight = np.full(WIDTH, 0.5, np.float32)
        self.summed = np.zeros(WIDTH, np.float32)
        self.meaned = np.zeros(WIDTH, np.float32)
        self.seen = [np.zeros(WIDTH, np.float32) for _ in parts]

    def reduce(self, op, values):
        total = functools.reduce(np.add, values)
        return total / self.count if op == "MEAN" else total


class Replica:
    """The same values as one replica sees them, with variables of a strategy."""

    def __init__(self, x, variables, constants, given):
        self.rows = [x]
        self.vectors = [x.sum(0)]
        self.weight, self.summed, self.meaned, self.seen = variables
        self.constants = constants
        self.given = given

    def reduce(self, op, value):
        return mirrax.get_replica_context().all_reduce(op, value)


def _pick(values, number):
    return values[number % len(values)]


def scale(state, number):
    factor = 0.5 + number % 3
    if isinstance(state, Replica):
        state.rows.append(_pick(state.rows, number) * factor)
    else:
        for own in state.rows:
            own.append(_pick(own, number) * np.float32(factor))


def squash(state, number):
    if isinstance(state, Replica):
        state.rows.append(jnp.tanh(_pick(state.rows, number)))
    else:
        for own in state.rows:
            own.append(np.tanh(_pick(own, number)))


def sum_rows(state, number):
    if isinstance(state, Replica):
        state.vectors.append(_pick(state.rows, number).sum(0))
    else:
        for own, vectors in zip(state.rows, state.vectors, strict=True):
            vectors.append(_pick(own, number).sum(0))


def all_reduce(state, number):
    op = ("SUM", "MEAN")[number % 2]
    if isinstance(state, Replica):
        state.vectors.append(state.reduce(op, _pick(state.vectors, number)))
    else:
        reduced = state.reduce(op, [_pick(own, number) for own in state.vectors])
        for own in state.vectors:
            own.append(reduced)


def all_gather(state, number):
    if isinstance(state, Replica):
        context = mirrax.get_replica_context()
        gathered = context.all_gather(_pick(state.rows, number), axis=0)
        state.vectors.append(gathered.sum(0) + gathered.shape[0])
    else:
        gathered = np.concatenate([_pick(own, number) for own in state.rows])
        for own in state.vectors:
            own.append(gathered.sum(0) + np.float32(gathered.shape[0]))


def multiply_by_weight(state, number):
    if isinstance(state, Replica):
        state.rows.append(_pick(state.rows, number) * state.weight)
    else:
        for own in state.rows:
            own.append(_pick(own, number) * state.weight)


def update_weight(state, number):
    if isinstance(state, Replica):
        change = jnp.tanh(state.reduce("SUM", _pick(state.vectors, number)))
        state.weight.assign_sub(0.1 * change)
    else:
        total = state.reduce("SUM", [_pick(own, number) for own in state.vectors])
        state.weight = state.weight - np.float32(0.1) * np.tanh(total)


def train_weight(state, number):
    """A gradient step on a loss over all rows of all replicas."""
    if isinstance(state, Replica):
        x = _pick(state.rows, number)

        def loss():
            return jnp.sum(jnp.tanh(x * state.weight))

        _, gradient = mirrax.value_and_grad(loss, state.weight)()
        state.weight.assign_sub(0.01 * state.reduce("SUM", gradient))
    else:
        gradients = [
            (x * (1 - np.tanh(x * state.weight) ** 2)).sum(0)
            for x in (_pick(own, number) for own in state.rows)
        ]
        step = np.float32(0.01) * state.reduce("SUM", gradients)
        state.weight = state.weight - step


def aggregate(state, number):
    """Writes of varying values to variables with an aggregation."""
    if isinstance(state, Replica):
        value = jnp.tanh(_pick(state.vectors, number))
        state.summed.assign(value)
        state.meaned.assign_add(value)
    else:
        values = [np.tanh(_pick(own, number)) for own in state.vectors]
        state.summed = state.reduce("SUM", values)
        state.meaned = state.meaned + state.reduce("MEAN", values)


def count(state, number):
    """Writes to a variable that is combined when it is read."""
    if isinstance(state, Replica):
        state.seen.assign_add(jnp.tanh(_pick(state.vectors, number)))
    else:
        state.seen = [
            seen + np.tanh(_pick(own, number))
            for seen, own in zip(state.seen, state.vectors, strict=True)
        ]


def add_replica_id(state, number):
    if isinstance(state, Replica):
        index = mirrax.get_replica_context().replica_id_in_sync_group
        state.vectors.append(_pick(state.vectors, number) + index)
    else:
        for index, own in enumerate(state.vectors):
            own.append(_pick(own, number) + np.float32(index))


def add_constant(state, number):
    """Values that the function closes over: an array, and one per replica."""
    if isinstance(state, Replica):
        state.vectors.append(_pick(state.vectors, number) + state.constants)
    else:
        for own in state.vectors:
            own.append(_pick(own, number) + CONSTANT)


def call_back(state, number):
    if isinstance(state, Replica):
        value = _pick(state.vectors, number)
        kind = jax.ShapeDtypeStruct(value.shape, value.dtype)
        state.vectors.append(jax.pure_callback(_round, kind, value))
    else:
        for own in state.vectors:
            own.append(_round(_pick(own, number)))


def add_noise(state, number):
    key = jax.random.key(number % 1000)
    if isinstance(state, Replica):
        noise = jax.random.normal(mirrax.random.replica_key(key), (WIDTH,))
        state.vectors.append(_pick(state.vectors, number) + noise)
    else:
        for index, own in enumerate(state.vectors):
            noise = jax.random.normal(jax.random.fold_in(key, index), (WIDTH,))
            own.append(_pick(own, number) + np.asarray(noise))


def add_given(state, number):
    """Arguments, or captured values: plain ones, and one of an earlier `run`."""
    if isinstance(state, Replica):
        bias, (scale, offset) = state.given["bias"], state.given["nested"]
        state.vectors.append(_pick(state.vectors, number) * scale + bias + offset)
    else:
        for index, own in enumerate(state.vectors):
            moved = _pick(own, number) * np.float32(SCALE)
            own.append(moved + CONSTANT + np.float32(index + 1) * CONSTANT)


def draw(state, number):
    """Random numbers from a typed key that is an argument, or captured."""
    if isinstance(state, Replica):
        key = mirrax.random.replica_key(state.given["key"])
        noise = jax.random.uniform(key, (WIDTH,))
        state.vectors.append(_pick(state.vectors, number) + noise)
    else:
        for index, own in enumerate(state.vectors):
            key = jax.random.fold_in(jax.random.key(KEY), index)
            noise = np.asarray(jax.random.uniform(key, (WIDTH,)))
            own.append(_pick(own, number) + noise)


def average(state, number):
    """The gradient of the mean over all rows, in functional code."""
    if isinstance(state, Replica):
        x = _pick(state.rows, number)

        def share(weight):
            return mirrax.nn.compute_average_loss(jnp.sin(x * weight))

        gradient = jax.grad(share)(jnp.ones(WIDTH))
        state.vectors.append(state.reduce("SUM", gradient))
    else:
        x = np.concatenate([_pick(own, number) for own in state.rows])
        gradient = (x * np.cos(x)).mean(0) / np.float32(WIDTH)
        for own in state.vectors:
            own.append(gradient)


def differentiate_sum(state, number):
    """A gradient through a collective."""
    if isinstance(state, Replica):

        def total(vector):
            return jnp.sum(jnp.sin(state.reduce("SUM", vector)))

        gradient = jax.grad(total)(jnp.tanh(_pick(state.vectors, number)))
        state.vectors.append(gradient)
    else:
        sums = state.reduce("SUM", [np.tanh(_pick(v, number)) for v in state.vectors])
        for own in state.vectors:
            own.append(np.float32(state.count) * np.cos(sums))


def count_by_callback(state, number):
    """A callback whose result depends on what its closure holds."""
    if isinstance(state, Replica):
        rows = np.full(WIDTH, state.rows[0].shape[0], np.float32)
        kind = jax.ShapeDtypeStruct(rows.shape, rows.dtype)
        state.seen.assign_add(jax.pure_callback(lambda: rows, kind))
    else:
        state.seen = [
            seen + np.float32(own[0].shape[0])
            for seen, own in zip(state.seen, state.rows, strict=True)
        ]


def branch(state, number):
    if isinstance(state, Replica):
        value = _pick(state.vectors, number)
        state.vectors.append(jax.lax.cond(value[0] > 0, jnp.tanh, jnp.abs, value))
    else:
        for own in state.vectors:
            value = _pick(own, number)
            own.append(np.tanh(value) if value[0] > 0 else np.abs(value))


def loop(state, number):
    if isinstance(state, Replica):
        start = _pick(state.vectors, number)
        body = lambda carry, _: (jnp.tanh(carry) + 0.5, None)  # noqa: E731
        state.vectors.append(jax.lax.scan(body, start, None, length=3)[0])
    else:
        for own in state.vectors:
            value = _pick(own, number)
            for _ in range(3):
                value = np.tanh(value) + np.float32(0.5)
            own.append(value)


def _round(value):
    return np.round(np.asarray(value) * 4).astype(np.float32) / 4


CONSTANT = np.arange(WIDTH, dtype=np.float32)
SCALE, KEY = 0.25, 7
STEPS = {
    step.__name__: step
    for step in (
        scale,
        squash,
        sum_rows,
        all_reduce,
        all_gather,
        multiply_by_weight,
        update_weight,
        train_weight,
        aggregate,
        count,
        add_replica_id,
        add_constant,
        call_back,
        add_noise,
        add_given,
        draw,
        average,
        differentiate_sum,
        count_by_callback,
        branch,
        loop,
    )
}


def expected(program, sizes, num_calls):
    """Returns results and variables that NumPy computes, and a derivative of them.

    Args:
        program: The program.
        sizes: How many rows each replica has.
        num_calls: How often it is called.
    """
    parts = np.split(program.batch, np.cumsum(sizes)[:-1])
    state = State(parts)
    for _ in range(num_calls):
        fresh = State(parts)
        fresh.weight, fresh.summed = state.weight, state.summed
        fresh.meaned, fresh.seen = state.meaned, state.seen
        state = fresh
        for name, number in program.steps:
            STEPS[name](state, number)
    results = [np.tanh(own[-1]) for own in state.vectors]
    seen = functools.reduce(np.add, state.seen)
    total = functools.reduce(np.add, results)
    variables = [state.weight, state.summed, state.meaned, seen]
    return results, [*variables, (state.weight * total).sum(), total]


def actual(program, strategy, engine, num_calls):
    """Returns the same from the replicas of a strategy; results of local ones."""
    with strategy.scope():
        start = np.full(WIDTH, 0.5, np.float32)
        zeros = np.zeros(WIDTH, np.float32)
        variables = [
            mirrax.Variable(start),
            mirrax.Variable(zeros, aggregation=AGGREGATION.SUM),
            mirrax.Variable(zeros, aggregation=AGGREGATION.MEAN),
            mirrax.Variable(
                zeros,
                synchronization=SYNCHRONIZATION.ON_READ,
                aggregation=AGGREGATION.SUM,
                trainable=False,
            ),
        ]
    constants = jnp.asarray(CONSTANT)

    @mirrax.function
    def offset():
        number = mirrax.get_replica_context().replica_id_in_sync_group
        return (number + 1) * constants

    given = {
        "bias": CONSTANT,
        "nested": (SCALE, strategy.run(offset)),
        "key": jax.random.key(KEY),
    }

    def step(x, given):
        state = Replica(x, variables, constants, given)
        for name, number in program.steps:
            STEPS[name](state, number)
        return jnp.tanh(state.vectors[-1])

    def run(fn, x):
        return strategy.run(fn, args=(x, given))

    call = {
        "eager": functools.partial(run, step),
        "compiled": functools.partial(run, mirrax.function(step)),
        "around": mirrax.function(functools.partial(run, step)),
    }[engine]
    dataset = mirrax.data.Dataset.from_tensor_slices(program.batch).batch(program.rows)
    (batch,) = strategy.experimental_distribute_dataset(dataset)
    for _ in range(num_calls):
        result = call(batch)
    derivative = mirrax.value_and_grad(
        functools.partial(_total, strategy, result, variables[0], program.seed % 2),
        variables[0],
    )
    if engine != "eager":
        derivative = mirrax.function(derivative)
    local = strategy.experimental_local_results(result)
    return (
        [np.asarray(part) for part in local],
        [*(v.numpy() for v in variables), *map(np.asarray, derivative())],
    )


def _total(strategy, result, weight, is_gathered):
    """Combines the results of all replicas inside a derivative."""
    if is_gathered:
        whole = strategy.gather(result, axis=0).reshape(-1, WIDTH).sum(0)
    else:
        whole = strategy.reduce("SUM", result, axis=None)
    return jnp.sum(weight * whole)


def check(program, strategy, engine, num_calls=2):
    """Raises unless a strategy computes what NumPy does.

    Args:
        program: The program.
        strategy: The strategy.
        engine: One of `ENGINES`.
        num_calls: How often it is called, with the same batch.
    """
    num_replicas = strategy.num_replicas_in_sync
    size = -(-program.rows // num_replicas)
    left = [program.rows - size * index for index in range(num_replicas)]
    sizes = [min(size, max(0, rest)) for rest in left]
    wanted, wanted_variables = expected(program, sizes, num_calls)
    found, found_variables = actual(program, strategy, engine, num_calls)
    local = strategy.topology.local_replicas
    for got, want in zip(found, [wanted[index] for index in local], strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
    for got, want in zip(found_variables, wanted_variables, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


def check_on_workers(first, count):
    """Returns what went wrong, by seed; all workers of a job call this.

    Args:
        first: The first seed.
        count: How many programs to check.
    """
    strategy = mirrax.MultiWorkerMirroredStrategy()
    failed = {}
    for seed in range(first, first + count):
        engine = ENGINES[seed % len(ENGINES)]
        try:
            check(Program.make(seed), strategy, engine)
        except Exception as error:
            if isinstance(error, mirrax.errors.JobError):
                error.add_note(f"[random program] seed {seed}, {engine}")
                raise
            failed[seed] = f"{engine}: {type(error).__name__}: {error}"
    return failed
