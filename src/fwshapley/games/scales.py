"""Scales of the value of a coalition. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Output = Literal["probability", "logit", "label_probability", "label_logit", "raw"]
"""Value of a coalition: the probability or log odds of mutually exclusive classes, or of independent labels; or the
model's raw outputs."""

Kind = Literal["classes", "labels", "values"]
"""What a network's outputs are: logits of classes, logits of independent yes/no labels, or plain values."""

KINDS: Mapping[Output, Kind] = {
    "probability": "classes",
    "logit": "classes",
    "label_probability": "labels",
    "label_logit": "labels",
    "raw": "values",
}
