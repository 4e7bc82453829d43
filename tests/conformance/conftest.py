"""The conformance cases were recorded with exactly 4 CPU devices."""

import mirrax
from tests.conformance.check import NUM_DEVICES

# Replaces the choice of tests/conftest.py, which pytest has loaded just before.
mirrax.config.set_logical_devices("CPU", NUM_DEVICES)
