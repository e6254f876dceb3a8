from .ensemble import TreeEnsemble
from .explainer import TreeExplainer
from .model_reader import read_model

__all__ = ["TreeEnsemble", "TreeExplainer", "read_model"]
