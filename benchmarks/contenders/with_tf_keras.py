"""`fit` of Keras 2 on TensorFlow's `MultiWorkerMirroredStrategy`.

Keras 3 does not run with it: https://github.com/keras-team/keras/issues/20585.
"""

import os

from serve import TEAM, serve

# `tf-keras` asks for `tensorflow`, which would replace files of `tensorflow-cpu`.
ENVIRONMENT = "tf_keras"
REQUIRES = ["tensorflow==2.21.0", "tf-keras==2.21.0"]

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_CONFIG"] = TEAM.tf_config

import tensorflow as tf
import tf_keras
from keras_fit import make_fit

serve(fit=make_fit(tf_keras, tf.distribute.MultiWorkerMirroredStrategy().scope))
