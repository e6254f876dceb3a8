"""Where an ONNX file of an explainer says what it contains. Nothing here imports torch, onnx or onnxruntime."""

from __future__ import annotations

FACTS_KEY = "fwshapley"
"""Key of the facts, as JSON, in the metadata of the file."""

FORMAT = 1
"""Of the facts and of the inputs and outputs of the graph."""

EXPLAINER, SURROGATE = "explainer", "surrogate"
"""Kinds of files."""
