"""`tf.math`."""

from mirrax.tf.math.elementwise import *  # noqa: F403
from mirrax.tf.math.reductions import *  # noqa: F403
from mirrax.tf.math.segments import *  # noqa: F403
from mirrax.tf.nn.activations import log_softmax as log_softmax
from mirrax.tf.nn.activations import softmax as softmax
from mirrax.tf.nn.activations import softplus as softplus
from mirrax.tf.nn.activations import softsign as softsign
from mirrax.tf.nn.selection import top_k as top_k
