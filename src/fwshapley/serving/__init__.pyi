from .exported_explainer import ExportedExplainer
from .onnx_file import load_onnx

__all__ = ["ExportedExplainer", "load_onnx"]
