"""Writes what the recorded results say into docs/results.md and the README, so that no figure is ever typed.

python benchmarks/publish.py            # rewrite both
python benchmarks/publish.py --check    # fail if they differ from the recorded results (the tests do this)
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from claims_page import claim_rows, claims_summary
from fwshapley.files import written_whole
from inclusion_page import inclusion_section, inclusion_text
from label_noise import TITLES
from learned_page import learned_section, learned_text
from noisy_page import noisy_section
from page_text import emphasis, spread, table
from provenance import provenance, recompressed_text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- results: made by benchmarks/publish.py -->", "<!-- end of results -->"

LABELS = (
    "least squares",
    "permutations",
    "permutations, one way",
    "multilinear",
    "shapiq KernelSHAP",
    "shapiq KernelSHAP, paired",
    "shapiq permutations",
)

MANY_INPUTS = 1000
REFINED = "128"
CURVES = (
    "inclusion, second surrogate",
    "exclusion, second surrogate",
    "inclusion, zero-masked model",
    "exclusion, zero-masked model",
)
SHOWN_WEIGHTS = ("Beta(16, 1)", "Beta(4, 1)", "Shapley", "Beta(1, 4)", "Beta(1, 16)")

README_SECTION = """\
**The paper's claims, measured.** What the abstract of FW-Shapley says, and what we found ([all
figures](docs/results.md)):

{claims}

**Learned values.** {readme_cifar} On digits (16 players), where every value can be enumerated, two minutes on two cores
give a correlation of {digits} at Beta(16, 1), Beta(4, 1) and Shapley on held-out images. An explanation of all classes
under nine weightings takes {ratio} times as long as one forward pass of the ResNet-18 explained, on {where}.

![Correlation by weighting](docs/figures/agreement.png)

{readme_inclusion}**Wrong labels.** {readme_noise}

**Learned data values.** {readme_learned}

**Sampled values.**

![Relative error against game calls](docs/figures/core.png)

On six games of 12 and 16 players, at the Shapley value, `least_squares_values` needs {best:.2f} to {worst:.2f} times
the game calls of shapiq's better KernelSHAP for the same error (geometric means over instances, at worst {highest:.2f}
on one of them; {seeds} seeds each; [all figures](docs/results.md)). Unlike KernelSHAP it works for every weighting and
gives standard errors."""

RESULTS_PAGE = """\
# Results

Made from `benchmarks/results/*.json` by `python benchmarks/publish.py`; a test fails when they differ.

{recompressed}## The paper's claims, measured

{claims_summary}

{claims}

## Learned values against long-run references: CIFAR-10

A ResNet-18 ({accuracies} accurate, retrained with surrogates and references for each sitting at the GPU; 40 epochs, 24
for "uneven") and 256 players of 2 x 2 pixels. Pearson correlation over players with references of {calls:,} game calls,
for the predicted class, mean over {images} test images; the ceiling is what the agreement of the references' halves
allows. One network is trained for all weightings, for the GPU time named; one seed.

{cifar}

![Correlation by weighting](figures/agreement.png)

"Uneven" leaves the loss over t as it is, instead of dividing it by the root of its level ([math.md](math.md), section
3); it was held against references in bf16, whose rounding is as large as what one player adds to a large coalition, so
that beta above 1 is left out. Large beta is where this network fails: the class is nearly certain once most of the
image is seen, little is left to explain, and that little is not learnt. Log odds, which do not saturate, do not help.
"FastSHAP" is the kernel objective for Shapley values with the paper's UNet. "Class mean" explains every image by the
mean explanation of its class.

Areas under the inclusion curve (higher is better) and the exclusion curve (lower is better) on 1000 test images. The
second surrogate has another seed and initialisation and was never shown to an explainer; the zero-masked model has
never seen holes. Skill on {images} images: 0 is a random order, 1 the order of the references.

{curves}

{agreement_provenance}

{inclusion}## Learned values against enumeration: digits and a table

Two minutes of training on two cores, surrogate included; inputs that were not trained on are held against enumeration
of the same game. Pearson correlation and, in brackets, relative error (nRMSE), both of values centred over
players, mean over {seeds} seeds with standard deviation. "One weighting" is the kernel objective trained as long as the
other's explainer; "sampled" is least squares with the game calls that take as long as one explanation or, where
that is less, the fewest it accepts ({sampled_calls}).

{enumerated}

![Agreement with enumeration](figures/enumeration.png)

The identity behind training without ground truth (Prop. 2.2): excess loss on shared coalitions, in units of the error,
against the error itself, for explainers on their way.

![Excess loss against squared error](figures/identity.png)

{enumeration_provenance}

## What an explanation costs

All classes under nine weightings, over one forward pass of the ResNet-18 that is explained:

{speed}

{student}

{speed_provenance}

## A thousand explanations: beside shap and captum

Shapley values of the predicted class, on inputs that were not trained on. Every method that asks about coalitions asks
the same surrogate, with its own default number of calls; correlation over players with references of {peers_calls:,}
calls on {peers_inputs} inputs (in brackets the relative error, nRMSE), and seconds for {peers_many:,} inputs; "~" is
extrapolated from fewer. Mean over seeds: {peers_seeds}. Ours was trained for {peers_seconds} s, surrogate included, and
explains all classes and weightings in that time. `refine` saves calls, which here cost next to nothing; its own sums
take the time. Gradient methods ask the network itself, so they answer another question; integrated gradients start
from a blank image. For trees alone, shap's TreeExplainer is exact and fast, for yet another game.

{peers}

![Correlation against time](figures/peers.png)

{sanity}

{peers_provenance}

## Refining an explanation by sampled coalitions

Relative error (nRMSE, all outputs) of Shapley values on inputs that were not trained on: the network alone; `refine`
with {refined} calls an input; and how many times more calls other methods need for that error. Mean and standard
deviation over {refinement_seeds} seeds; references are enumerated for 16 players, long least-squares runs otherwise.
"Three at once" is `refine` for three weightings that share the calls.
"Within two standard errors": share of refined values. "Errors foreseen": rank correlation of expected and measured
errors over held-out inputs and outputs (`calibrate`), and over inputs alone for the output that is most likely.

{refinement}

![Error against calls](figures/refinement.png)

The last column is the weak one: which outputs of an input are uncertain is easily foreseen, which inputs are uncertain
in their most likely output much less so.

{refinement_provenance}

## Wrong labels: nearest-neighbour values

A tenth of the labels became y + 1; {noise_points:,} training images, 64 principal components of their pixels, K =
{noise_k}, the soft utility. AUROC, and share of the wrong labels found after inspecting 10 % and 20 % of the images,
mean and standard deviation over {noise_seeds} seeds. "Clean reference": valued by {noise_references:,} test images; "no
reference": by each other, wrong labels included. All nearest-neighbour values of a kind share their time.

{noise}

![AUROC by weighting](figures/label_noise.png)

Leave-one-out, done right, counts every point that is among the K nearest of some reference point. {leave_one_out}.
(Of the values that the FW-Shapley authors published for this baseline, at most one is not 0.)

{noise_provenance}

{learned}
{noisy}## What a valuation costs

Points around ten class centres, K = 5. Every row is a process of its own; its peak memory is that of all processes it
starts, with Python, libraries and the points themselves.

{valuation_speed}

{valuation_ratios}

![Growth with points and references](figures/valuation_speed.png)

What a tolerance saves, 60,000 x 1,000 points, 64 columns:

{tolerance}

{valuation_provenance}

## Estimators: error against game calls

Game calls that each method needs for the error that the better of shapiq's two KernelSHAPs reaches with its own, as
a geometric mean over budgets and instances of the game, in brackets the range over instances: below 1 is better. At
the Shapley value, which all of them can estimate.

{core_calls}

![Relative error against game calls](figures/core.png)

Least squares is the one to use. Permutations and the multilinear extension give n contributions for n calls, where
least squares learns about every player from every call; they are unbiased, and checks on it. Walking an order
backwards too pays on smooth games (forest) and is wasted where a coalition and its complement decide alike (voting):
`permutation_values(antithetic=False)`, one way, is for those.

{core_provenance}

## The core's own cost

Exact values of nine weightings in one pass, over calling a game that only looks values up:

{enumeration}

Coalitions of given sizes, one argsort and a scatter against the usual two argsorts:

{sampling}

Weights of Beta(16, 1) for {players:,} players: log weights {log_weights:.0f} ms, log kernel {log_kernel:.0f} ms, size
law {size_law:.0f} ms; w(s) sums to 1 within {rounding:.1g}.

## Lemma 5.1 and the paper's kernel

The figures and what they mean are in [math.md](math.md#4-where-the-paper-is-inexact).

{lemma_provenance}
"""


def load(name: str) -> dict[str, Any]:
    """One benchmark's recorded document."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def noisy_text() -> str:
    """Sections on learnt features and on the cost of data values, as far as these were recorded."""
    noisy, times = (load(name) if recorded(name) else None for name in ("noisy_labels", "table2"))
    text = noisy_section(noisy, times)
    return f"{text}\n" if text else ""


def claims() -> tuple[list[str], list[list[str]]]:
    """Return the claims of the paper, with what was recorded of each."""
    names = ("inclusion", "table1", "table2", "noisy_labels", "lemma")
    return claim_rows({name: load(name) for name in names if recorded(name)})


def recorded(*names: str) -> bool:
    """Whether benchmarks have been run; not all of them were at the same time."""
    return all((RESULTS / f"{name}.json").exists() for name in names)


def calls_table(core: dict[str, Any]) -> str:
    """Calls needed relative to the better KernelSHAP, by game and method, with the range over instances."""
    rows = [
        [f"{game}, n = {n}", *(with_range(by_method[label]) for label in LABELS)]
        for n, games in core["results"]["calls_ratio"].items()
        for game, by_method in games.items()
    ]
    return table(["game", *LABELS], rows)


def with_range(ratio: dict[str, float]) -> str:
    """Mean, and lowest and highest."""
    return f"{ratio['mean']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def cifar_table(agreement: dict[str, Any]) -> str:
    """Correlation by weighting and run."""
    runs = agreement["runs"]
    whole = next(run for run in runs.values() if len(run["agreement"]) > 1)["agreement"]
    means = next(run["class mean"] for run in reversed(runs.values()) if "class mean" in run)
    rows = [
        [
            name,
            *(pearson(run, name) for run in runs.values()),
            f"{means[name]:.2f}",
            f"{whole[name]['ceiling']:.2f}",
        ]
        for name in sorted(whole, key=emphasis)
    ]
    return table(["weighting", *runs, "class mean", "ceiling"], rows)


def curves_table(agreement: dict[str, Any]) -> str:
    """Areas and skill of a few weightings, by run."""
    rows = []
    for run, found in agreement["runs"].items():
        for name in ("Beta(16, 1)", "Beta(4, 1)", "Shapley", "Beta(1, 4)"):
            if name in found["curves"]["areas"]:
                areas, skills = found["curves"]["areas"][name], found["curves"]["skill"][name]
                rows.append([f"{run}: {name}", *(with_skill(areas[key], skills.get(key)) for key in CURVES)])
    sittings: dict[tuple[float, ...], list[str]] = {}
    for run, found in agreement["runs"].items():
        sittings.setdefault(tuple(found["curves"]["random"][key] for key in CURVES), []).append(run)
    for areas, runs in sittings.items():
        rows.append([f"random order, beside {' and '.join(runs)}", *(f"{area:.3f}" for area in areas)])
    return table(["", *(key.replace("inclusion", "incl.").replace("exclusion", "excl.") for key in CURVES)], rows)


def enumeration_table(found: dict[str, Any]) -> str:
    """Agreement with enumeration, by game, method and weighting."""
    rows = []
    for game, results in found.items():
        if game == "identity":
            continue
        for method, by_weights in results["agreement"].items():
            cells = [mean_and_error(by_weights.get(name)) for name in SHOWN_WEIGHTS]
            rows.append([f"{game}: {method}", *cells])
    return table(["", *SHOWN_WEIGHTS], rows)


def speed_table(documents: list[dict[str, Any]]) -> str:
    """Milliseconds and ratios, by machine and batch size."""
    rows = []
    for document in documents:
        machine = document["machine"]
        where = machine["gpu"] or f"{machine['cores']} CPU cores"
        for row in document["results"]["times"]:
            cells = [f"{1e3 * row['forward_s']:.2f} ms" if row["forward_s"] else "-"]
            cells += [with_ratio(row[f"{name}_s"], row.get(f"{name}_ratio")) for name in ("explainer", "student")]
            rows.append(
                [f"{where}, {row['batch']} image{'s' * (row['batch'] > 1)}{', compiled' * row['compiled']}", *cells]
            )
    return table(["", "forward pass", "explanation", "slim student"], rows)


def refinement_table(found: dict[str, Any]) -> str:
    """What refinement gains, by game, for Shapley values."""
    rows = []
    for game, results in found.items():
        others = ("refine, three at once", "without the network", "least squares", "shap KernelExplainer")
        ratios = [results["calls ratio"].get(method, {}).get("Shapley", {}).get(REFINED) for method in others]
        most = [max(map(int, results["error"][method])) for method in others]
        calibrated = results["calibration"]["Shapley"]
        rows.append(
            [
                game,
                spread(results["network"]["Shapley"], digits=2),
                spread(results["error"]["refine"][REFINED]["Shapley"], digits=2),
                *(
                    f"beyond {calls} calls" if ratio is None else spread(ratio, digits=1)
                    for ratio, calls in zip(ratios, most, strict=True)
                ),
                f"{results['coverage of two standard errors'][REFINED][0]:.0%}",
                spread(calibrated["spearman"], digits=2),
                spread(calibrated["spearman_top"], digits=2),
            ]
        )
    header = [
        "network alone",
        f"refined, {REFINED} calls",
        "calls three at once",
        "without the network",
        "least squares",
        "KernelSHAP (shap)",
    ]
    return table(["", *header, "within two standard errors", "errors foreseen", "by inputs alone"], rows)


def peers_table(found: dict[str, Any]) -> str:
    """Agreement and time of each method, by case."""
    cases = found["tables"]
    methods = dict.fromkeys(method for rows in cases.values() for method in rows if method != "ceiling")
    rows = [
        [method, *(cell for found_here in cases.values() for cell in peers_cells(found_here.get(method)))]
        for method in methods
    ]
    ceilings = [cell for rows in cases.values() for cell in (f"{rows['ceiling']['pearson']['mean']:.3f}", "")]
    header = [f"{case}: {what}" for case in cases for what in ("correlation", "time")]
    return table(["", *header], [*rows, ["ceiling of the references", *ceilings]])


def peers_cells(row: dict[str, Any] | None) -> list[str]:
    """Correlation with its spread and error; time, marked where it was extrapolated."""
    if row is None:
        return ["", ""]
    deviation = row["pearson"]["deviation"]
    varied = f" ± {deviation:.3f}" if deviation else ""
    agreed = f"{row['pearson']['mean']:.3f}{varied} ({row['nrmse']['mean']:.2f})"
    about = "" if row["measured"]["mean"] >= MANY_INPUTS else "~"
    return [agreed, f"{about}{row['seconds']['mean']:.3g} s"]


def sanity_text(found: dict[str, Any]) -> str:
    """What the sanity run found."""
    told = []
    for name, runs in found["sanity"].items():
        skills = [run["skill"] for run in runs]
        known = ", ".join("not defined" if skill is None else f"{skill:.2f}" for skill in skills)
        warned = f"{sum(run['report warns'] for run in runs)} of {len(runs)} reports warn"
        told.append(f"with {name} the skill is {known}, and {warned}")
    return (
        "A sanity run: gradient boosting on breast cancer, judged by the labels of held-out inputs. "
        f"By seed, {'; '.join(told)}. Skill is not defined where even the order of long sampling is no better than a "
        "random one."
    )


def noise_table(found: dict[str, Any]) -> str:
    """Detection by method and data set."""
    rows = []
    for method in sorted(next(iter(found["tables"].values())), key=place_of_method):
        cells = [
            cell
            for by_method in found["tables"].values()
            for cell in (
                mean_and_spread(by_method[method]["auroc"]),
                f"{mean(by_method[method]['found_at_10']):.0%} / {mean(by_method[method]['found_at_20']):.0%}",
                f"{mean(by_method[method]['seconds']):.1f} s",
            )
        ]
        rows.append([method, *cells])
    header = [f"{TITLES[name]}: {what}" for name in found["tables"] for what in ("AUROC", "at 10 % / 20 %", "time")]
    return table(["", *header], rows)


def place_of_method(method: str) -> tuple[bool, bool, float]:
    """Place in the table: by kind of reference, weightings from small coalitions to large, then the others."""
    weights = re.match(r"Shapley|Beta\([\d.]+, [\d.]+\)", method)
    ours = "reference" in method
    return not ours, "no reference" in method, emphasis(weights[0]) if weights else float("inf")


def leave_one_out_text(found: dict[str, Any]) -> str:
    """How leave-one-out compares with Shapley on each data set."""
    compared = [
        f"{mean(rows['leave-one-out, clean reference']['auroc']):.3f} beside "
        f"{mean(rows['Shapley, clean reference']['auroc']):.3f} for Shapley on {TITLES[name]}"
        for name, rows in found["tables"].items()
    ]
    return f"Its AUROC is {' and '.join(compared)}"


def valuation_table(found: dict[str, Any]) -> str:
    """Seconds and peak memory of each measurement."""
    return table(
        ["", "points x references, columns", "seconds", "peak memory"],
        [
            [
                what_was_run(row),
                f"{row['n']:,} x {row['m']:,}, {row['d']}",
                f"{row['seconds']:.2f}",
                f"{row['peak_mb'] / 1024:.2f} GB",
            ]
            for row in (*found["compared"], *found["large"], *found["gpu"])
        ],
    )


def gpu_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Measurements on a GPU, as rows of the table: the median of repeated ones."""
    rows = sorted(document["results"]["svhn"][1:], key=lambda row: row["seconds"])
    row = rows[len(rows) // 2]
    size = {"method": "fwshapley", "alpha": 1, "beta": 1, "n": 73_257, "m": 26_032, "d": 512}
    return [size | {"gpu": document["machine"]["gpu"], "seconds": row["seconds"], "peak_mb": row["gpu_mb"]}]


def what_was_run(row: dict[str, Any]) -> str:
    """Name of a measurement."""
    if row["method"] == "product":
        return f"bare product of the distances, {row['dtype']}"
    if row["method"] == "pydvl":
        return f"pyDVL, Shapley, {row['jobs']} jobs"
    weights = "Shapley" if row["alpha"] == row["beta"] == 1 else f"Beta({row['alpha']}, {row['beta']})"
    return f"{weights}{', vote' * (row.get('utility') == 'vote')}{', ' + row['gpu'] if 'gpu' in row else ''}"


def valuation_ratios(found: dict[str, Any]) -> str:
    """How ours compares, in one run."""
    rows = {what_was_run(row): row for row in found["compared"]}
    ours = rows["Shapley"]
    text = "; ".join(
        f"{ours['seconds'] / row['seconds']:.1f} times the {name}"
        for name, row in rows.items()
        if row["method"] == "product"
    )
    peers = [row for row in rows.values() if row["method"] == "pydvl"]
    compared = "".join(
        f" pyDVL takes {row['seconds'] / ours['seconds']:.0f} times as long, and "
        f"{row['peak_mb'] / ours['peak_mb']:.1f} times the memory."
        for row in peers
    )
    vote = next(row for row in found["large"] if row.get("utility") == "vote")
    return f"Shapley takes {text}.{compared} A vote takes {vote['seconds'] / vote['m']:.3f} s a reference point."


def tolerance_table(found: dict[str, Any]) -> str:
    """Seconds by weighting and tolerance."""
    columns = [f"{row['tolerance']:g}" for row in next(iter(found["tolerance"].values()))]
    rows = [[name, *(f"{row['seconds']:.2f} s" for row in several)] for name, several in found["tolerance"].items()]
    return table(["tolerance", *columns], rows)


def mean(numbers: list[float]) -> float:
    """Mean over seeds."""
    return statistics.fmean(numbers)


def mean_and_spread(numbers: list[float]) -> str:
    """Mean and standard deviation over seeds."""
    return f"{mean(numbers):.3f} ± {statistics.stdev(numbers) if len(numbers) > 1 else 0:.3f}"


def student_text(documents: list[dict[str, Any]]) -> str:
    """How the student agrees with the references, beside its teacher."""
    student = next(each["results"]["student"] for each in documents if "student" in each["results"])
    rows = [
        [name, f"{found['teacher']:.3f}", f"{found['student']:.3f}"]
        for name, found in sorted(student["pearson"].items(), key=lambda item: emphasis(item[0]))
        if emphasis(name) <= 1
    ]
    sizes = student["parameters"]
    return (
        f"The student ({sizes['student'] / 1e6:.1f} of {sizes['teacher'] / 1e6:.1f} million parameters) was distilled "
        f"in {student['seconds']} s from the explainer of {student['explainer']}. Correlation with the references:\n\n"
        + table(["weighting", "explainer", "student"], rows)
    )


def pearson(run: dict[str, Any], name: str) -> str:
    """Correlation, or nothing where a run has not learnt the weighting or its references do not know it."""
    known = name in run["agreement"] and (run.get("references") != "bf16" or emphasis(name) <= 1)
    return f"{run['agreement'][name]['pearson']:.2f}" if known else ""


def with_skill(area: float, skill: float | None) -> str:
    """Area, and skill where it is known."""
    return f"{area:.3f}" if skill is None else f"{area:.3f} ({skill:.2f})"


def mean_and_error(row: dict[str, list[float]] | None) -> str:
    """Correlation with its spread, and relative error."""
    return "" if row is None else f"{row['pearson'][0]:.3f} ± {row['pearson'][1]:.3f} ({row['nrmse'][0]:.2f})"


def with_ratio(seconds: float, ratio: float | None) -> str:
    """Time, and how many forward passes that is."""
    return f"{1e3 * seconds:.2f} ms" if ratio is None else f"{1e3 * seconds:.2f} ms ({ratio:.2f})"


def readme_section() -> str:
    """What the first page says of the estimators."""
    core = load("core")
    ratios = [row["least squares"] for games in core["results"]["calls_ratio"].values() for row in games.values()]
    means = [ratio["mean"] for ratio in ratios]
    enumerated = load("enumeration")["results"]["digits, probability"]["agreement"]["every weighting"]
    speed = load("explain_speed")
    ratios_of_time = [row["explainer_ratio"] for row in speed["results"]["times"] if "explainer_ratio" in row]
    return README_SECTION.format(
        claims=table(*claims(), others="---"),
        readme_cifar=readme_cifar(load("agreement")),
        readme_inclusion=readme_inclusion() if recorded("inclusion") else "",
        readme_noise=readme_noise(load("label_noise"), load("valuation_speed")),
        readme_learned=learned_text(load("learned_valuation")),
        digits=", ".join(f"{enumerated[name]['pearson'][0]:.2f}" for name in ("Beta(16, 1)", "Beta(4, 1)", "Shapley")),
        ratio=f"{min(ratios_of_time):.1f} to {max(ratios_of_time):.1f}",
        where=f"{speed['machine']['cores']} CPU cores",
        best=min(means),
        worst=max(means),
        highest=max(ratio["high"] for ratio in ratios),
        seeds=len(core["seeds"]),
    )


def readme_cifar(agreement: dict[str, Any]) -> str:
    """What the first page says of the explainer on CIFAR-10."""
    minutes = {run: found for run, found in agreement["results"]["runs"].items() if re.fullmatch(r"\d+ minutes", run)}
    found = [
        f"{run} on {article(agreement['machine']['gpu'])} give "
        + ", ".join(f"{rows['agreement'][name]['pearson']:.2f}" for name in ("Beta(16, 1)", "Beta(4, 1)", "Shapley"))
        for run, rows in minutes.items()
    ]
    return (
        "One network for every weighting of a ResNet-18 on CIFAR-10 "
        f"({between([rows['accuracy'] for rows in minutes.values()])} accurate, 256 players): correlation with "
        "long-run references at Beta(16, 1), Beta(4, 1) and Shapley; "
        f"{'; '.join(found)} (one seed, [all figures](docs/results.md))."
    )


def readme_inclusion() -> str:
    """What the first page says of inclusion, as a paragraph with its figure."""
    figure = "![Inclusion and exclusion curves](docs/figures/inclusion.png)"
    return f"**Finding what matters.** {inclusion_text(load('inclusion'))}\n\n{figure}\n\n"


def readme_noise(noise: dict[str, Any], speed: dict[str, Any]) -> str:
    """What the first page says of wrong labels."""
    found = [
        f"{mean(rows['Shapley, clean reference']['auroc']):.3f} on {TITLES[name]} "
        f"({mean(rows['Shapley, no reference']['auroc']):.3f} without clean reference points)"
        for name, rows in noise["results"]["tables"].items()
    ]
    rows = {what_was_run(row): row for row in speed["results"]["compared"]}
    large = speed["results"]["large"][0]
    peer = next((row for row in rows.values() if row["method"] == "pydvl"), None)
    beside = f", where pyDVL takes {peer['seconds']:.0f} s" if peer else ""
    return (
        f"With a tenth of the labels flipped and no features but principal components of pixels, Shapley values of "
        f"nearest neighbours find them with an AUROC of {' and '.join(found)}. Exact values of 60,000 points for 1,000 "
        f"references take {rows['Shapley']['seconds']:.1f} s on {speed['machine']['cores']} CPU cores{beside}; of "
        f"{large['n']:,} for {large['m']:,}, {large['seconds']:.0f} s."
    )


def between(shares: list[float]) -> str:
    """Lowest and highest share, in percent."""
    return f"{100 * min(shares):.1f} to {max(shares):.1%}"


def article(machine: str) -> str:
    """Name of a machine, in a sentence."""
    return f"one {machine}"


def results_page() -> str:
    """All of docs/results.md."""
    core, lemma = load("core"), load("lemma")
    agreement, enumerated = load("agreement"), load("enumeration")
    speeds = [load(path.stem) for path in sorted(RESULTS.glob("explain_speed*.json"))]
    found = core["results"]
    games = [results for game, results in enumerated["results"].items() if game != "identity"]
    calls = [facts["game calls of the sampled"] for results in games for facts in results["facts"]]
    enumeration = [
        [
            str(row["players"]),
            f"{row['bare_game_s']:.3f}",
            f"{row['exact_values_s']:.3f}",
            f"{row['us_per_coalition']:.2f}",
        ]
        for row in found["enumeration"]
    ]
    sampling = [
        [
            f"{row['coalitions']} of {row['players']} players",
            f"{1e3 * row['ours_s']:.2f}",
            f"{1e3 * row['two_argsorts_s']:.2f}",
            f"{row['two_argsorts_s'] / row['ours_s']:.2f}",
        ]
        for row in found["sampling"]
    ]
    weights = found["weights"]
    peers, refined, learned = load("peers"), load("refinement"), load("learned_valuation")
    noise, valued = load("label_noise"), load("valuation_speed")
    on_gpu = [load(path.stem) for path in RESULTS.glob("valuation_speed_gpu.json")]
    valuation = valued["results"] | {"gpu": [row for each in on_gpu for row in gpu_rows(each)]}
    return RESULTS_PAGE.format(
        recompressed=recompressed_text([load(path.stem) for path in sorted(RESULTS.glob("*.json"))]),
        claims_summary=claims_summary(claims()[1]),
        claims=table(*claims(), others="---"),
        inclusion=inclusion_section(load("inclusion"), load("table1"), speeds)
        if recorded("inclusion", "table1")
        else "",
        refined=REFINED,
        refinement=refinement_table(refined["results"]),
        refinement_seeds=len(refined["seeds"]),
        refinement_provenance=provenance(refined),
        peers=peers_table(peers["results"]),
        peers_calls=peers["results"]["calls"],
        peers_inputs=peers["results"]["inputs"],
        peers_many=peers["results"]["many"],
        peers_seconds=peers["results"]["seconds"],
        peers_seeds=len(peers["seeds"]),
        sanity=sanity_text(peers["results"]),
        peers_provenance=provenance(peers),
        learned=learned_section(learned),
        noisy=noisy_text(),
        noise_points=noise["results"]["points"],
        noise_references=noise["results"]["references"],
        noise_k=noise["results"]["k"],
        noise_seeds=len(noise["seeds"]),
        noise=noise_table(noise["results"]),
        leave_one_out=leave_one_out_text(noise["results"]),
        noise_provenance=provenance(noise),
        valuation_speed=valuation_table(valuation),
        valuation_ratios=valuation_ratios(valuation),
        tolerance=tolerance_table(valuation),
        valuation_provenance="\n\n".join(map(provenance, (valued, *on_gpu))),
        accuracies=between([run["accuracy"] for run in agreement["results"]["runs"].values()]),
        calls=agreement["results"]["calls"],
        images=agreement["results"]["images"],
        cifar=cifar_table(agreement["results"]),
        curves=curves_table(agreement["results"]),
        agreement_provenance=provenance(agreement),
        seeds=len(enumerated["seeds"]),
        sampled_calls=f"{min(calls)} to {max(calls)}",
        enumerated=enumeration_table(enumerated["results"]),
        enumeration_provenance=provenance(enumerated),
        speed=speed_table(speeds),
        student=student_text(speeds),
        speed_provenance="\n\n".join(map(provenance, speeds)),
        core_calls=calls_table(core),
        core_provenance=provenance(core),
        enumeration=table(
            ["players", "bare game, s", "exact values, s", "µs a coalition beyond the game"], enumeration
        ),
        sampling=table(["drawn", "ours, ms", "two argsorts, ms", "ratio"], sampling),
        players=weights["players"],
        log_weights=1e3 * weights["log_weights_s"],
        log_kernel=1e3 * weights["log_kernel_s"],
        size_law=1e3 * weights["size_law_s"],
        rounding=max(abs(weights["sum_minus_one"]), sys.float_info.epsilon),
        lemma_provenance=provenance(lemma),
    )


def readme_page() -> str:
    """README with its results section made anew."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{readme_section()}\n{END}{after}"


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    check = parser.parse_args().check
    for path, text in ((README, readme_page()), (ROOT / "docs" / "results.md", results_page())):
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if check and current != text:
            sys.exit(f"{path.relative_to(ROOT)} differs from the recorded results: run python benchmarks/publish.py")
        if current != text:
            with written_whole(path) as temporary:
                temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
