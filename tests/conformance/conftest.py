"""The conformance cases were recorded with exactly 4 CPU devices."""

import mirrax
from tests.conformance.check import NUM_DEVICES
from tests.conformance.supported import supported_cases, unsupported_cases

# Replaces the choice of tests/conftest.py, which pytest has loaded just before.
mirrax.config.set_logical_devices("CPU", NUM_DEVICES)


def pytest_report_header():
    waiting = unsupported_cases()
    total = len(waiting) + len(supported_cases())
    return f"conformance: {len(waiting)} of {total} cases are not supported yet"
