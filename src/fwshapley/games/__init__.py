"""Games: functions that return the value of coalitions of players."""

from fwshapley.games.game import AnyGame, CheckedGame, FunctionGame, Game, as_game
from fwshapley.games.knn import NeighborGame
from fwshapley.games.masked_model import MaskedModel
from fwshapley.games.retraining import RetrainingGame
from fwshapley.games.synthetic import Additive, Airport, Glove, KnownGame, Pairwise, Random, Unanimity, Voting

__all__ = [
    "Additive",
    "Airport",
    "AnyGame",
    "CheckedGame",
    "FunctionGame",
    "Game",
    "Glove",
    "KnownGame",
    "MaskedModel",
    "NeighborGame",
    "Pairwise",
    "Random",
    "RetrainingGame",
    "Unanimity",
    "Voting",
    "as_game",
]
