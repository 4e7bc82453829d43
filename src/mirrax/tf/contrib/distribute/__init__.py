"""`tf.contrib.distribute` of TensorFlow 1.11, where a replica is called a tower."""

import mirrax
from mirrax.tf.contrib.distribute.distribution import (
    MultiStepContext as MultiStepContext,
)
from mirrax.tf.contrib.distribute.strategies import (
    DistributionStrategy as DistributionStrategy,
)
from mirrax.tf.contrib.distribute.strategies import MirroredStrategy as MirroredStrategy
from mirrax.tf.contrib.distribute.strategies import (
    OneDeviceStrategy as OneDeviceStrategy,
)
from mirrax.tf.contrib.distribute.tower_context import TowerContext as TowerContext
from mirrax.tf.contrib.distribute.tower_context import (
    get_cross_tower_context as get_cross_tower_context,
)
from mirrax.tf.contrib.distribute.tower_context import (
    get_distribution_strategy as get_distribution_strategy,
)
from mirrax.tf.contrib.distribute.tower_context import (
    get_tower_context as get_tower_context,
)
from mirrax.tf.contrib.distribute.tower_context import (
    has_distribution_strategy as has_distribution_strategy,
)
from mirrax.tf.contrib.distribute.tower_context import (
    in_cross_tower_context as in_cross_tower_context,
)

CrossTowerOps = mirrax.CrossDeviceOps
ReductionToOneDeviceCrossTowerOps = mirrax.ReductionToOneDevice
