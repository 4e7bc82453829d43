"""`tf.test`: programs that test themselves."""

import sys
import unittest

import numpy as np
import pytest

from mirrax import tf


class Comparisons(tf.test.TestCase):
    def test_equal_values_pass(self):
        with self.cached_session() as session:
            self.assertAllEqual(session.run(tf.constant([1, 2])), [1, 2])
        self.assertAllEqual(tf.constant(["a"]), [b"a"])
        self.assertAllEqual(["a", "ü"], tf.constant(["a", "ü"]))
        self.assertAllEqual(tf.constant("a"), "a")
        self.assertAllEqual(tf.ragged.constant([[1], [2, 3]]), [[1], [2, 3]])
        self.assertAllClose({"a": [1.0, (2.0,)]}, {"a": [tf.constant(1.0), (2.0,)]})
        self.assertAllClose(tf.cast([1.5], tf.bfloat16), [1.5])
        self.assertAllCloseAccordingToType(np.float16([1.0]), [1.0005])
        self.assertAllInRange(tf.constant([1, 2]), 1, 2)
        self.assertAllInSet(tf.constant([1, 2]), {1, 2, 3})
        self.assertDTypeEqual(tf.constant(1.0), tf.float32)
        self.assertDictEqual({"a": tf.constant([1.0])}, {"a": np.ones(1)})
        self.assertDeviceEqual("/CPU:0", "/device:CPU:0")
        self.assertEqual(self.evaluate([tf.Variable(2), {"a": tf.constant(1)}])[0], 2)
        self.assertEqual(self.get_temp_dir(), self.get_temp_dir())

    def test_other_values_fail(self):
        with self.assertRaisesRegex(AssertionError, r"expected \(2,\), got \(1,\)"):
            self.assertAllEqual(tf.constant([1, 2]), [1])
        with self.assertRaisesRegex(AssertionError, r"a\['b'\]\[1\] differs"):
            self.assertAllClose({"b": [[1.0], [2.0, 1.0]]}, {"b": [[1.0], [2.0, 3.0]]})
        with self.assertRaisesRegex(AssertionError, "Outside of the range"):
            self.assertAllInRange(tf.constant([1, 2]), 1, 2, open_upper_bound=True)
        self.assertNotAllClose(tf.constant(1.0), 1.1)
        self.assertNotAllEqual(tf.constant([1]), [1, 1])

    def test_errors_are_matched(self):
        with self.assertRaisesWithPredicateMatch(ValueError, "no number"):
            raise ValueError("This is no number.")
        with self.assertRaisesOpError("over"):
            raise tf.errors.OutOfRangeError(None, None, "It is over.")
        thread = self.checkedThread(lambda: 1 // 0)
        thread.start()
        with self.assertRaisesRegex(AssertionError, "division"):
            thread.join()

    def test_every_test_starts_with_the_same_seeds(self):
        first = tf.random.uniform([])
        self.setUp()
        self.assertAllEqual(first, tf.random.uniform([]))


def test_numeric_gradient_is_near_the_exact_one():
    exact, numeric = tf.test.compute_gradient(
        lambda x, y: tf.matmul(x, y) ** 2, [np.ones([1, 2], np.float32), [[2.0], [3.0]]]
    )
    assert [part.shape for part in exact] == [(1, 2), (1, 2)]
    np.testing.assert_allclose(exact[0], [[20, 30]])
    np.testing.assert_allclose(np.hstack(numeric), np.hstack(exact), rtol=1e-3)


def test_main_runs_the_tests_of_the_program(monkeypatch, capsys):
    class Failing(tf.test.TestCase):
        def test_equality(self):
            self.assertAllEqual(1, 2)

    result = unittest.TestResult()
    Failing("test_equality").run(result)
    assert len(result.failures) == 1
    monkeypatch.setitem(vars(sys.modules["__main__"]), "Failing", Failing)
    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(SystemExit):
        tf.test.main()
    assert "FAILED" in capsys.readouterr().err
