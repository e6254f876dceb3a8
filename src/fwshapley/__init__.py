"""Weighted Shapley values: exact, sampled with standard errors, or predicted in one forward pass.

The public names are listed in `__init__.pyi`; each is imported when it is first used.
"""

import lazy_loader

import fwshapley._internal.openmp  # noqa: F401 - sets OpenMP's waiting policy before torch is imported

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
