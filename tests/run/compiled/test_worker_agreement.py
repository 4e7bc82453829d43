"""Two workers compare what they have traced before it runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive

from mirrax.devices.peers import NoPeers
from mirrax.devices.topology import Topology
from mirrax.errors import ProgramMismatch
from mirrax.run.compiled.tracing import trace
from mirrax.run.compiled.workers.worker_agreement import (
    require_same_program,
    with_per_replica_constants,
)

SCALAR = jax.ShapeDtypeStruct((), "float32")


class Named:
    def __init__(self, index):
        self.name = f"worker {index}"


class Job(NoPeers):
    """One of two workers, which are threads."""

    workers = (Named(0), Named(1))
    num_workers = 2

    def __init__(self, index, said, barrier):
        self.worker_index = index
        self._said = said
        self._barrier = barrier

    def exchange(self, topic, payload):
        self._said[self.worker_index] = payload
        self._barrier.wait()
        answers = list(self._said)
        self._barrier.wait()
        return answers


class OneOfTwo(Topology):
    """Two replicas, of which this worker runs one."""

    local_replicas = (0,)


def on_both(fn):
    """Returns what `fn(topology, index)` returns or raises on each of two workers."""
    barrier, said = threading.Barrier(2, timeout=60), [b"", b""]

    def work(index):
        topology = OneOfTwo(tuple(jax.devices()[:2]), job=Job(index, said, barrier))
        try:
            return fn(topology, index)
        except ProgramMismatch as error:
            return error
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, (0, 1)))


def traced(fn):
    """Returns what a replica does with a number."""
    axis_env = [("replica", 2)]
    return trace(lambda x: ([fn(x)], None), [SCALAR], True, axis_env)


def tables(make):
    """Returns what each replica computes of 10, as each of two workers sees it."""

    def work(topology, index):
        same = with_per_replica_constants(traced(make(index)), topology)

        def replica(x):
            return same.evaluate([x], [])[0]

        given = jnp.full(2, 10.0)
        return jax.vmap(replica, axis_name="replica")(given).tolist()

    return on_both(work)


def mismatch(compare, make):
    """Returns the message of both workers, which must be one."""
    first, second = on_both(lambda t, index: compare(traced(make(index)), t))
    assert isinstance(first, ProgramMismatch), first
    assert str(first) == str(second)
    return str(first)


def require(program, topology):
    return require_same_program(program.closed, topology)


def test_a_program_of_one_process_is_compared_with_none():
    program = traced(lambda x: x + 1)
    assert (
        with_per_replica_constants(program, Topology(tuple(jax.devices()[:2])))
        is program
    )


def test_equal_programs_stay_as_they_are():
    def work(topology, index):
        program = traced(lambda x: x * 2 + np.float32(3))
        return with_per_replica_constants(program, topology) is program

    assert on_both(work) == [True, True]


@pytest.mark.parametrize(
    "make",
    [
        lambda index: lambda x: x + (index + 1.0),
        lambda index: lambda x: x + jnp.asarray(np.array([index + 1.0]))[0],
        lambda index: (
            lambda x: jax.jit(lambda y: jnp.sin(y) * 0 + (index + 1.0))(x) + x
        ),
        lambda index: lambda x: jax.jit(lambda y: y + np.full(3, index + 1.0))(x)[0],
    ],
    ids=["number", "array", "in_jit", "array_in_jit"],
)
def test_a_constant_of_each_worker_is_looked_up_by_replica(make):
    assert tables(make) == [[11, 12], [11, 12]]


def test_a_result_that_is_a_constant_is_looked_up():
    assert tables(lambda index: lambda x: jnp.float32(index)) == [[0, 1], [0, 1]]


def test_constants_that_are_equal_stay_beside_those_that_differ():
    def make(index):
        return lambda x: (x + 5.0) * (index + 1.0) + 1.0

    assert tables(make) == [[16, 31], [16, 31]]


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool"])
def test_constants_of_any_dtype_are_looked_up(dtype):
    def make(index):
        constant = np.array([index, 1]).astype(dtype)
        return lambda x: jnp.asarray(constant)[0].astype("float32")

    assert tables(make) == [[0, 1], [0, 1]]


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit], ids=["plain", "in_jit"])
def test_keys_of_each_worker_are_looked_up(wrap):
    def make(index):
        keys = jax.random.split(jax.random.key(index))
        return wrap(lambda x: jax.random.uniform(keys[1]) + x * 0)

    keys = [jax.random.split(jax.random.key(index))[1] for index in (0, 1)]
    expected = [float(jax.random.uniform(key)) for key in keys]
    assert tables(make) == [expected, expected]


def test_a_constant_of_each_worker_in_a_loop_is_refused():
    def make(index):
        def body(total, _):
            return total + (index + 1.0), None

        return lambda x: lax.scan(body, x, None, length=2)[0]

    message = mismatch(with_per_replica_constants, make)
    assert "cannot be used inside a loop or a branch" in message
    assert "one in scan at " in message
    assert "test_worker_agreement.py" in message
    assert "Pass it as an argument of `strategy.run`" in message


@pytest.mark.parametrize(
    "compare", [require, with_per_replica_constants], ids=["program", "replica"]
)
def test_other_steps_are_refused_with_their_places(compare):
    message = mismatch(compare, lambda index: [jnp.cos, jnp.sin][index])
    assert "where worker 0 has `v1:float32[] = cos v0:float32[]" in message
    assert "and worker 1 has `v1:float32[] = sin v0:float32[]" in message
    assert message.count("test_worker_agreement.py") == 2


def test_a_program_that_goes_on_is_refused():
    message = mismatch(require, lambda index: [lambda x: x, lambda x: x + x][index])
    assert "where worker 0 has `outputs ['v0:float32[]']`" in message


def test_other_shapes_and_parameters_are_refused():
    shapes = mismatch(require, lambda index: lambda x: jnp.ones(index + 2) * x)
    assert "float32[2]" in shapes
    assert "float32[3]" in shapes
    parameters = mismatch(
        require, lambda i: lambda x: lax.cumsum(x[None], reverse=bool(i))
    )
    assert "'reverse': False" in parameters
    assert "'reverse': True" in parameters


def test_what_functions_in_parameters_close_over_is_compared():
    primitive = Primitive("opaque")
    primitive.def_abstract_eval(lambda x, does: x)
    message = mismatch(
        require, lambda index: lambda x: primitive.bind(x, does=lambda: index)
    )
    assert "[[('', 0)]]" in message
    assert "[[('', 1)]]" in message


def test_large_arrays_in_parameters_are_compared_whole():
    primitive = Primitive("opaque")
    primitive.def_abstract_eval(lambda x, does: x)

    def make(index):
        large = np.where(np.arange(10_000) == 5_000, index, 0)
        return lambda x: primitive.bind(x, does=lambda: large)

    assert " = opaque " in mismatch(require, make)


def test_values_of_the_enclosing_trace_are_no_constants():
    def work(topology, index):
        def enclosing(weight):
            replica = traced(lambda x: x * weight + index)
            found = with_per_replica_constants(replica, topology)
            assert any(value is weight for value in found.closed.consts)
            return weight

        jax.make_jaxpr(enclosing)(1.0)
        return True

    assert on_both(work) == [True, True]


def test_steps_inside_others_are_compared():
    def make(index):
        return lambda x: lax.cond(x > 0, [jnp.cos, jnp.sin][index], jnp.tan, x)

    message = mismatch(with_per_replica_constants, make)
    assert " = cos " in message
    assert " = sin " in message


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit], ids=["plain", "in_jit"])
def test_a_whole_program_has_the_same_constants(wrap):
    message = mismatch(
        require, lambda index: wrap(lambda x: (x + np.array([index + 1.0, 0])).sum())
    )
    assert "where worker 0 has `constant " in message
    assert "[1. 0.]" in message


def test_equal_programs_have_one_mark_and_others_another():
    def work(topology, index):
        fns = (lambda x: x + 1.0), (lambda x: x + 2.0), (lambda x: x * 1.0)
        return [require(traced(fn), topology) for fn in fns]

    first, second = on_both(work)
    assert first == second
    assert len(set(first)) == 3
    assert {len(mark) for mark in first} == {6}


def test_where_objects_lie_in_memory_does_not_count():
    """Each worker has functions of its own, which are printed with their address."""

    def work(topology, index):
        def own(x):
            return x * 2

        return require(traced(lambda x: jax.pure_callback(own, SCALAR, x)), topology)

    first, second = on_both(work)
    assert first == second
