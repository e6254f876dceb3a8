from .game import AnyGame, CheckedGame, FunctionGame, Game, as_game
from .knn import NeighborGame, NeighborRegressionGame
from .masked_model import MaskedModel
from .retraining import RetrainingGame
from .synthetic import Additive, Airport, Glove, KnownGame, Pairwise, Random, Unanimity, Voting

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
    "NeighborRegressionGame",
    "Pairwise",
    "Random",
    "RetrainingGame",
    "Unanimity",
    "Voting",
    "as_game",
]
