"""Pieces of long runs: where they come from, how they are joined, and what a record keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.experiments.learned_vs_sampled import is_known
from benchmarks.experiments.learned_vs_sampled import join as join_runs
from benchmarks.experiments.wrong_labels_resnet import agreement, score
from benchmarks.harness.figures import marked
from benchmarks.harness.inclusion_joining import BASE, EVALUATORS, EVERY, find_lost, gather, sum_up
from benchmarks.harness.pieces import keep_piece, origin, origins, read_piece, take_piece
from benchmarks.harness.wrong_labels_joining import PAPER_NOISE, Job, join, tables

from fwshapley.plots import new_figure

GPU = {"gpu": "NVIDIA H200", "cores": 16, "processor": "Xeon"}


def test_references_in_bf16_do_not_know_large_coalitions() -> None:
    run = {"agreement": {"Beta(4, 1)": 0.8, "Shapley": 0.6, "Beta(1, 4)": 0.1}}
    assert is_known(run, "Beta(1, 4)")
    assert not is_known(run, "Beta(1, 2)")
    rounded = run | {"references": "bf16"}
    assert [name for name in run["agreement"] if is_known(rounded, name)] == ["Beta(4, 1)", "Shapley"]


def test_runs_that_are_added_to_a_record_count_with_their_time(tmp_path: Path) -> None:
    def written(name: str, wall_time: float, runs: dict[str, Any]) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({"wall_time_s": wall_time, "results": {"runs": runs}}))
        return path

    first = written("agreement.json", 700, {"5 minutes": {"seconds": 300, "took": 400}})
    other = written("other.json", 200, {"2 minutes": {"seconds": 120}, "2 minutes, seed 1": {"seconds": 120}})
    for _ in range(2):  # adding a file again changes nothing
        assert join_runs(first, [other]).keys() == {"2 minutes", "2 minutes, seed 1", "5 minutes"}
        document = json.loads(first.read_text())
        assert list(document["results"]["runs"]) == ["2 minutes", "2 minutes, seed 1", "5 minutes"]
        assert document["wall_time_s"] == 200 + 400


def test_a_piece_knows_where_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "pieces" / "digits, 0.json"
    assert read_piece(path) is None
    keep_piece(path, {"found": 1}, "cpu")
    piece = read_piece(path)
    assert piece is not None
    assert {"found", "machine", "device", "code", "command", "date", "versions"} == piece.keys()
    assert "torch " in origin(piece)
    assert " cores of " in origin(piece | {"machine": piece["machine"] | GPU})
    assert origin(piece | {"machine": GPU, "device": "cuda"}).startswith(str(GPU["gpu"]))


def test_a_piece_of_other_settings_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "exact.json"
    assert take_piece(path, {"seed": 7}) is None
    keep_piece(path, {"found": 1, "settings": {"seed": 0, "seconds": 12}}, "cpu")
    taken = take_piece(path, {"seed": 0})
    assert taken is not None
    assert taken["found"] == 1
    with pytest.raises(SystemExit, match=r"exact\.json was made with seed 0, not 7: give another --work"):
        take_piece(path, {"seed": 7})


def test_parts_name_all_machines_they_were_made_on_even_of_early_pieces() -> None:
    early, late = {"machine": GPU}, {"machine": GPU, "versions": {"torch": "2.11.0"}}
    found = origins([("digits", early), ("large", late), ("digits", early), ("digits", late)])
    assert found == {"digits": ["NVIDIA H200", "NVIDIA H200; torch 2.11.0"], "large": ["NVIDIA H200; torch 2.11.0"]}


def test_a_method_that_gives_no_numbers_has_failed_and_has_no_mean() -> None:
    wrong = torch.arange(20) < 2
    well, broken = torch.arange(20).double(), torch.full((20,), torch.nan).double()
    assert score(broken, wrong, 1.0) == {"failed": "20 of 20 values are not numbers"}
    assert agreement(broken, well) == {} == agreement(torch.ones(20).double(), well)
    assert agreement(well, well)["spearman"] == pytest.approx(1)
    job = Job(PAPER_NOISE, 0, "svhn", "noisy labels", "published")
    rated = score(well, wrong, 1.0)
    found = [{"a": rated | {"spearman": 1.0}, "b": rated}, {"a": rated, "b": score(broken, wrong, 1.0)}]
    rows = tables({job._replace(seed=seed): {"found": each} for seed, each in enumerate(found)})
    here = rows["svhn"][PAPER_NOISE]["noisy labels"]
    assert here["methods"].keys() == {"a"}
    assert "spearman" not in here["methods"]["a"]
    assert here["failed"] == {"b": {"1": "20 of 20 values are not numbers"}}


def test_noises_whose_pieces_are_gone_stay_in_the_record(tmp_path: Path) -> None:
    row = score(torch.arange(20).double(), torch.arange(20) < 2, 1.0)

    def found_anew(noise: str, earlier: dict[str, Any], **settings: int) -> dict[str, Any]:
        work = tmp_path / f"{noise}, {len(list(tmp_path.iterdir()))}"
        piece = {"found": {"a": row}, "settings": settings, "accuracy": 0.9, "seconds": 2.0}
        keep_piece(work / f"{Job(noise, 0, 'svhn', 'noisy labels', 'exact').name}.json", piece, "cpu")
        return join(work, [0], ["svhn", "fashion_mnist"], earlier)

    first = found_anew(PAPER_NOISE, {}, k=5)
    both = found_anew("uniform, 10 %", first, k=5)
    assert both["tables"]["svhn"].keys() == {PAPER_NOISE, "uniform, 10 %"}
    assert both["tables"]["svhn"][PAPER_NOISE] == first["tables"]["svhn"][PAPER_NOISE]
    assert len(both["missing"]) == len(first["missing"]) - 1
    assert both["seconds"] == 4
    again = found_anew("uniform, 10 %", both, k=5)
    assert again == both
    with pytest.raises(SystemExit, match="other settings: k"):
        found_anew("next, 30 %", both, k=7)
    assert found_anew(PAPER_NOISE, first, k=7)["settings"] == {"k": 7}  # nothing of the earlier one stays
    first["tables"]["svhn"][PAPER_NOISE]["noisy labels"]["methods"]["b"] = {}
    with pytest.raises(SystemExit, match=r"lacks pieces of SVHN \(next, 10 %, noisy labels\).*, such as b: put them"):
        found_anew(PAPER_NOISE, first, k=5)


def test_sittings_whose_pieces_are_gone_stay_in_the_record(tmp_path: Path) -> None:
    def found_anew(sitting: str, earlier: dict[str, Any]) -> dict[str, Any]:
        folder = tmp_path / f"{sitting}, {len(list(tmp_path.iterdir()))}"
        about = {"dataset": "svhn", "sitting": sitting, "method": "setting", "seed": 0}
        keep_piece(folder / "setting.json", about | {"facts": {}, "seconds": 3.0}, "cpu")
        return gather(folder, earlier)

    first = found_anew("one", {})
    both = found_anew("two", first)
    assert both["datasets"]["svhn"].keys() == {"one", "two"}
    assert both["datasets"]["svhn"]["one"] == first["datasets"]["svhn"]["one"]
    assert both["seconds"] == 6
    assert found_anew("two", both) == both
    row = {"by seed": {f"inclusion, {EVALUATORS[0]}": [0.5]}, "images": 10}
    both["datasets"]["svhn"]["two"]["methods"]["random"] = {"random": row}
    with pytest.raises(SystemExit, match="lacks pieces of sitting two on svhn that were recorded, such as random"):
        found_anew("two", both)


@pytest.mark.parametrize(
    ("now", "lost"), [((2, 10), []), ((3, 20), []), ((1, 10), [BASE]), ((2, 5), [BASE]), ((0, 0), [BASE])]
)
def test_a_record_is_not_replaced_by_fewer_seeds_or_images(now: tuple[int, int], lost: list[str]) -> None:
    def sitting(seeds: int, images: int) -> dict[str, Any]:
        row = {"by seed": {f"inclusion, {EVALUATORS[0]}": [0.5] * seeds}, "images": images}
        return {"methods": {BASE: {"Shapley": row} if seeds else {}}, "choice": None, "search": None}

    assert find_lost(sitting(2, 10), sitting(*now)) == lost
    nothing: dict[str, Any] = {"methods": {}, "choice": None, "search": None}
    more = {"methods": {"random": {}}, "choice": {"chosen": "Shapley"}, "search": {"Beta(2, 1)": 0.9}}
    assert find_lost(more, nothing) == ["choice", "random", "search Beta(2, 1)"]
    assert find_lost(nothing, more) == []


def trained_piece(method: str, share: float, *, seed: int = 0, taken: float = 60, stopped: str = "budget") -> Any:  # noqa: ANN401 - as JSON
    """Piece of 100 images, a share of which keep their class at all of five points, the others at the first."""
    numbers = [0b11111] * round(100 * share) + [0b00001] * (100 - round(100 * share))
    curves = (f"{kind}, {evaluator}" for kind in ("inclusion", "exclusion") for evaluator in EVALUATORS)
    return {
        "dataset": "svhn", "sitting": "one", "method": method, "seed": seed, "settings": {"seconds": 60},
        "kept": {"Shapley": dict.fromkeys(curves, numbers)}, "points": 5,
        "training": {"steps": 9, "seconds": taken, "stopped": stopped, "loss": 1.0, "by spread": False},
        "date": "2026-11-16", "command": "", "versions": {"torch": "2"}, "seconds": taken, "machine": GPU,
    }  # fmt: skip


def area_of(share: float) -> float:
    """Area of such a piece."""
    return share + (1 - share) / 8


def sitting_of(*pieces: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
    """Sum of such pieces."""
    return sum_up([trained_piece("setting", 1.0) | {"facts": {"accuracy": 0.9}, "kept": {}}, *pieces])


def test_longer_training_is_held_against_the_next_shorter_one() -> None:
    methods = [trained_piece(BASE, 0.4), trained_piece(f"{BASE}, 240 s", 0.6, taken=240)]
    stopped = trained_piece(f"{BASE}, 960 s", 0.8, taken=200, stopped="no progress")
    sitting = sitting_of(*methods, stopped)
    curve = f"inclusion, {EVALUATORS[0]}"
    last = sitting["methods"][f"{BASE}, 960 s"]["Shapley"]
    assert last["over shorter"][curve]["relative"][0] == pytest.approx(area_of(0.8) / area_of(0.6) - 1, abs=1e-4)
    assert last["over base"][curve]["relative"][0] == pytest.approx(area_of(0.8) / area_of(0.4) - 1, abs=1e-4)
    assert "over shorter" not in sitting["methods"][BASE]["Shapley"]
    ours = sitting_of(*methods, trained_piece(EVERY, 0.5), trained_piece(f"{EVERY}, 240 s", 0.7))["methods"]
    gained = ours[f"{EVERY}, 240 s"]["Shapley"]["over base in equal time"][curve]["relative"][0]
    assert gained == pytest.approx(area_of(0.7) / area_of(0.6) - 1, abs=1e-4)


def test_figures_of_a_smoke_run_say_so() -> None:
    figure = new_figure(width=2, height=2)
    assert marked(figure, smoke=False).get_suptitle() == ""
    assert "no result" in marked(figure, smoke=True).get_suptitle()
