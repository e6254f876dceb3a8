"""The interface of games: a callable that returns the value of coalitions.

Any callable from a boolean (coalitions, players) tensor to values is a game. Estimators call it through `CheckedGame`,
which reports a wrong shape or a NaN where it occurs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley._internal.checks import Array, check_callable, check_whole

Coalitions = Bool[Tensor, "coalitions players"]


@runtime_checkable
class Game(Protocol):
    """A callable on (coalitions, players) masks with a number of players.

    It may also have a `device`, on which coalitions are then made; the default is the CPU.

    Example:
        >>> isinstance(fw.games.Glove(left=2, right=3), fw.games.Game)
        True
    """

    @property
    def n_players(self) -> int:
        """Number of players, the width of the masks."""
        ...

    def __call__(self, coalitions: Tensor, /) -> Array:
        """Value of each coalition: (coalitions,) for one output, (coalitions, outputs) for several."""
        ...


@dataclass(frozen=True)
class FunctionGame:
    """A plain function as a game.

    Example:
        >>> fw.games.FunctionGame(lambda coalitions: coalitions.sum(1) ** 2, n_players=3)(torch.ones(1, 3, dtype=bool))
        tensor([9])
    """

    function: Callable[[Tensor], Array]
    n_players: int

    def __post_init__(self) -> None:
        check_callable("function", self.function)
        object.__setattr__(self, "n_players", check_whole("n_players", self.n_players))

    def __call__(self, coalitions: Tensor, /) -> Array:
        """Value of each coalition."""
        return self.function(coalitions)


AnyGame = Game | Callable[[Tensor], Array]
"""A game, or a plain function on masks that is passed together with `n_players`."""


def as_game(game: AnyGame, n_players: int | None = None) -> Game:
    """Return the game if it has a number of players; otherwise wrap the function with n_players.

    Example:
        >>> fw.games.as_game(lambda coalitions: coalitions.sum(1), n_players=3).n_players
        3
    """
    if not callable(game):
        raise TypeError(f"game must be a callable on (coalitions, players) masks, got {type(game).__name__}")
    if isinstance(game, Game):
        if n_players not in (None, game.n_players):
            raise ValueError(f"n_players must be {game.n_players}, the number of players of this game, got {n_players}")
        return game
    if n_players is None:
        raise TypeError("n_players must be given for a plain function: pass n_players=...")
    return FunctionGame(game, n_players)


class CheckedGame:
    """A game whose values are checked, counted, and always float64 of shape (coalitions, outputs).

    Args:
        game: the game.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions that callers should pass at once.

    Attributes:
        calls: coalitions evaluated so far.

    Example:
        >>> game = fw.games.CheckedGame(fw.games.Glove(left=1, right=1))
        >>> game(torch.ones(1, 2, dtype=torch.bool)).tolist(), game.calls
        ([[1.0]], 1)
    """

    def __init__(self, game: AnyGame, n_players: int | None = None, *, batch_size: int = 2**14) -> None:
        self.game = as_game(game, n_players)
        self.n_players = check_whole("n_players", self.game.n_players)
        self.batch_size = check_whole("batch_size", batch_size)
        self.device = torch.device(getattr(game, "device", "cpu"))
        self.calls = 0
        self._output_shape: tuple[int, ...] | None = None

    def __call__(self, coalitions: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        """Value of each coalition, a column per output."""
        with torch.no_grad():
            values = self._checked(self.game(coalitions.clone()), coalitions)  # a game may change its masks
        self.calls += len(coalitions)
        return values

    def drop_single_output(self, values: Tensor) -> Tensor:
        """Return values without their last axis, outputs, if the game returns no axis of outputs."""
        return values.squeeze(-1) if self._output_shape == () else values

    def _checked(self, returned: object, coalitions: Coalitions) -> Float64[Tensor, "coalitions outputs"]:
        try:
            raw = torch.as_tensor(returned)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"the game must return an array of numbers, got {type(returned).__name__} ({error}); "
                "it must return one row per coalition: (coalitions,) or (coalitions, outputs)"
            ) from error
        if not raw.ndim or len(raw) != len(coalitions):
            raise ValueError(
                f"the game returned shape {tuple(raw.shape)} for {len(coalitions)} coalitions; "
                "it must return one row per coalition: (coalitions,) or (coalitions, outputs)"
            )
        if raw.ndim > 2 or raw.is_complex() or not raw.numel():  # noqa: PLR2004 - rows and outputs
            shape = tuple(raw.shape)
            raise ValueError(
                f"the game must return real numbers, (coalitions, outputs), got {raw.dtype} of shape {shape}"
            )
        output_shape = tuple(raw.shape[1:])
        if self._output_shape not in (None, output_shape):
            raise ValueError(f"the game returned outputs of shape {output_shape} after {self._output_shape}")
        self._output_shape = output_shape
        values = raw.to(self.device, torch.float64).reshape(len(coalitions), -1)
        if not bool(values.isfinite().all()):
            bad = coalitions[int((~values.isfinite()).any(1).nonzero()[0])]
            members = bad.nonzero().flatten().tolist()
            raise ValueError(f"the game is not finite for the coalition of players {members}")
        return values
