"""The base class of unit tests."""

from __future__ import annotations

import contextlib
import os
import random as python_random
import re
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from typing_extensions import override

from mirrax.tf import errors
from mirrax.tf.device_specs import DeviceSpec
from mirrax.tf.random import set_seed
from mirrax.tf.test.comparisons import (
    as_array,
    assert_close,
    assert_equal,
    evaluated,
    tolerances_of,
)

_SEED = 87654321


def _test_module() -> Any:
    """Returns absl's test module, or Python's if absl is not installed."""
    try:
        from absl.testing import absltest
    except ImportError:
        return unittest
    return absltest


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the tests of the program and exits."""
    _test_module().main(argv=None if argv is None else list(argv))
    raise AssertionError("`main` exits.")


def get_temp_dir() -> str:
    """Returns the directory for files of tests."""
    path = os.environ.get("TEST_TMPDIR") or tempfile.gettempdir()
    os.makedirs(path, exist_ok=True)
    return path


class EagerSession:
    """What `session` of a test case gives: there is no graph, so values are there."""

    def run(self, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns NumPy's values of tensors."""
        return evaluated(fetches)


class CheckedThread(threading.Thread):
    """A thread whose `join` raises the error that it ended with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._error: Exception | None = None

    @override
    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            self._error = error

    @override
    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if self._error is not None:
            raise AssertionError(f"Error in a thread: {self._error}") from self._error


class TestCase(_test_module().TestCase):  # type: ignore[misc]
    """`unittest.TestCase`, or absl's if it is installed, with comparisons of tensors.

    Each test starts with the same random seeds.
    """

    @override
    def setUp(self) -> None:
        super().setUp()
        python_random.seed(_SEED)
        np.random.seed(_SEED)
        set_seed(_SEED)

    def get_temp_dir(self) -> str:
        """Returns the directory of this test."""
        found: str | None = self.__dict__.get("_temp_dir")
        if found is None:
            found = self.__dict__["_temp_dir"] = tempfile.mkdtemp(dir=get_temp_dir())
        return found

    def evaluate(self, tensors: Any) -> Any:
        """Returns NumPy's values of the tensors in a structure."""
        return evaluated(tensors)

    @contextlib.contextmanager
    def session(self, *args: Any, **kwargs: Any) -> Iterator[EagerSession]:
        yield EagerSession()

    cached_session = session

    def test_session(self, *args: Any, **kwargs: Any) -> Any:
        # Its name is that of a test, so runners call it as one.
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        return self.session()

    def checkedThread(
        self,
        target: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> CheckedThread:
        return CheckedThread(target=target, args=args or (), kwargs=kwargs or {})

    def assertAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        assert_equal(a, b, msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        with self.assertRaises(AssertionError, msg=msg):
            assert_equal(a, b)

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None
    ) -> None:
        """Compares two structures of numbers."""
        assert_close(a, b, rtol, atol, msg or "")

    def assertNotAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None
    ) -> None:
        with self.assertRaises(AssertionError, msg=msg):
            assert_close(a, b, rtol, atol)

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: Any = None,
    ) -> None:
        """Compares two arrays, with the largest tolerances of their types."""
        first, second = as_array(a), as_array(b)
        of_type = {
            "": (0.0, 0.0),
            "float": (float_rtol, float_atol),
            "half": (half_rtol, half_atol),
            "bfloat16": (bfloat16_rtol, bfloat16_atol),
        }
        pairs = [of_type[tolerances_of(x.dtype)] for x in (first, second)]
        rtol, atol = (max(values) for values in zip((rtol, atol), *pairs))
        assert_close(first, second, rtol, atol, msg or "")

    def assertNear(self, f1: Any, f2: Any, err: float, msg: Any = None) -> None:
        assert_close(np.squeeze(as_array(f1)), np.squeeze(as_array(f2)), 0, err, msg)

    def assertArrayNear(
        self, farray1: Any, farray2: Any, err: float, msg: Any = None
    ) -> None:
        assert_close(farray1, farray2, 0, err, msg or "")

    def assertNDArrayNear(
        self, ndarray1: Any, ndarray2: Any, err: float, msg: Any = None
    ) -> None:
        distance = np.linalg.norm(as_array(ndarray1) - as_array(ndarray2))
        self.assertLess(distance, err, msg)

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        self.assertGreater(as_array(a).min(), comparison_target)

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        self.assertGreaterEqual(as_array(a).min(), comparison_target)

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        self.assertLess(as_array(a).max(), comparison_target)

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        self.assertLessEqual(as_array(a).max(), comparison_target)

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        found = as_array(target)
        above = found > lower_bound if open_lower_bound else found >= lower_bound
        below = found < upper_bound if open_upper_bound else found <= upper_bound
        outside = found[~(above & below)]
        self.assertEqual(
            outside.size,
            0,
            f"Outside of the range from {lower_bound} to {upper_bound}: {outside}",
        )

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        others = np.setdiff1d(as_array(target), evaluated(list(expected_set)))
        self.assertEqual(others.size, 0, f"Not in {expected_set}: {others}")

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        self.assertEqual(as_array(target).dtype, expected_dtype)

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: Any = None) -> None:
        self.assertEqual(tuple(input_a.shape), tuple(input_b.shape), msg)

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: Any = None) -> None:
        specs = [DeviceSpec.from_string(str(x or "")) for x in (device1, device2)]
        self.assertEqual(specs[0], specs[1], msg)

    @override
    def assertDictEqual(self, d1: Any, d2: Any, msg: Any = None) -> None:
        """Compares two dicts, whose values can be tensors."""
        self.assertEqual(set(d1), set(d2), msg)
        for key in d1:
            is_float = as_array(d1[key]).dtype.kind == "f"
            compare = self.assertAllClose if is_float else self.assertAllEqual
            compare(d1[key], d2[key], msg=msg or key)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: Any, expected_err_re_or_predicate: Any
    ) -> Iterator[None]:
        """Expects an error whose text matches, or for which a function returns true."""
        expected = expected_err_re_or_predicate
        with self.assertRaises(exception_type) as context:
            yield
        error = context.exception
        is_expected = (
            expected(error) if callable(expected) else re.search(expected, str(error))
        )
        self.assertTrue(is_expected, f"Not as expected ({expected}): {error!r}")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        return self.assertRaisesWithPredicateMatch(
            errors.OpError, expected_err_re_or_predicate
        )

    assertItemsEqual = unittest.TestCase.assertCountEqual
    assertRaisesRegexp = unittest.TestCase.assertRaisesRegex
