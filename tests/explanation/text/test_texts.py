"""Explanations of texts: hidden words have no influence, padding has no value, short texts agree with enumeration."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rich
import shap
import torch
import transformers
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

import fwshapley as fw
from fwshapley.estimators import exact_values
from fwshapley.explanation import Attribution, TextAttribution
from fwshapley.explanation.learned.masked_transformer import MaskedTransformer
from fwshapley.games.masked_model import MaskedModel
from fwshapley.networks.token_inputs import TextInputs, TokenRemoval
from fwshapley.networks.transformer import TransformerNetwork, mean_by_player
from fwshapley.serving.exported_explainer import ExportedExplainer
from fwshapley.text_players import TextPlayers
from text_models import (
    FAMILIES,
    MAX_LENGTH,
    SHAPE,
    AttentiveModel,
    OwnModel,
    make_model,
    make_texts,
    make_tokenizer,
)

TEXTS = make_texts(60)
WEIGHTINGS = [fw.Shapley(), fw.Beta(4, 1), fw.LeaveOneOut()]
STEPS = fw.Budget(steps=4)


def fit(model: object = None, **options: Any) -> fw.FeatureExplainer:  # noqa: ANN401 - of any argument
    players = options.pop("players", None) or fw.words(make_tokenizer())
    explainer = fw.FeatureExplainer(model or make_model(), players, device="cpu", **options)
    return explainer.fit(TEXTS, budget=STEPS, batch_size=8, n_coalitions=4, progress=False)


@pytest.fixture(scope="module")
def explainer() -> fw.FeatureExplainer:
    return fit()


@pytest.fixture(scope="module")
def learned(explainer: fw.FeatureExplainer) -> fw.FeatureExplainer:
    """One whose last layer is not zero, so that it tells texts apart."""
    last = explainer.network_.get_parameter("head.3.weight")
    with torch.no_grad():
        last.copy_(torch.randn(last.shape, generator=torch.Generator().manual_seed(0)))
    return explainer


def removal_of(game: MaskedModel) -> str:
    """What hides the tokens of a game."""
    assert isinstance(game.surrogate, MaskedTransformer)
    assert isinstance(game.surrogate.inputs, TextInputs)
    return game.surrogate.inputs.removal


def real_parts(attribution: Attribution) -> Iterator[tuple[Tensor, Tensor]]:
    """Values of each text's own players, and what stands in the places of others."""
    assert isinstance(attribution, TextAttribution)
    for values, spans in zip(attribution.values.movedim(-3, 0), attribution.spans, strict=True):
        yield values[..., : len(spans), :], values[..., len(spans) :, :]


@pytest.mark.parametrize("how", ["explain", "sample", "refine"])
def test_a_text_has_the_same_values_alone_and_in_a_padded_batch(learned: fw.FeatureExplainer, how: str) -> None:
    options: dict[str, Any] = {} if how == "explain" else {"n_calls": 300, "progress": False}  # all coalitions
    together = getattr(learned, how)(TEXTS[:6], outputs="all", weights=WEIGHTINGS, **options)
    for text, (own, others) in zip(TEXTS, real_parts(together), strict=False):
        alone = getattr(learned, how)([text], outputs="all", weights=WEIGHTINGS, **options)
        torch.testing.assert_close(alone.values[:, 0], own, atol=1e-6, rtol=1e-5)
        assert not others.any()
    assert len(set(map(len, together.spans))) > 2


def test_sampled_values_of_short_texts_are_exact(learned: fw.FeatureExplainer) -> None:
    sampled = learned.sample(TEXTS[:4], outputs="all", weights=WEIGHTINGS, progress=False)
    for text, (own, _) in zip(TEXTS, real_parts(sampled), strict=False):
        game = learned.game(text)
        assert game.n_players == len(text.split())
        torch.testing.assert_close(exact_values(game, WEIGHTINGS, progress=False).float(), own, atol=1e-5, rtol=1e-4)
    assert sampled.stderr is not None
    assert not sampled.stderr.any()


def test_cardinality_is_for_texts_of_its_length(learned: fw.FeatureExplainer) -> None:
    weights = fw.Cardinality([0, 1, 3])
    [[own, _]] = real_parts(learned.sample(["a good film"], weights=weights, outputs="all", progress=False))
    exact = exact_values(learned.game("a good film"), weights, progress=False)
    torch.testing.assert_close(exact.float(), own, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="games of 3 players"):
        learned.sample(["good"], weights=weights, progress=False)


def test_efficient_values_add_up(learned: fw.FeatureExplainer) -> None:
    attribution = learned.explain(TEXTS[:6], outputs="all", total="efficient")
    inputs = attribution.inputs
    full = learned.masked_model_.full_values(inputs)
    torch.testing.assert_close(attribution.values.sum(1) + attribution.base_values, full, atol=1e-5, rtol=1e-4)
    assert not any(others.any() for _, others in real_parts(attribution))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("unit", [fw.tokens, fw.words])
def test_hidden_words_are_not_attended_to(family: str, unit: Callable[..., TextPlayers]) -> None:
    explainer = fw.TextExplainer(make_model(family), unit(make_tokenizer()), device="cpu")
    one, other = explainer.game("good film very bright !"), explainer.game("good plot very dull !")
    hidden = torch.tensor([[True, False, True, False, True], [False, False, True, False, False]])
    assert isinstance(one.masked.surrogate, MaskedTransformer)
    assert removal_of(one.masked) == "attention"
    torch.testing.assert_close(one(hidden), other(hidden))
    assert not torch.allclose(one(~hidden), other(~hidden))


@pytest.mark.parametrize("family", FAMILIES)
def test_complete_texts_are_predicted_as_by_the_model(family: str) -> None:
    model, tokenizer = make_model(family), make_tokenizer()
    explainer = fw.TextExplainer(model, fw.tokens(tokenizer), device="cpu")
    batch = tokenizer(TEXTS[:5], padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model.eval()(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    for text, predicted in zip(TEXTS, logits.softmax(1), strict=False):
        game = explainer.game(text)
        everyone = torch.ones(1, game.n_players, dtype=torch.bool)
        torch.testing.assert_close(game(everyone)[0], predicted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("removal", ["attention", "mask_token", "zero"])
def test_values_without_training_are_those_of_enumeration(removal: TokenRemoval) -> None:
    model = make_model()
    attribution = fw.TextExplainer(model, fw.words(make_tokenizer()), removal=removal, device="cpu").explain(
        ["a good film", "bad"], weights=WEIGHTINGS, outputs="all", progress=False
    )
    model.eval()
    tokenizer = make_tokenizer()

    def predict(mask: Tensor) -> Tensor:
        batch = tokenizer("a good film", return_tensors="pt")
        ids, shown = batch["input_ids"], torch.cat([torch.ones(1), mask, torch.ones(1)]).bool()[None]
        everything = torch.ones_like(ids)
        if removal == "attention":
            arguments = {"input_ids": ids, "attention_mask": shown.long()}
        elif removal == "mask_token":
            arguments = {"input_ids": ids.where(shown, tokenizer.mask_token_id), "attention_mask": everything}
        else:
            embedded = model.get_submodule("bert.embeddings.word_embeddings")(ids) * shown[..., None]
            arguments = {"inputs_embeds": embedded, "attention_mask": everything}
        return model(**arguments).logits[0].softmax(0)

    def game(coalitions: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.stack([predict(mask) for mask in coalitions])

    exact = exact_values(game, WEIGHTINGS, n_players=3, progress=False)
    torch.testing.assert_close(attribution.values[:, 0], exact.float(), atol=1e-5, rtol=1e-4)
    assert attribution.stderr is None
    assert not attribution.values[:, 1, 1:].any()


def test_a_model_of_ones_own_states_how_tokens_are_hidden() -> None:
    no_mask = fw.words(make_tokenizer(mask=False))
    with pytest.raises(
        ValueError, match="no mask token and the model's outputs change with tokens that attention_mask"
    ):
        fw.TextExplainer(OwnModel(), no_mask, device="cpu").explain(TEXTS[:2])
    with pytest.raises(ValueError, match="needs a model whose attention_mask"):
        fw.TextExplainer(OwnModel(), fw.words(make_tokenizer()), removal="attention", device="cpu").explain(TEXTS[:2])
    with pytest.raises(ValueError, match="get_input_embeddings"):
        fw.TextExplainer(OwnModel(), no_mask, removal="zero", device="cpu").explain(TEXTS[:2])
    with pytest.raises(ValueError, match="removal must be one of 'auto', 'attention', 'mask_token', 'zero' for texts"):
        fit(removal="mean")
    with_mask = fw.TextExplainer(OwnModel(), fw.words(make_tokenizer()), device="cpu")
    assert removal_of(with_mask.game("a good film").masked) == "mask_token"


def test_a_model_of_ones_own_gets_a_fresh_network() -> None:
    explainer = fit(AttentiveModel(), surrogate=None)
    assert removal_of(explainer.masked_model_) == "attention"
    assert explainer.explain(TEXTS[:3], outputs="all").values.shape[2] == 3


def test_the_model_is_not_changed() -> None:
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fit(model)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_network_starts_from_the_surrogate_and_says_nothing_yet() -> None:
    surrogate = fit(surrogate=None).surrogate_
    assert isinstance(surrogate, MaskedTransformer)
    players = fw.words(make_tokenizer(), max_length=MAX_LENGTH)
    network = surrogate.network(players, 6)
    assert isinstance(network, TransformerNetwork)
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(network.get_parameter(f"encoder.{name}"), surrogate.get_parameter(f"model.bert.{name}"))
    outputs = network(torch.from_numpy(players.read(TEXTS[:3], "texts")))
    assert outputs.shape == (3, MAX_LENGTH, 6)
    assert not outputs.any()


def test_outputs_of_tokens_are_averaged_over_their_players() -> None:
    outputs = torch.arange(8.0).reshape(1, 4, 2)
    assert mean_by_player(outputs, torch.tensor([[-1, 1, 1, -2]]), 3).tolist() == [[[0, 0], [3, 4], [0, 0]]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: fit(objective="kernel", weights=fw.Shapley()),
            "the kernel objective needs the same number of players",
        ),
        (lambda: fit(lambda texts: texts), "model must be a torch module that takes input_ids"),
        (lambda: fit(network="unet"), "is for images"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("texts", "message"),
    [(["good " * 30], "has 32 tokens, and the limit is 24"), ([""], "is empty"), ([3.0], "must be strings")],
)
def test_texts_that_cannot_be_explained_are_named(explainer: fw.FeatureExplainer, texts: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        explainer.explain(texts)


def test_a_tokenizer_that_does_not_match_is_named() -> None:
    model = make_model()
    model.get_submodule("bert.embeddings").word_embeddings = nn.Embedding(10, 16)
    with pytest.raises(ValueError, match="tokenizer does not match the model: it has tokens up to number 19"):
        fit(model)


def test_an_explainer_in_a_file_needs_no_model(learned: fw.FeatureExplainer, tmp_path: Path) -> None:
    learned.save(tmp_path)
    for model in (None, make_model(seed=1)):
        loaded = fw.load(tmp_path, model=model, device="cpu")
        for outputs in ("all", "predicted"):
            before, after = (one.explain(TEXTS[:4], outputs=outputs) for one in (learned, loaded))
            assert torch.equal(before.values, after.values)
            assert torch.equal(before.base_values, after.base_values)
    assert loaded.players.unit == "word"


def test_values_in_a_file_keep_their_texts(learned: fw.FeatureExplainer, tmp_path: Path) -> None:
    attribution = learned.explain(TEXTS[:3], weights=WEIGHTINGS)
    attribution.save(tmp_path / "values.safetensors")
    loaded = fw.load(tmp_path / "values.safetensors")
    assert isinstance(loaded, TextAttribution)
    assert loaded.texts == tuple(TEXTS[:3])
    assert loaded.spans == attribution.spans  # type: ignore[attr-defined]  # of texts
    assert loaded.to_dataframe().equals(attribution.to_dataframe())


def test_a_table_has_the_words_of_each_text(learned: fw.FeatureExplainer) -> None:
    texts = ["good film", "bad"]
    attribution = learned.explain(texts, outputs=[1, 0])
    frame = attribution.to_dataframe()
    assert frame["piece"].tolist() == ["good", "film", "good", "film", "bad", "bad"]
    assert frame["player"].tolist() == [0, 1, 0, 1, 0, 0]
    assert (
        frame["value"].tolist() == attribution.values[0].T[:, :2].flatten().tolist() + attribution.values[1, 0].tolist()
    )


def test_shap_takes_texts(learned: fw.FeatureExplainer) -> None:
    texts = ["good film , bad plot", "bad"]
    explanation = learned(texts)
    assert ["".join(words) for words in explanation.data] == texts
    predicted = learned.masked_model_.full_values(learned.explain(texts).inputs)[:, 1]
    sums = [
        float(values.sum()) + float(base)
        for values, base in zip(explanation.values, explanation.base_values, strict=True)
    ]
    assert sums == pytest.approx(predicted.tolist(), abs=1e-5)
    assert "film" in shap.plots.text(explanation, display=False)


def test_pipelines_are_taken_apart() -> None:
    model: Any = make_model()
    pipeline = transformers.pipeline("text-classification", model=model, tokenizer=make_tokenizer(), device="cpu")
    attribution = fw.TextExplainer(pipeline, device="cpu").explain(["good film"], progress=False)
    assert attribution.pieces == [["good", "film"]]
    assert attribution.unit == "token"


def test_colors_follow_values() -> None:
    attribution = fw.TextExplainer(make_model(), fw.words(make_tokenizer()), device="cpu").explain(
        ["good <film>\n, bad", "bad"], weights=[fw.Shapley(), fw.Banzhaf()], progress=False
    )
    page = attribution._repr_html_()
    assert page.count("<span") == 2 * (4 + 1)
    assert "&lt;film&gt;" in page
    printed = io.StringIO()
    rich.print(attribution, file=printed)
    assert "good <film>\n, bad" in printed.getvalue()
    assert len(attribution.plot().axes) == 1
    for draw in (attribution.plot_importance, attribution.plot_beeswarm, attribution.plot_waterfall):
        with pytest.raises(ValueError, match="parts of texts; use plot"):
            draw()


@pytest.mark.parametrize(
    "call",
    [
        lambda e: e.calibrate(TEXTS),
        lambda e: e.attribute(TEXTS, 0),
        ExportedExplainer.of,
        lambda e: e.to_onnx("texts.onnx"),
        lambda e: fw.choose_weights(e, TEXTS),
        lambda e: fw.write_report(e, TEXTS, "report.html"),
        lambda e: fw.baseline("saliency", e),
    ],
)
def test_what_needs_the_same_players_says_so(explainer: fw.FeatureExplainer, call: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="needs the same players in every input, and texts differ"):
        call(explainer)


@pytest.mark.parametrize(
    ("names", "problem", "output"),
    [
        ({0: "calm", 1: "angry"}, None, "probability"),
        ({0: "calm", 1: "angry"}, "multi_label_classification", "label_probability"),
        ({0: "stars"}, None, "raw"),
    ],
)
def test_outputs_are_what_the_configuration_says(names: dict[int, str], problem: str | None, output: str) -> None:
    config = BertConfig(**SHAPE, id2label=names, problem_type=problem)  # type: ignore[arg-type]  # a name that it knows
    model: nn.Module = BertForSequenceClassification(config)
    attribution = fw.TextExplainer(model, fw.words(make_tokenizer()), device="cpu").explain("good", progress=False)
    assert attribution.output_names == tuple(names.values())
    assert attribution.provenance["output"] == output
