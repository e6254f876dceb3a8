"""Small models of texts, and a tokenizer of a few words, made on the spot."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    ViTConfig,
    ViTForImageClassification,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["a", "good", "bad", "film", "not", "very", "the", "plot", "dull", "bright", "it", "was", ",", ".", "!"]
VOCABULARY = {token: number for number, token in enumerate([*SPECIAL, *WORDS])}
MAX_LENGTH = 24

SHAPE: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "initializer_range": 0.4,
}
FAMILIES: dict[str, Callable[[], Any]] = {
    "bert": lambda: BertForSequenceClassification(BertConfig(**SHAPE, max_position_embeddings=MAX_LENGTH)),
    "roberta": lambda: RobertaForSequenceClassification(
        RobertaConfig(**SHAPE, max_position_embeddings=MAX_LENGTH + 1, pad_token_id=0)
    ),
    "distilbert": lambda: DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=len(VOCABULARY),
            dim=16,
            n_layers=2,
            n_heads=2,
            hidden_dim=16,
            max_position_embeddings=MAX_LENGTH,
            initializer_range=0.4,
        )
    ),
}


def make_model(family: str = "bert", seed: int = 0) -> nn.Module:
    """Return a model of a family with the weights that belong to a seed, in training mode, as users may have it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: nn.Module = FAMILIES[family]()
    return model.train()


def make_vision_model(seed: int = 0) -> nn.Module:
    """Return a vision transformer of images of 8 x 8 pixels, with patches of 2 x 2."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        shape = {name: value for name, value in SHAPE.items() if name != "vocab_size"} | {"num_labels": 3}
        config = ViTConfig(**shape, image_size=8, patch_size=2, num_channels=1)
        model: nn.Module = ViTForImageClassification(config)
    return model.train()


@cache
def make_tokenizer(*, mask: bool = True) -> PreTrainedTokenizerFast:
    """Return a tokenizer that knows `WORDS`."""
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token=SPECIAL[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, VOCABULARY[name]) for name in ("[CLS]", "[SEP]")]
    )
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names |= {"mask_token": "[MASK]"} if mask else {}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)  # type: ignore[no-untyped-call]


def make_texts(count: int, longest: int = 8, seed: int = 0) -> list[str]:
    """Return texts of random words."""
    source = random.Random(seed)  # noqa: S311 - no secrets
    return [" ".join(source.choices(WORDS, k=source.randint(1, longest))) for _ in range(count)]


class OwnModel(nn.Module):
    """A user's model, which ignores attention_mask: the sum of the embeddings of all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        del attention_mask
        summed: Tensor = self.embedding(input_ids).sum(1)
        return summed


class AttentiveModel(OwnModel):
    """A user's model that sums the embeddings of the tokens in attention_mask."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        summed: Tensor = (self.embedding(input_ids) * attention_mask[..., None]).sum(1)
        return summed
