"""Keras' `fit` on TensorFlow, with its `MirroredStrategy`."""

import os

from serve import TEAM, serve

ENVIRONMENT = "tensorflow"
REQUIRES = ["tensorflow-cpu==2.21.0"]

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import tensorflow as tf
from keras_fit import make_fit

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * TEAM.replicas,
)
names = [f"CPU:{i}" for i in range(TEAM.replicas)]
serve(fit=make_fit(keras, tf.distribute.MirroredStrategy(names).scope))
