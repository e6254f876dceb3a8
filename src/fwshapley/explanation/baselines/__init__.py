"""What a learned explanation is compared with: other methods for the same model, players and game, behind one verb."""

from fwshapley.explanation.baselines.registry import BASELINES, Baseline, Method, baseline
from fwshapley.explanation.baselines.request import Unweighted

__all__ = ["BASELINES", "Baseline", "Method", "Unweighted", "baseline"]
