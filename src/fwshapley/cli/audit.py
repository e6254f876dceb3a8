"""`fwshapley audit`: which labels of a table, or of a folder of pictures, are probably wrong, and why."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import fwshapley as fw
from fwshapley._internal.checks import MAX_SEED
from fwshapley._internal.files import check_free, locked
from fwshapley._internal.tensor_checks import choose_device
from fwshapley.audit.points import AuditMetric
from fwshapley.audit.review.corrections import apply_decisions
from fwshapley.audit.review.decisions import read_decisions
from fwshapley.cli.audit_input import PictureOptions, read_test, read_to_audit
from fwshapley.cli.audit_report import RESULTS, Audited, show, write_results
from fwshapley.cli.checkpoints import Checkpoints
from fwshapley.cli.console import MAX_STEPS, errors_explained, print_line
from fwshapley.cli.input_format import image_format
from fwshapley.cli.labeled_options import (
    Data,
    Deviations,
    Encoding,
    Force,
    Gray,
    Ignored,
    Means,
    PictureSize,
    Top,
    pictured,
    reading,
    refuse,
    refuse_others,
    writing,
)

LABEL_HELP = "Column of labels; not needed for an .npz file."
TEST_HELP = "Other data, such as test data, of which near duplicates of the points are listed."
BACKBONE_HELP = (
    "Where features of pictures come from: a network of yours (package.module:attribute or file.py:attribute, both run "
    "code, or a .pt2 file of torch.export); efficientnet-lite0, the default if it is installed; or none, which trains "
    "networks on the pictures."
)
OUT_HELP = "Folder for the results; with --apply, the corrected copy of the data."
APPLY_HELP = "Write a copy of DATA to --out in which the decisions that review.html has exported are applied."
RESUME_HELP = "Use what an earlier run has kept: continue training that was stopped, or write results again in seconds."
SUSPECTS_HELP = "Number of points to review; by default all that are wrong with a probability of 10 %, up to 1,000."

KEPT = ["given_labels", "injected_errors", "*_networks", "features", "*_labels/fold_*", "*_errors/fold_*"]
"""Files that an audit keeps, as patterns."""


def audit(
    data: Data,
    *,
    label: Annotated[str | None, reading("--label", "-l", metavar="COLUMN", help=LABEL_HELP)] = None,
    test: Annotated[Path | None, reading(metavar="DATA", help=TEST_HELP)] = None,
    ignore: Ignored = None,
    encoding: Encoding = None,
    size: PictureSize = None,
    gray: Gray = None,
    backbone: Annotated[str | None, pictured(metavar="MODEL", help=BACKBONE_HELP)] = None,
    mean: Means = None,
    std: Deviations = None,
    folds: Annotated[int, typer.Option(min=2, metavar="N", help="Number of folds of the cross-fitted models.")] = 5,
    seconds: Annotated[float | None, typer.Option(metavar="X", help="Training time of all models together.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=MAX_STEPS, metavar="N", help="Training steps.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, metavar="N", help="Seed of everything random.")] = 0,
    k: Annotated[int, typer.Option("--k", "-k", min=1, metavar="N", help="Number of nearest neighbors.")] = 10,
    metric: Annotated[AuditMetric, typer.Option(help="Distance between points.")] = "auto",
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Number of cores.")] = None,
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda, or auto.")] = "auto",
    out: Annotated[Path, writing("--out", "-o", metavar="PATH", help=OUT_HELP)],
    top: Top = 20,
    suspects: Annotated[int | None, writing(min=1, metavar="N", help=SUSPECTS_HELP)] = None,
    resume: Annotated[bool, writing("--resume", help=RESUME_HELP)] = False,
    force: Force = False,
    apply: Annotated[Path | None, writing(metavar="decisions.csv", help=APPLY_HELP)] = None,
) -> None:
    """Find labels that are probably wrong, with the right label and the reasons, and review them.

    Models are cross-fitted on the data, and combined with nearest neighbors and data values by a rule that is learnt
    from errors that the audit makes itself. The output folder contains ranking.csv (all points, the most suspicious
    first, with the probability that the label is wrong, the suggested label, the reasons and the evidence), and
    review.html, a page on which you decide; also near duplicates, outliers and confused classes. Export your decisions
    on that page, and apply them with --apply.

    Start with: fwshapley audit train.csv --label species --out results

    Or with: fwshapley audit photos/ --out results

    After the review: fwshapley audit train.csv --label species --apply decisions.csv --out corrected.csv
    """
    saved = Checkpoints(out, KEPT)
    refuse_others(
        data,
        of_tables={"--label": label, "--ignore": ignore or None, "--encoding": encoding},
        of_pictures={
            "--size": size,
            "--gray/--rgb": None if gray is None else "given",
            "--backbone": backbone,
            "--mean": mean,
            "--std": std,
        },
    )
    if apply is not None:
        refuse({"--test": test, "--resume": resume, "--suspects": suspects}, "is for audits: omit it with --apply")
        written = apply_decisions(read_decisions(apply), data, out, label=label, encoding=encoding or "utf-8")
        print_line(f"written to [bold]{escape(str(written))}[/bold]")
        return
    with errors_explained(saved.about_stopping), ExitStack() as kept:
        choose_device(device)  # raises an error if it cannot be used
        kept.enter_context(locked(out))
        check_free(out, RESULTS, force=force or resume)
        if not resume:
            saved.remove()
        pictures = PictureOptions(
            image_format(size, gray, mean, std, scaled=True), backbone, device, saved.path, resume
        )
        points = read_to_audit(data, label, encoding=encoding or "utf-8", ignore=ignore or (), pictures=pictures)
        audit = fw.LabelAudit(
            folds=folds,
            k=k,
            metric=metric,
            budget=None if seconds is None and steps is None else fw.Budget(seconds, steps),
            seed=seed,
            device=device,
            n_jobs=jobs,
            checkpoint=saved.path,
            resume=resume,
        ).fit(points.features, points.labels)
        leaked = None
        if test is not None:
            others = read_test(test, points, pictures)
            leaked = audit.find_leakage(others.features).assign(
                other=lambda rows: [others.keys[n] for n in rows["other"]]
            )
        audited = Audited(points, audit, leaked, None if test is None else test.name)
        paths = write_results(audited, out, suspects)
        show(audited, top)
        print_line(f"\nwritten to [bold]{escape(str(out))}[/bold]: {', '.join(path.name for path in paths)}")
        print_line("open review.html to decide on suspicious labels; --apply writes the corrected data")
