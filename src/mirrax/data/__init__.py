"""Datasets."""

from mirrax.data.dataset import Dataset as Dataset
