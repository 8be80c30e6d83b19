"""Decompositions that PyTorch lacks, or has in terms that a functional graph of ATen's operators cannot hold."""

import importlib

from akg_worker.decompositions.registry import OWN

FAMILIES = (
    "bessel",
    "elementwise",
    "errors",
    "gamma",
    "gradients",
    "incomplete",
    "layers",
    "ordering",
    "polynomials",
    "resample",
    "scatter",
    "views",
)

for family in FAMILIES:
    importlib.import_module(f"akg_worker.decompositions.{family}")
