"""`tf.data.experimental.SqlDataset`."""

import contextlib
import sqlite3

import pytest

from mirrax import tf


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "people.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE people (name TEXT, age INTEGER, size REAL)")
        rows = [("Ann", 31, 1.5), ("Bob", None, 2.5)]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        connection.commit()
    return path


def read(path, query, types, driver="sqlite"):
    dataset = tf.data.experimental.SqlDataset(driver, path, query, types)
    return [tuple(x.numpy() for x in row) for row in dataset]


def test_rows_of_a_query_are_elements(database):
    query = "SELECT name, age, size FROM people ORDER BY name"
    rows = read(database, query, (tf.string, tf.int32, tf.float64))
    assert rows == [(b"Ann", 31, 1.5), (b"Bob", 0, 2.5)]


def test_numbers_get_the_wanted_type(database):
    query = "SELECT age, age, age FROM people WHERE name = 'Ann'"
    ((flag, narrow, text),) = read(database, query, (tf.bool, tf.uint8, tf.string))
    assert (flag.dtype, narrow.dtype) == (bool, "uint8")
    assert (flag, narrow, text) == (True, 31, b"31")


@pytest.mark.parametrize("blob", ["00616263ff", "616200", ""])
def test_blobs_are_their_bytes(database, blob):
    # As TensorFlow 2.21.
    assert read(database, f"SELECT x'{blob}'", (tf.string,)) == [(bytes.fromhex(blob),)]


def test_text_with_digits_is_a_number(database):
    rows = read(database, "SELECT '12', '1.5'", (tf.int32, tf.float32))
    assert rows == [(12, 1.5)]


def test_errors_in_later_rows_are_those_of_tensorflow(database):
    query = "SELECT abs(-9223372036854775807 - column1) FROM (VALUES (0), (1))"
    with pytest.raises(tf.errors.UnknownError, match="integer overflow"):
        read(database, query, (tf.int64,))


@pytest.mark.parametrize(
    ("query", "driver", "error", "message"),
    [
        ("SELECT name FROM people", "oracle", "InvalidArgumentError", 'must be "sql'),
        ("SELECT name, age FROM people", "sqlite", "InvalidArgumentError", "1 types"),
        ("SELECT height FROM people", "sqlite", "UnknownError", "no such column"),
    ],
    ids=["driver", "columns", "query"],
)
def test_errors_say_what_was_received(database, query, driver, error, message):
    with pytest.raises(getattr(tf.errors, error), match=message):
        read(database, query, (tf.string,), driver)


@pytest.mark.parametrize("text", ["12x", "abc"])
def test_text_that_is_no_number_is_refused(database, text):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"must hold.*{text}.*CAST"
    ):
        read(database, f"SELECT '{text}'", (tf.int32,))


def test_databases_that_cannot_be_opened_are_errors_of_tensorflow(tmp_path):
    with pytest.raises(tf.errors.UnknownError, match="unable to open"):
        read(str(tmp_path), "SELECT 1", (tf.int32,))
