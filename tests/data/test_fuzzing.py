"""Damaged files and states: documented errors, no hang, little memory."""

import contextlib
import itertools

import numpy as np
import pytest

import mirrax
from mirrax.data import Dataset, TFRecordDataset, TFRecordWriter
from mirrax.data.iterator import seal
from mirrax.errors import DataLossError
from tests.data import fuzzing, plans
from tests.data.plans import through_json
from tests.programs import mirrored


def generated():
    return Dataset.from_generator(
        lambda: iter(range(20)), Dataset.range(1).element_spec
    )


PLANS = {
    "range": lambda: Dataset.range(20),
    "shuffled": lambda: Dataset.range(20).shuffle(5, seed=1).batch(3),
    "repeated": lambda: Dataset.range(20).shuffle(20, seed=1).repeat().batch(3),
    "generated": lambda: generated().batch(2),
    "interleaved": lambda: (
        Dataset.range(4).interleave(lambda n: Dataset.range(5), cycle_length=2).batch(2)
    ),
    "mixed": lambda: Dataset.sample_from_datasets(
        [generated(), Dataset.range(20)], [0.5, 0.5], seed=1
    ),
    "windows": lambda: generated().window(3).flat_map(lambda w: w.batch(3)),
    "cached": lambda: generated().cache().take(15).concatenate(Dataset.range(3)),
}


def state_of(make, count=4):
    iterator = iter(make())
    for _ in range(count):
        next(iterator)
    return through_json(iterator.save_state())


def try_to_restore(make, state):
    """Restores, or raises a documented error and stays in place."""
    iterator = iter(make())
    first = np.asarray(next(iterator)).tolist()
    again = iter(make())
    try:
        again.restore_state(state)
        list(itertools.islice(again, 30))
    except ValueError:
        assert np.asarray(next(again)).tolist() == first


@pytest.mark.parametrize("name", PLANS)
def test_damaged_states_of_iterators_are_refused(name):
    good = state_of(PLANS[name])
    with fuzzing.limits():
        for state in fuzzing.damaged_json(good, 20):
            if state != good:
                with pytest.raises(ValueError, match="must come from `save_state`"):
                    iter(PLANS[name]()).restore_state(state)


@pytest.mark.parametrize("name", PLANS)
def test_states_of_other_datasets_are_refused_or_fit(name):
    with fuzzing.limits():
        for make in PLANS.values():
            try_to_restore(PLANS[name], state_of(make))


def crafted(state, count):
    """Yields `count` damaged states whose checksums are right."""
    state = {k: v for k, v in state.items() if k not in ("version", "checksum")}
    damaged = fuzzing.damaged_json(state, count)
    return (seal(made) for made in damaged if isinstance(made, dict))


@pytest.mark.parametrize("name", [*PLANS, *plans.STEPS])
def test_crafted_states_with_right_checksums_are_refused_or_fit(name):
    def make():
        if name in PLANS:
            return PLANS[name]()
        return plans.STEPS[name](Dataset.range(20), 7, 3)

    with fuzzing.limits():
        for count in (0, 2):
            for state in crafted(state_of(make, count), 20):
                try_to_restore(make, state)


@pytest.mark.parametrize("policy", ["DATA", "OFF"])
def test_crafted_states_of_distributed_datasets_are_refused_or_fit(policy):
    options = mirrax.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    batches = Dataset.range(40).shuffle(40, seed=1).batch(4).with_options(options)
    distributed = mirrored(2).experimental_distribute_dataset(batches)
    iterator = iter(distributed)
    next(iterator)
    good = through_json(iterator.save_state())
    with fuzzing.limits():
        for state in crafted(good, 60):
            again = iter(distributed)
            with contextlib.suppress(ValueError):
                again.restore_state(state)
                list(itertools.islice(again, 12))


def test_damaged_states_of_distributed_datasets_are_refused():
    strategy = mirrored(2)
    batches = Dataset.range(40).shuffle(40, seed=1).batch(4)
    distributed = strategy.experimental_distribute_dataset(batches)
    iterator = iter(distributed)
    next(iterator)
    good = through_json(iterator.save_state())
    with fuzzing.limits():
        for state in fuzzing.damaged_json(good, 30):
            if state != good:
                with pytest.raises(ValueError, match="must come from `save_state`"):
                    iter(distributed).restore_state(state)


def read_or_lose(read):
    with contextlib.suppress(DataLossError):
        read()


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_damaged_record_files_raise_data_loss(tmp_path, compression):
    file = str(tmp_path / "records")
    with TFRecordWriter(file, compression) as writer:
        for size in (0, 5, 300):
            writer.write(bytes(range(256))[:size])
    good = (tmp_path / "records").read_bytes()
    with fuzzing.limits():
        for data in fuzzing.damaged_bytes(good, 100):
            (tmp_path / "records").write_bytes(data)
            read_or_lose(lambda: list(TFRecordDataset(file, compression)))


def test_long_records_of_compressed_files_are_read(tmp_path):
    file = str(tmp_path / "long")
    record = np.random.default_rng(0).bytes(5 << 20)
    with TFRecordWriter(file, "GZIP") as writer:
        writer.write(record)
    assert [bytes(found) for found in TFRecordDataset(file, "GZIP")] == [record]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_elements_with_right_checksums_and_wrong_contents_raise_data_loss(
    tmp_path, index
):
    data = Dataset.from_tensor_slices({"x": np.arange(6.0), "s": [b"a", b"bcd"] * 3})
    data.save(tmp_path)
    file = str(tmp_path / "mirrax-elements")
    records = [bytes(record) for record in TFRecordDataset(file)]
    with fuzzing.limits():
        for damaged in fuzzing.damaged_bytes(records[index], 100):
            with TFRecordWriter(file) as writer:
                for i, record in enumerate(records):
                    writer.write(damaged if i == index else record)
            read_or_lose(lambda: list(Dataset.load(tmp_path)))


def test_damaged_examples_raise_data_loss():
    feature = mirrax.data.example.Feature
    features = {
        "i": feature(int64_list=mirrax.data.example.Int64List(value=[1, 300])),
        "f": feature(float_list=mirrax.data.example.FloatList(value=[0.5, 1.5])),
        "s": feature(bytes_list=mirrax.data.example.BytesList(value=[b"ab"])),
    }
    made = mirrax.data.Example(mirrax.data.example.Features(feature=features))
    spec = {
        "i": mirrax.data.FixedLenFeature([2], np.int64),
        "f": mirrax.data.VarLenFeature(np.float32),
        "s": mirrax.data.FixedLenFeature([], object),
    }
    with fuzzing.limits():
        for data in fuzzing.damaged_bytes(made.SerializeToString(), 300):
            with contextlib.suppress(ValueError):
                mirrax.data.parse_single_example(data, spec)
