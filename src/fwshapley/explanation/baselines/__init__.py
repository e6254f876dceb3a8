"""Other explanation methods for the same model, players and game, with one interface, to compare with."""

from fwshapley.explanation.baselines.registry import BASELINES, Baseline, BaselineMethod, baseline

__all__ = ["BASELINES", "Baseline", "BaselineMethod", "baseline"]
