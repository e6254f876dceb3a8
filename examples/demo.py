"""Explain a model in one forward pass, checked against enumeration; and find wrong labels among training images.

    python examples/demo.py --out demo       # under three minutes on two cores; writes demo/report.html

1. A network for every weighting learns to explain a small model of handwritten digits.
2. FastSHAP (one weighting, the paper's UNet) and a random order stand beside it.
3. All are compared with exact values, known because 16 players have 65,536 coalitions, and by inclusion.
4. The same for a table: what drives the predicted progress of a disease.
5. A tenth of the digits get a wrong label; exact nearest-neighbor values find most of them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import bundled
import fwshapley as fw
from fwshapley._internal.html import Report
from fwshapley.explanation.metrics import Evaluator, area, inclusion_curve, measure_agreement
from fwshapley.plots import plot_gallery
from fwshapley.valuation import flip_labels, measure_detection

WEIGHTS = [fw.Beta(16, 1), fw.Beta(4, 1), fw.Shapley(), fw.Beta(1, 4)]
SHOWN = 5
MOST_SUSPICIOUS = 24


def main() -> None:
    """Explain, value, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the report")
    parser.add_argument("--seconds", type=float, default=50, help="to train the explainer of digits")
    parser.add_argument("--exact", type=int, default=16, help="inputs whose values are enumerated")
    arguments = parser.parse_args()
    started, console = time.perf_counter(), Console()
    report = Report(
        "Explanations in one forward pass, and labels that are wrong",
        "A network trained without ground truth, held against exact values of the same games; and what each training "
        "image is worth.",
    )
    explain_digits(report, console, arguments.seconds, arguments.exact, out=arguments.out)
    explain_table(report, console, arguments.seconds / 3, arguments.exact)
    value_digits(report, console)
    report.text(f"Made by examples/demo.py in {time.perf_counter() - started:.0f} s, fwshapley {fw.__version__}.")
    console.print(f"[bold]{report.write(arguments.out / 'report.html')}[/bold] has the pictures.")


def explain_digits(report: Report, console: Console, seconds: float, exact_inputs: int, *, out: Path) -> None:
    """Images: three methods, by agreement with enumeration and by inclusion."""
    task = bundled.digits()
    console.print(f"Digits: a small convolutional network, {task.skill:.1%} accurate; 16 players of 2 x 2 pixels.")
    explainer = fw.FeatureExplainer(task.model, task.players, output_names=task.output_names)
    explainer.fit(task.x_train, budget=fw.Budget(seconds=seconds), learning_rate=6e-3)
    fastshap = fw.FeatureExplainer(
        task.model,
        task.players,
        surrogate=explainer.surrogate_,
        objective="kernel",
        weights=fw.Shapley(),
        constraint="normalize",
        network="unet",
    ).fit(task.x_train, budget=fw.Budget(seconds=0.7 * seconds))
    judge = second_surrogate(task, seconds / 4)

    x = task.x_test
    began = time.perf_counter()
    attribution = explainer.explain(x, weights=WEIGHTS, outputs="predicted")
    took = (time.perf_counter() - began) / len(x)
    labels = attribution.outputs
    began = time.perf_counter()
    exact = torch.stack([fw.exact_values(explainer.game(each), WEIGHTS) for each in x[:exact_inputs]], 1)
    took_exact = (time.perf_counter() - began) / exact_inputs
    truth = exact.gather(-1, labels[None, :exact_inputs, None].expand(*exact.shape[:3], 1))[..., 0]
    shuffled = torch.rand(len(x), task.players.n_players, generator=torch.Generator().manual_seed(0))

    rows = [
        compare(f"every weighting: {weights}", values[..., 0], exactly, judge=judge, x=x, labels=labels[:, 0])
        for weights, values, exactly in zip(WEIGHTS, attribution.values, truth, strict=True)
    ]
    shapley = truth[WEIGHTS.index(fw.Shapley())]
    learned = fastshap.explain(x, outputs=labels).values[..., 0]
    rows.append(compare("FastSHAP: Shapley", learned, shapley, judge=judge, x=x, labels=labels[:, 0]))
    rows.append(compare("random order", shuffled, shapley, judge=judge, x=x, labels=labels[:, 0]))

    header = ["method", "Pearson", "nRMSE", "inclusion area"]
    show(console, header, rows)
    speed = f"{1e3 * took:.2f} ms an image for {len(WEIGHTS)} weightings; enumeration takes {took_exact:.1f} s."
    console.print(speed)
    report.section("Digits").text(
        f"A convolutional network, {task.skill:.1%} accurate on {len(x)} held-out images. Its surrogate agrees with it "
        f"on {explainer.provenance['fidelity']['agreement']:.1%} of whole images. One explanation: {speed}"
    )
    report.table(
        header,
        rows,
        f"Agreement with exact values on {exact_inputs} held-out images; area under the inclusion curve on {len(x)}, "
        "judged by a second surrogate that no explainer has seen.",
    )
    picture = attribution.plot(SHOWN)
    out.mkdir(parents=True, exist_ok=True)
    picture.savefig(out / "digits.png")
    report.figure(
        picture,
        "Red speaks for the predicted class, blue against it; from small coalitions (left) to large.",
    )


def explain_table(report: Report, console: Console, seconds: float, exact_inputs: int) -> None:
    """A table: agreement with enumeration, and bars."""
    task = bundled.diabetes()
    console.print(f"Diabetes: a perceptron that explains {task.skill:.0%} of the variance; 10 columns are the players.")
    explainer = fw.FeatureExplainer(task.model, task.players, output="raw", output_names=task.output_names)
    explainer.fit(task.x_train, budget=fw.Budget(seconds=seconds))
    x = task.x_test[: 2 * exact_inputs]
    attribution = explainer.explain(x, weights=WEIGHTS)
    exact = torch.stack([fw.exact_values(explainer.game(each), WEIGHTS) for each in x], 1)[..., 0]
    rows = []
    for weights, values, truth in zip(WEIGHTS, attribution.values[..., 0], exact, strict=True):
        found = measure_agreement(values, truth)
        rows.append([f"every weighting: {weights}", f"{found.pearson:.3f}", f"{found.nrmse:.2f}"])
    show(console, ["method", "Pearson", "nRMSE"], rows)
    report.section("Diabetes").text(
        "What moves the predicted progress of a disease, in its own units. The model is a perceptron on ten columns, "
        "its surrogate a fresh one that has seen every mixture of known and unknown columns."
    )
    report.table(["method", "Pearson", "nRMSE"], rows, f"Agreement with exact values on {len(x)} held-out patients.")
    report.figure(attribution.plot(2), "Two patients under four weightings.")


def value_digits(report: Report, console: Console) -> None:
    """Training images: which labels are wrong, by what each is worth to its neighbors."""
    x, truth = bundled.digit_images()
    labels, wrong = flip_labels(truth, share=0.1, seed=0)
    began = time.perf_counter()
    valuation = fw.value_neighbors(x, labels, k=5, weights=[*WEIGHTS, fw.LeaveOneOut()])
    took = time.perf_counter() - began
    console.print(f"Wrong labels: {int(wrong.sum())} of {len(x)} digits flipped; all valued in {took:.1f} s, exactly.")
    header, rows = ["weighting", "AUROC", "found in the first 10 %", "in the first 20 %"], []
    for weights in (*WEIGHTS, fw.LeaveOneOut()):
        found = measure_detection(valuation.of(weights).values, wrong)
        rows.append([str(weights), f"{found.auroc:.3f}", f"{found.found_at_10:.0%}", f"{found.found_at_20:.0%}"])
    show(console, header, rows)
    report.section("Wrong labels").text(
        f"A tenth of {len(x)} digits got the label of another class. Each is valued by how it serves the others as one "
        f"of their five nearest neighbors, without any clean data: exact semivalues, {took:.1f} s for all weightings."
    )
    report.table(header, rows, "Share of the wrong labels found when the points of lowest value are inspected first.")
    suspects = valuation.of(fw.Shapley()).suspects(MOST_SUSPICIOUS)
    titles = [f"{labels[row]}, is {truth[row]}" if wrong[row] else f"{labels[row]}" for row in suspects]
    picture = plot_gallery(x[suspects].numpy(), titles, [bool(wrong[row]) for row in suspects])
    report.figure(picture, f"The {MOST_SUSPICIOUS} most suspicious images, with their labels; orange are wrong.")
    report.figure(valuation.of(fw.Shapley()).plot(), "All values: harmful points are left of 0.")


def second_surrogate(task: bundled.Task, seconds: float) -> Evaluator:
    """Return a judge that no explainer sees: another seed, started afresh."""
    torch.manual_seed(99)
    fresh = bundled.digit_network()
    judge = fw.Surrogate(fresh, task.players, torch.full((1, 1, 1, 1), -1.0))
    fw.train_surrogate(
        judge,
        task.model,
        task.x_train[100:],
        task.x_train[:100],
        n_players=task.players.n_players,
        output="probability",
        budget=fw.Budget(seconds=seconds),
        seed=99,
    )
    return judge


def compare(name: str, values: Tensor, truth: Tensor, *, judge: Evaluator, x: Tensor, labels: Tensor) -> list[str]:
    """One row: agreement with enumeration, and inclusion."""
    found = measure_agreement(values[: len(truth)], truth)
    with torch.no_grad():
        included = area(inclusion_curve(judge, x, values, labels, steps=16))
    return [name, f"{found.pearson:.3f}", f"{found.nrmse:.2f}", f"{included:.3f}"]


def show(console: Console, header: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
