"""Pictures of values in a report: of the first inputs, and of all rows of a table."""

from __future__ import annotations

from fwshapley._internal.html import Report
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.learned.feature_explainer import FeatureExplainer
from fwshapley.semivalues import Semivalue


def add_pictures(
    page: Report, explainer: FeatureExplainer, explained: Attribution, weights: Semivalue, *, n_shown: int
) -> None:
    """Add values over the first images under all weightings and what suffices for the first, or pictures of a table.

    Args:
        page: to add them to.
        explainer: plays the games of what suffices.
        explained: under a list of weightings.
        weights: the one of pictures that show a single weighting.
        n_shown: inputs that are drawn.
    """
    is_image = explained.players.is_image
    drawn = explained if is_image else explained.of(weights)
    page.section("Examples").figure(
        drawn.plot(n_shown),
        f"{', '.join(map(str, drawn.weightings))} values, one row per input. Orange players raise the output, blue "
        "players lower it." + " Each image and weighting has its own scale, which the color bars show." * is_image,
    )
    if is_image:
        page.figure(
            explained.plot_inclusion(explainer.game(explained.inputs[0])),
            "What suffices: the first input with more and more of its players shown, those of the largest values "
            "first, and what the surrogate predicts from them. The frame marks the fewest players that raise its "
            "output by 90 % of what all players raise it. Good values raise it sooner than random orders do.",
        )
        return
    page.figure(
        drawn.plot_waterfall(0),
        f"The {weights} values of the first input, added to the base value one after another. The base value is the "
        "prediction with all features hidden.",
    )
    page.section("All inputs together").figure(
        explained.plot_importance(),
        "Mean size of each player's values, under each weighting: the larger the first number of Beta, the more counts "
        "what a player tells on its own; the larger the second, the more counts what is missed without it.",
    )
    page.figure(
        drawn.plot_beeswarm(),
        f"{weights} values: a point for each input and player. Points on the right raise the output. Gray points have "
        "no single value that can be ordered.",
    )
