"""`tf.nn`: activations, losses, convolution, pooling and normalization."""

from mirrax.tf.math.elementwise import sigmoid as sigmoid
from mirrax.tf.math.elementwise import tanh as tanh
from mirrax.tf.math.reductions import in_top_k as in_top_k
from mirrax.tf.math.reductions import l2_normalize as l2_normalize
from mirrax.tf.math.reductions import zero_fraction as zero_fraction
from mirrax.tf.nn.activations import *  # noqa: F403
from mirrax.tf.nn.convolution import *  # noqa: F403
from mirrax.tf.nn.losses import *  # noqa: F403
from mirrax.tf.nn.normalization import *  # noqa: F403
from mirrax.tf.nn.pooling import *  # noqa: F403
from mirrax.tf.nn.selection import *  # noqa: F403
