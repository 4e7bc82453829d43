"""`tf.random.experimental`: older names of `tf.random`."""

from mirrax.tf.random import stateless
from mirrax.tf.random.generator import Algorithm as Algorithm
from mirrax.tf.random.generator import Generator as Generator
from mirrax.tf.random.generator import get_global_generator as get_global_generator
from mirrax.tf.random.generator import set_global_generator as set_global_generator
from mirrax.tf.random.stateless import stateless_shuffle as stateless_shuffle

stateless_fold_in = stateless.fold_in
stateless_split = stateless.split
