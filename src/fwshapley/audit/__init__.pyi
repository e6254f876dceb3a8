from .label_audit import LabelAudit

__all__ = ["LabelAudit"]
