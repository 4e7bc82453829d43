"""Strategies: constructors that choose the parts."""

from mirrax.strategy.ambient import (
    experimental_set_strategy as experimental_set_strategy,
)
from mirrax.strategy.ambient import get_replica_context as get_replica_context
from mirrax.strategy.ambient import get_strategy as get_strategy
from mirrax.strategy.ambient import has_strategy as has_strategy
from mirrax.strategy.ambient import in_cross_replica_context as in_cross_replica_context
from mirrax.strategy.extended import StrategyExtended as StrategyExtended
from mirrax.strategy.mirrored import MirroredStrategy as MirroredStrategy
from mirrax.strategy.one_device import OneDeviceStrategy as OneDeviceStrategy
from mirrax.strategy.strategy import Strategy as Strategy
from mirrax.strategy.strategy import ValueContext as ValueContext
