from .ensemble import TreeEnsemble
from .reading import read_model

__all__ = ["TreeEnsemble", "read_model"]
