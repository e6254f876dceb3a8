"""What a learned explanation is compared with: other methods for the same model, players and game, behind one verb."""

from fwshapley.baselines.registry import BASELINES, Baseline, Method, baseline
from fwshapley.baselines.request import Unweighted

__all__ = ["BASELINES", "Baseline", "Method", "Unweighted", "baseline"]
