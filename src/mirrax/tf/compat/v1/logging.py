"""`tf.compat.v1.logging`: Python's logger named "tensorflow"."""

from __future__ import annotations

import logging

DEBUG, INFO, WARN, ERROR, FATAL = 10, 20, 30, 40, 50

_logger = logging.getLogger("tensorflow")

debug = _logger.debug
info = _logger.info
warn = warning = _logger.warning
error = _logger.error
fatal = _logger.critical
get_verbosity = _logger.getEffectiveLevel
set_verbosity = _logger.setLevel
