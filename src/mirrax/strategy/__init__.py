"""Strategies, and functions that return the current one."""

from mirrax.strategy.current import (
    experimental_set_strategy as experimental_set_strategy,
)
from mirrax.strategy.current import get_replica_context as get_replica_context
from mirrax.strategy.current import get_strategy as get_strategy
from mirrax.strategy.current import has_strategy as has_strategy
from mirrax.strategy.current import in_cross_replica_context as in_cross_replica_context
from mirrax.strategy.extended import StrategyExtended as StrategyExtended
from mirrax.strategy.mirrored_strategy import MirroredStrategy as MirroredStrategy
from mirrax.strategy.one_device_strategy import OneDeviceStrategy as OneDeviceStrategy
from mirrax.strategy.strategy import Strategy as Strategy
from mirrax.strategy.strategy import ValueContext as ValueContext
