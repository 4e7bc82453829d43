"""`tf.random.experimental`: names that are not experimental any more."""

from mirrax.tf.absent import names_of
from mirrax.tf.random.generator import Algorithm as Algorithm
from mirrax.tf.random.generator import Generator as Generator
from mirrax.tf.random.global_generator import (
    get_global_generator as get_global_generator,
)
from mirrax.tf.random.global_generator import (
    set_global_generator as set_global_generator,
)
from mirrax.tf.random.stateless import fold_in as stateless_fold_in
from mirrax.tf.random.stateless import split as stateless_split
from mirrax.tf.random.stateless import stateless_shuffle as stateless_shuffle

__all__ = [
    "Algorithm",
    "Generator",
    "get_global_generator",
    "set_global_generator",
    "stateless_fold_in",
    "stateless_shuffle",
    "stateless_split",
]

__getattr__ = names_of("tf.random.experimental")
