"""Figures. They need matplotlib (`pip install 'fwshapley[plots]'`), take numpy arrays and leave pyplot as it is."""

from fwshapley.plots.bars import plot_bars
from fwshapley.plots.curves import plot_curves, plot_fidelity, plot_training, plot_values, plot_weights
from fwshapley.plots.figure import COLORS, Errors, new_figure
from fwshapley.plots.images import plot_gallery, plot_heat_maps

__all__ = [
    "COLORS",
    "Errors",
    "new_figure",
    "plot_bars",
    "plot_curves",
    "plot_fidelity",
    "plot_gallery",
    "plot_heat_maps",
    "plot_training",
    "plot_values",
    "plot_weights",
]
