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
