"""Players of texts: tokens, words or sentences, whose number differs from text to text.

A batch of texts is an array (texts, 2, length): the number of each token, and the player that it belongs to. Tokens
that a tokenizer adds, such as [CLS], belong to no player and stay visible. Shorter texts are padded. So a batch says
itself how many players each of its texts has, and can be split, reordered and saved as any other inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float32, Int
from numpy import ndarray

from fwshapley._internal.arrays import Tensor
from fwshapley._internal.checks import Array, check_flag, check_whole, shorten
from fwshapley._internal.wording import counted
from fwshapley.players import Players

Unit = Literal["token", "word", "sentence"]

SPECIAL, PADDING = -1, -2
"""In place of a player: tokens that the tokenizer adds, and those after the end of a text."""

TOKENS, OWNERS = 0, 1
"""Rows of an encoded text."""

DEFAULT_LENGTH = 512
"""Most tokens of a text if the tokenizer does not say."""

NO_LIMIT = 2**20
"""Limits of tokenizers from which on there is none; transformers writes 1e30."""

PATTERNS = {
    "word": re.compile(r"\S+"),
    "sentence": re.compile(r"\S.*?(?:[.!?…]+[\"')\]]*(?=\s)|$)", re.MULTILINE),
}

Span = tuple[int, int]
"""Where a player begins and ends in its text."""


class _Text(NamedTuple):
    """A text as tokens.

    Attributes:
        tokens: their numbers.
        owners: the player of each, or SPECIAL.
        spans: of each player.
    """

    tokens: list[int]
    owners: list[int]
    spans: list[Span]


@dataclass(frozen=True, eq=False, repr=False)
class TextPlayers(Players):
    """Tokens, words or sentences of texts, made by `tokens`, `words` or `sentences`.

    `n_players` is the most that a text may have; `count` tells how many each has.

    Attributes:
        tokenizer: makes numbers of texts.
        unit: what a player is.
        truncate: whether the end of a text that is too long is left out, or the text is refused.
    """

    varies: ClassVar[bool] = True
    tokenizer: Any = None
    unit: Unit = "token"
    truncate: bool = False

    def __repr__(self) -> str:
        return f"TextPlayers({self.unit}s of texts of up to {counted(self.n_players, 'token')})"

    def read(self, texts: Array, name: str) -> Float32[ndarray, "texts 2 length"]:
        """Return texts as numbers of tokens and players, or raise an error that names the text that cannot be used.

        Args:
            texts: a list, an array or a Series of strings, or a string.
            name: of the argument.
        """
        encoded = self._encode(texts, name)
        length = max(len(text.tokens) for text in encoded)
        batch = np.full((len(encoded), 2, length), PADDING, np.float32)
        for row, text in zip(batch, encoded, strict=True):
            row[TOKENS] = self.padding_token
            row[:, : len(text.tokens)] = text.tokens, text.owners
        return batch

    def spans(self, texts: Array, name: str = "texts") -> list[list[Span]]:
        """Return where the players of each text begin and end.

        Args:
            texts: as for `read`.
            name: of the argument.
        """
        return [text.spans for text in self._encode(texts, name)]

    def check(self, x: Array) -> None:
        """Raise a ValueError unless a batch is one of encoded texts."""
        shape = tuple(np.shape(x))
        if len(shape) != 3 or shape[1] != 2 or shape[2] > self.n_players:  # noqa: PLR2004 - texts, 2, tokens
            raise ValueError(f"encoded texts must have shape (texts, 2, at most {self.n_players}), got {shape}")

    def count(self, x: Tensor) -> Int[Tensor, " texts"]:
        """Return the number of players of each text of an encoded batch."""
        return x[:, OWNERS].amax(1).long() + 1

    def facts(self) -> dict[str, Any]:
        """Return everything, with the tokenizer, for JSON; `players_from_facts` reads it."""
        special = {name: token for name, token in self.tokenizer.special_tokens_map.items() if isinstance(token, str)}
        return {
            "unit": self.unit,
            "truncate": self.truncate,
            "length": self.n_players,
            "tokenizer": self.tokenizer.backend_tokenizer.to_str(),
            "special_tokens": special,
        }

    def at_most(self, length: int) -> Self:
        """Return the same players for texts of at most so many tokens.

        Args:
            length: limit of a model.
        """
        if length >= self.n_players:
            return self
        return replace(self, assignment=self.assignment[:length], names=self.names[:length])

    @property
    def padding_token(self) -> int:
        """Number of the token after the end of a text."""
        token = self.tokenizer.pad_token_id
        return 0 if token is None else int(token)

    def _encode(self, texts: Array, name: str) -> list[_Text]:
        """Return each text as tokens, or raise an error that names the first that cannot be used."""
        listed = check_texts(texts, name)
        encoding = self.tokenizer(listed, return_offsets_mapping=True, return_special_tokens_mask=True)
        encoded = []
        for number, text in enumerate(listed):
            parts = (encoding[key][number] for key in ("input_ids", "special_tokens_mask", "offset_mapping"))
            tokens, special, offsets = parts
            where = f"{name}[{number}]"
            if len(tokens) > self.n_players and not self.truncate:
                raise ValueError(
                    f"{where} has {len(tokens):,} tokens, and the limit is {self.n_players:,}: shorten it, or pass "
                    f"truncate=True to fw.{self.unit}s to leave out its end; it begins with {shorten(text)}"
                )
            if len(tokens) > self.n_players:
                tokens, special, offsets = _cut(tokens, special, offsets, self.n_players)
            owners, spans = self._find_players(text, np.array(special, bool), offsets)
            if not spans:
                raise ValueError(f"{where} is empty: no token of {text!r} can be a player")
            encoded.append(_Text(tokens, owners, spans))
        return encoded

    def _find_players(
        self, text: str, special: Bool[ndarray, " tokens"], offsets: Sequence[Span]
    ) -> tuple[list[int], list[Span]]:
        """Return the player of each token, and where each player is."""
        if self.unit == "token":
            spans = [offset for offset, is_special in zip(offsets, special, strict=True) if not is_special]
            return np.where(special, SPECIAL, np.cumsum(~special) - 1).tolist(), spans
        pieces = [match.span() for match in PATTERNS[self.unit].finditer(text)]
        if not pieces:
            return [SPECIAL] * len(special), []
        ends = np.array([end for _, end in pieces])
        starts = [begin + len(text[begin:end]) - len(text[begin:end].lstrip()) for begin, end in offsets]
        piece = np.minimum(np.searchsorted(ends, starts, side="right"), len(pieces) - 1)
        present, players = np.unique(piece[~special], return_inverse=True)  # a tokenizer may drop a piece
        owners = np.full(len(special), SPECIAL)
        owners[~special] = players
        return owners.tolist(), [pieces[number] for number in present]


def tokens(tokenizer: Callable[..., Any], *, max_length: int | None = None, truncate: bool = False) -> TextPlayers:
    """Make the tokens of texts players.

    Args:
        tokenizer: a fast tokenizer of transformers, or `transformers.PreTrainedTokenizerFast(tokenizer_object=...)` of
            one of the tokenizers library.
        max_length: most tokens of a text; by default the limit of the tokenizer, and of the model.
        truncate: leave out the end of longer texts; otherwise they raise an error.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> vocabulary = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, "film": 2}, unk_token="[UNK]"))
        >>> vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> players = fw.tokens(PreTrainedTokenizerFast(tokenizer_object=vocabulary, unk_token="[UNK]"), max_length=8)
        >>> players.read(["good film", "a good film"], "texts")[:, 1]  # the player of each token, and -2 for padding
        array([[ 0.,  1., -2.],
               [ 0.,  1.,  2.]], dtype=float32)
    """
    return _make_players(tokenizer, "token", max_length, truncate=truncate)


def words(tokenizer: Callable[..., Any], *, max_length: int | None = None, truncate: bool = False) -> TextPlayers:
    """Make the words of texts players: what is between spaces, with its punctuation.

    Args:
        tokenizer: as for `tokens`; a word may have several tokens.
        max_length: most tokens of a text, as for `tokens`.
        truncate: as for `tokens`.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> vocabulary = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, ",": 2}, unk_token="[UNK]"))
        >>> vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> players = fw.words(PreTrainedTokenizerFast(tokenizer_object=vocabulary, unk_token="[UNK]"))
        >>> players.spans(["good, good film"])
        [[(0, 5), (6, 10), (11, 15)]]
    """
    return _make_players(tokenizer, "word", max_length, truncate=truncate)


def sentences(tokenizer: Callable[..., Any], *, max_length: int | None = None, truncate: bool = False) -> TextPlayers:
    """Make the sentences of texts players: they end with a period, a question or exclamation mark, or a line.

    Args:
        tokenizer: as for `tokens`.
        max_length: most tokens of a text, as for `tokens`.
        truncate: as for `tokens`.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import PreTrainedTokenizerFast
        >>> vocabulary = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1}, unk_token="[UNK]"))
        >>> vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> players = fw.sentences(PreTrainedTokenizerFast(tokenizer_object=vocabulary, unk_token="[UNK]"))
        >>> players.spans(["It is good. See it!"])
        [[(0, 11), (12, 19)]]
    """
    return _make_players(tokenizer, "sentence", max_length, truncate=truncate)


def players_from_facts(facts: Mapping[str, Any], assignment: Array) -> Players:
    """Return the players whose `facts` and assignment were saved, of texts or of anything else.

    Args:
        facts: as saved.
        assignment: as saved; that of texts follows from their length.
    """
    if "tokenizer" not in facts:
        return Players.from_facts(facts, assignment)
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - optional, and slow to import
        from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("texts need transformers: pip install 'fwshapley[transformers]'") from error
    saved = Tokenizer.from_str(facts["tokenizer"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=saved, **facts["special_tokens"])  # type: ignore[no-untyped-call]
    return _make_players(tokenizer, facts["unit"], facts["length"], truncate=facts["truncate"])


def check_texts(texts: Array, name: str) -> list[str]:
    """Return texts as a list of strings, or raise an error that names the first entry that is none."""
    if isinstance(texts, str):
        return [texts]
    listed = list(texts) if isinstance(texts, Iterable) else [texts]
    wrong = next((number for number, text in enumerate(listed) if not isinstance(text, str)), None)
    if wrong is not None:
        raise TypeError(f"{name} must be strings, got {shorten(listed[wrong])} at position {wrong}")
    if not listed:
        raise ValueError(f"{name} must have at least one text, got none")
    return listed


def _make_players(tokenizer: Any, unit: Unit, max_length: int | None, *, truncate: bool) -> TextPlayers:  # noqa: ANN401 - of transformers
    if not getattr(tokenizer, "is_fast", False):
        raise TypeError(
            "tokenizer must be a fast tokenizer of transformers, which tells where tokens are in a text, e.g. "
            f"AutoTokenizer.from_pretrained(...); got {shorten(tokenizer)}"
        )
    check_flag("truncate", truncate)
    limit = int(min(tokenizer.model_max_length, NO_LIMIT))
    if max_length is not None:
        limit = check_whole("max_length", max_length)
    elif limit == NO_LIMIT:
        limit = DEFAULT_LENGTH
    names = tuple(f"{unit} {number}" for number in range(limit))
    return TextPlayers(np.arange(limit), names, tokenizer=tokenizer, unit=unit, truncate=truncate)


def _cut(
    tokens: list[int], special: list[int], offsets: list[Span], length: int
) -> tuple[list[int], list[int], list[Span]]:
    """Return the begin of a text with the special tokens at its end."""
    last = len(special) - next((n for n, flag in enumerate(special[::-1]) if not flag), 0)
    kept = [*range(length - (len(special) - last)), *range(last, len(special))]
    return [tokens[n] for n in kept], [special[n] for n in kept], [offsets[n] for n in kept]
