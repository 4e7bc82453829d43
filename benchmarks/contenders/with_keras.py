"""Keras' `fit`: on JAX with Mirrax, or with Keras' own `DataParallel`."""

import os

from serve import TEAM, serve, set_jax_devices

os.environ["KERAS_BACKEND"] = "jax"
if TEAM.variant != "mirrax":
    set_jax_devices()
elif TEAM.size > 1:
    os.environ["TF_CONFIG"] = TEAM.tf_config

import keras
from keras_fit import make_fit


def scope():
    if TEAM.variant == "mirrax":
        import mirrax

        if TEAM.size > 1:
            return mirrax.MultiWorkerMirroredStrategy().scope
        names = [f"CPU:{i}" for i in range(TEAM.replicas)]
        return mirrax.MirroredStrategy(names).scope
    devices = [f"cpu:{i}" for i in range(TEAM.replicas)]
    return keras.distribution.DataParallel(devices=devices).scope


serve(fit=make_fit(keras, scope()))
