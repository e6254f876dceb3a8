"""Players of texts: which token belongs to which player, and texts that cannot be used."""

import numpy as np
import pandas as pd
import pytest
import torch

import fwshapley as fw
from fwshapley.text_players import OWNERS, PADDING, SPECIAL, TOKENS, TextPlayers
from text_models import MAX_LENGTH, VOCABULARY, make_texts, make_tokenizer

MAKERS = {"token": fw.tokens, "word": fw.words, "sentence": fw.sentences}


def make(unit: str, *, truncate: bool = False, max_length: int = MAX_LENGTH) -> TextPlayers:
    return MAKERS[unit](make_tokenizer(), max_length=max_length, truncate=truncate)


@pytest.mark.parametrize(
    ("unit", "owners", "pieces"),
    [
        ("token", [-1, 0, 1, 2, 3, 4, 5, -1], ["good", "film", ",", "not", "bad", "!"]),
        ("word", [-1, 0, 1, 1, 2, 3, 3, -1], ["good", "film,", "not", "bad!"]),
        ("sentence", [-1, 0, 0, 0, 0, 0, 0, -1], ["good film, not bad!"]),
    ],
)
def test_each_token_belongs_to_its_player(unit: str, owners: list[int], pieces: list[str]) -> None:
    text = "good film, not bad!"
    players = make(unit)
    [encoded] = players.read([text], "texts")
    assert encoded[OWNERS].tolist() == owners
    assert encoded[TOKENS, 0] == VOCABULARY["[CLS]"]
    assert encoded[TOKENS, 1] == VOCABULARY["good"]
    assert [text[begin:end] for begin, end in players.spans([text])[0]] == pieces


def test_sentences_end_with_their_marks_and_with_lines() -> None:
    text = 'It was good. "Very good!" Not bad?\nThe film: 3.5 of 5.'
    [spans] = make("sentence").spans([text])
    pieces = [text[begin:end] for begin, end in spans]
    assert pieces == ["It was good.", '"Very good!"', "Not bad?", "The film: 3.5 of 5."]


def test_shorter_texts_are_padded() -> None:
    encoded = make("token").read(["good", "good film"], "texts")
    assert encoded.shape == (2, 2, 4)
    assert encoded[0].tolist() == [[2, VOCABULARY["good"], 3, 0], [SPECIAL, 0, SPECIAL, PADDING]]
    assert make("token").count(torch.from_numpy(encoded)).tolist() == [1, 2]


@pytest.mark.parametrize("form", [list, tuple, np.array, pd.Series])
def test_texts_come_in_any_sequence(form: type) -> None:
    texts = make_texts(3)
    assert np.array_equal(make("word").read(form(texts), "texts"), make("word").read(texts, "texts"))


def test_one_text_is_a_batch() -> None:
    assert make("word").read("a good film", "texts").shape == (1, 2, 5)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["good", ""], ValueError, r"texts\[1\] is empty"),
        (["good", "   "], ValueError, r"texts\[1\] is empty"),
        (["good", float("nan")], TypeError, "strings, got nan at position 1"),
        (3, TypeError, "strings, got 3"),
        ([], ValueError, "at least one text"),
        (["good " * 30], ValueError, r"texts\[0\] has 32 tokens, and the limit is 24.*truncate=True"),
    ],
)
@pytest.mark.parametrize("unit", MAKERS)
def test_texts_that_cannot_be_used(unit: str, texts: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(unit).read(texts, "texts")


@pytest.mark.parametrize("unit", MAKERS)
def test_truncated_texts_keep_their_special_tokens(unit: str) -> None:
    text = "good film . " * 10
    [encoded] = make(unit, truncate=True, max_length=8).read([text], "texts")
    whole = make(unit, max_length=64).read([text], "texts")[0]
    assert encoded.shape == (2, 8)
    assert np.array_equal(encoded[:, :7], whole[:, :7])
    assert np.array_equal(encoded[:, 7], whole[:, -1])
    assert len(make(unit, truncate=True, max_length=8).spans([text])[0]) == encoded[OWNERS].max() + 1


def test_a_slow_tokenizer_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a fast tokenizer"):
        fw.tokens(str.split)


def test_the_limit_is_that_of_the_tokenizer() -> None:
    assert fw.tokens(make_tokenizer()).n_players == 512  # which has none
    assert make("token").at_most(10).n_players == 10
    assert make("token").at_most(100).n_players == MAX_LENGTH
    assert repr(make("word")) == "TextPlayers(words of texts of up to 24 tokens)"


def test_a_batch_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="encoded texts must have shape"):
        make("token").check(torch.zeros(2, 3, 4))
