"""`tf.random`: JAX's numbers, which differ from TensorFlow's for the same seed."""

from mirrax.tf.random import experimental as experimental
from mirrax.tf.random.ambient import set_seed as set_seed
from mirrax.tf.random.candidates import (
    log_uniform_candidate_sampler as log_uniform_candidate_sampler,
)
from mirrax.tf.random.candidates import (
    uniform_candidate_sampler as uniform_candidate_sampler,
)
from mirrax.tf.random.generator import Algorithm as Algorithm
from mirrax.tf.random.generator import Generator as Generator
from mirrax.tf.random.generator import get_global_generator as get_global_generator
from mirrax.tf.random.generator import set_global_generator as set_global_generator
from mirrax.tf.random.stateful import *  # noqa: F403
from mirrax.tf.random.stateless import *  # noqa: F403
