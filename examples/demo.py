"""Explain models, compare with exact values, and find wrong labels in training data.

    python examples/demo.py --out demo       # under three minutes on two cores; writes demo/report.html

1. Train one network that explains a small model of handwritten digits under every weighting.
2. Train FastSHAP (one weighting, the paper's UNet) for comparison.
3. Compare both, and a random order, with exact values (16 players have 65,536 coalitions) and by inclusion curves.
4. Do the same for a table: which measurements move the predicted progress of a disease.
5. Make a tenth of the labels of digits wrong; exact nearest-neighbor values find most of them.
6. Audit these labels: how probable it is that each is wrong, which is right, and why; writes demo/review.html.
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
from fwshapley.objectives import Kernel
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
    started = time.perf_counter()
    console = Console()
    report = Report(
        "Explanations in one forward pass, and wrong labels",
        "Learned values compared with exact values of the same games, and values of training images.",
    )
    explain_digits(report, console, arguments.seconds, arguments.exact, out=arguments.out)
    explain_table(report, console, arguments.seconds / 3, arguments.exact)
    value_digits(report, console)
    audit_digits(report, console, arguments.seconds / 3, out=arguments.out)
    report.text(f"Made by examples/demo.py in {time.perf_counter() - started:.0f} s, fwshapley {fw.__version__}.")
    console.print(f"[bold]{report.write(arguments.out / 'report.html')}[/bold] has the tables and pictures.")
    console.print("fwshapley serve --demo shows explanations in a browser, with sliders for the weighting.")


def explain_digits(report: Report, console: Console, seconds: float, exact_inputs: int, *, out: Path) -> None:
    """Compare three methods on images, by agreement with exact values and by inclusion curves."""
    task = bundled.digits()
    console.print(f"Digits: a small convolutional network, {task.skill:.1%} accurate; 16 players of 2 x 2 pixels.")
    explainer = fw.FeatureExplainer(task.model, task.players, output_names=task.output_names)
    explainer.fit(task.x_train, budget=fw.Budget(seconds=seconds), learning_rate=6e-3)
    fastshap = fw.FeatureExplainer(
        task.model,
        task.players,
        surrogate=explainer.surrogate_,
        objective=Kernel(fw.Shapley(), constraint="normalize"),
        network="unet",
    ).fit(task.x_train, budget=fw.Budget(seconds=0.7 * seconds))
    judge = second_surrogate(task, seconds / 4)

    x = task.x_test
    start = time.perf_counter()
    attribution = explainer.explain(x, weights=WEIGHTS, outputs="predicted")
    took = (time.perf_counter() - start) / len(x)
    labels = attribution.outputs
    start = time.perf_counter()
    exact = torch.stack([fw.exact_values(explainer.game(each), WEIGHTS) for each in x[:exact_inputs]], 1)
    took_exact = (time.perf_counter() - start) / exact_inputs
    truth = exact.gather(-1, labels[None, :exact_inputs, None].expand(*exact.shape[:3], 1))[..., 0]
    shuffled = torch.rand(len(x), task.players.n_players, generator=torch.Generator().manual_seed(0))

    rows = [
        compare(f"every weighting: {weights}", values[..., 0], exact_values, judge=judge, x=x, labels=labels[:, 0])
        for weights, values, exact_values in zip(WEIGHTS, attribution.values, truth, strict=True)
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
        f"on {explainer.fitted_.provenance['fidelity']['agreement']:.1%} of complete images. One explanation: {speed}"
    )
    report.table(
        header,
        rows,
        f"Agreement with exact values on {exact_inputs} held-out images; area under the inclusion curve on {len(x)}, "
        "judged by a second surrogate that no explainer was trained with.",
    )
    picture = attribution.plot(SHOWN)
    out.mkdir(parents=True, exist_ok=True)
    picture.savefig(out / "digits.png")
    report.figure(
        picture,
        "Orange patches speak for the predicted class, blue ones against it. Small coalitions count most on the left, "
        "large ones on the right.",
    )
    report.figure(
        attribution.plot_inclusion(explainer.game(x[0])),
        "What suffices for the first digit: its patches in the order of their values, and what the surrogate predicts "
        "from them alone.",
    )


def explain_table(report: Report, console: Console, seconds: float, exact_inputs: int) -> None:
    """Compare learned values of a table with exact ones, and plot them."""
    task = bundled.diabetes()
    console.print(f"Diabetes: a perceptron that explains {task.skill:.0%} of the variance; 10 columns are the players.")
    explainer = fw.FeatureExplainer(task.model, task.players, output="raw", output_names=task.output_names)
    explainer.fit(task.x_train, budget=fw.Budget(seconds=seconds))
    x = task.x_test[: 2 * exact_inputs]
    attribution = explainer.explain(x, weights=WEIGHTS)
    exact = torch.stack([fw.exact_values(explainer.game(each), WEIGHTS) for each in x], 1)[..., 0]
    rows = []
    for weights, values, truth in zip(WEIGHTS, attribution.values[..., 0], exact, strict=True):
        agreement = measure_agreement(values, truth)
        rows.append([f"every weighting: {weights}", f"{agreement.pearson:.3f}", f"{agreement.nrmse:.2f}"])
    show(console, ["method", "Pearson", "nRMSE"], rows)
    report.section("Diabetes").text(
        "Which measurements move the predicted progress of a disease, in the units of the prediction. The model is a "
        "perceptron of ten columns; its surrogate was trained on inputs with hidden columns."
    )
    report.table(["method", "Pearson", "nRMSE"], rows, f"Agreement with exact values on {len(x)} held-out patients.")
    report.figure(attribution.plot(2), "Two patients under four weightings.")


def value_digits(report: Report, console: Console) -> None:
    """Find wrong labels of training images by their nearest-neighbor values."""
    x, truth = bundled.digit_images()
    labels, wrong = flip_labels(truth, share=0.1, seed=0)
    start = time.perf_counter()
    valuation = fw.value_neighbors(x, labels, k=5, weights=[*WEIGHTS, fw.LeaveOneOut()])
    took = time.perf_counter() - start
    console.print(f"Wrong labels: {int(wrong.sum())} of {len(x)} digits flipped; all valued in {took:.1f} s, exactly.")
    header = ["weighting", "AUROC", "found in the first 10 %", "in the first 20 %"]
    rows = []
    for weights in (*WEIGHTS, fw.LeaveOneOut()):
        detection = measure_detection(valuation.of(weights).values, wrong)
        shares = [f"{detection.found_at_10:.0%}", f"{detection.found_at_20:.0%}"]
        rows.append([str(weights), f"{detection.auroc:.3f}", *shares])
    show(console, header, rows)
    report.section("Wrong labels").text(
        f"A tenth of {len(x)} digits got the label of another class. Each digit is valued by how it helps nearest "
        f"neighbors to predict the others, without clean data: exact semivalues, {took:.1f} s for all weightings."
    )
    report.table(header, rows, "Share of the wrong labels found when points are inspected from the lowest value on.")
    suspects = valuation.of(fw.Shapley()).suspects(MOST_SUSPICIOUS)
    titles = [f"{labels[row]}, is {truth[row]}" if wrong[row] else f"{labels[row]}" for row in suspects]
    picture = plot_gallery(x[suspects].numpy(), titles, [bool(wrong[row]) for row in suspects])
    report.figure(picture, f"The {MOST_SUSPICIOUS} most suspicious images with their labels; wrong ones are orange.")
    report.figure(valuation.of(fw.Shapley()).plot(), "All values: points left of 0 make predictions worse.")


def audit_digits(report: Report, console: Console, seconds: float, *, out: Path) -> None:
    """Audit the labels of training images, compare with the truth, and write the page of a review."""
    x, truth = bundled.digit_images()
    labels, wrong = flip_labels(truth, share=0.1, seed=0)
    start = time.perf_counter()
    audit = fw.LabelAudit(budget=fw.Budget(seconds=seconds)).fit(x.flatten(1), labels)
    took = time.perf_counter() - start
    likely = torch.from_numpy(audit.wrong_probability_ > 0.5)
    suggested = torch.from_numpy(audit.suggested_labels_)
    found = f"{int((likely & wrong).sum())} of {int(wrong.sum())} wrong labels found"
    right = f"{float((suggested == truth)[likely].double().mean()):.0%} of the suggested labels are right"
    alarms = f"{int((likely & ~wrong).sum())} of {int((~wrong).sum())} correct labels suspected"
    console.print(f"Audit: {found}, {alarms}; {right}; {took:.0f} s.")
    path = audit.write_review(out / "review.html", images=x, title="Suspicious digits")
    console.print(f"[bold]{path}[/bold] is where a person decides on them.")
    measured = audit.evidence_.assign(the_combination=-audit.wrong_probability_)
    measured["neighbor_disagreement"] *= -1  # the lower, the more suspicious, as all others
    rows = []
    for name in measured:
        detection = measure_detection(measured[name].to_numpy(), wrong)
        rows.append([str(name).replace("_", " "), f"{detection.auroc:.4f}", f"{detection.found_at_10:.0%}"])
    report.section("Audit of the labels").text(
        f"{found}, {alarms}; {right}. The audit estimates that {audit.noise_:.1%} of the labels are wrong. It took "
        f"{took:.0f} s. The page review.html is where a person decides."
    )
    report.table(["evidence", "AUROC", "found in the first 10 %"], rows, "Each kind of evidence, and all combined.")
    report.text(f"Why the first suspect: {'; '.join(audit.reasons(int(audit.ranking_[0])))}.")


def second_surrogate(task: bundled.Task, seconds: float) -> Evaluator:
    """Return a surrogate that no explainer was trained with: a new network with another seed."""
    torch.manual_seed(99)
    fresh = bundled.digit_network()
    judge = fw.explanation.Surrogate(fresh, task.players, torch.full((1, 1, 1, 1), -1.0))
    masked_model = fw.games.MaskedModel(judge, "probability", task.players.n_players, torch.device("cpu"))
    options = fw.training.TrainingOptions(fw.Budget(seconds=seconds), batch_size=256, seed=99)
    x = task.x_train
    fw.explanation.train_surrogate(masked_model, task.model, x[100:], x[:100], options)
    return judge


def compare(name: str, values: Tensor, truth: Tensor, *, judge: Evaluator, x: Tensor, labels: Tensor) -> list[str]:
    """Return one row: agreement with exact values, and the inclusion area."""
    agreement = measure_agreement(values[: len(truth)], truth)
    with torch.no_grad():
        included = area(inclusion_curve(judge, x, values, labels, steps=16))
    return [name, f"{agreement.pearson:.3f}", f"{agreement.nrmse:.2f}", f"{included:.3f}"]


def show(console: Console, header: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    table = Table(*header, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
