"""Figures. They need matplotlib (`pip install 'fwshapley[plots]'`), take numpy arrays and leave pyplot as it is."""

from fwshapley.plots.bars import plot_bars
from fwshapley.plots.beeswarm import plot_beeswarm
from fwshapley.plots.curves import plot_curves, plot_fidelity, plot_training, plot_values, plot_weights
from fwshapley.plots.dependence import find_partner, plot_dependence
from fwshapley.plots.features import Feature
from fwshapley.plots.figure import COLORS, Errors, new_figure
from fwshapley.plots.images import Captions, ImageStyle, plot_gallery, plot_heat_maps
from fwshapley.plots.importance import plot_importance
from fwshapley.plots.inclusion import Inclusion, animate_inclusion, plot_inclusion
from fwshapley.plots.waterfall import plot_waterfall

__all__ = [
    "COLORS",
    "Captions",
    "Errors",
    "Feature",
    "ImageStyle",
    "Inclusion",
    "animate_inclusion",
    "find_partner",
    "new_figure",
    "plot_bars",
    "plot_beeswarm",
    "plot_curves",
    "plot_dependence",
    "plot_fidelity",
    "plot_gallery",
    "plot_heat_maps",
    "plot_importance",
    "plot_inclusion",
    "plot_training",
    "plot_values",
    "plot_waterfall",
    "plot_weights",
]
