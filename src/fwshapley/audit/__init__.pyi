from .label_audit import LabelAudit
from .photo_network import photo_features
from .review.corrections import apply_decisions
from .review.decisions import Decision, read_decisions
from .review.page import write_review
from .review.points import ReviewNeighbor, ReviewPoint

__all__ = [
    "Decision",
    "LabelAudit",
    "ReviewNeighbor",
    "ReviewPoint",
    "apply_decisions",
    "photo_features",
    "read_decisions",
    "write_review",
]
