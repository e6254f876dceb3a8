"""What the generated pages say of where figures come from, and how they put it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))  # scripts, not a package

from agreement import is_known
from agreement import join as join_runs
from claims_page import accuracy_line, claims_summary, time_line
from enumeration_page import SHOWN_WEIGHTS, sampled_text
from fwshapley.plots import new_figure
from inclusion_longer import lead_text, longer_table, longer_text, longest_training, plateau_text
from inclusion_page import longest_text, papers_method, room_in, trainings_text
from inclusion_results import BASE, CHOSEN, EVALUATORS, EVERY, NOT_CENTRED, find_lost, gather, sum_up
from noisy_labels import agreement, score
from noisy_page import auroc_of, failed_text, is_comparable
from noisy_results import PAPER_NOISE, Job, join, tables
from pieces import keep_piece, origin, origins, read_piece, take_piece
from provenance import recompressed_shortly, recompressed_text, without_folders
from script import marked
from table1_page import reconciled_text
from table2_page import Speed, speedup_text

GPU = {"gpu": "NVIDIA H200", "cores": 16, "processor": "Xeon"}


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("--data carry/svhn_jpeg95.npz --out res", "--data svhn_jpeg95.npz --out res"),
        ("--data ../a/one.npz b/two.npz --work build/x", "--data one.npz two.npz --work build/x"),
        ("--runs '2 minutes, log odds' --seconds 0.5", "--runs '2 minutes, log odds' --seconds 0.5"),
    ],
)
def test_commands_name_files_without_their_folders(recorded: str, shown: str) -> None:
    command = "python benchmarks/agreement.py"
    assert without_folders(f"{command} {recorded}") == f"{command} {shown}"


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
    assert "b (noisy labels) on SVHN (next, 10 %), seed 1: 20 of 20 values are not numbers" in failed_text(rows)


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


def test_recompressed_images_are_named_once_and_only_where_a_record_says_so() -> None:
    plain = {"command": "python benchmarks/a.py --data fashion_mnist.npz", "results": {}}
    joined = {
        "command": "python benchmarks/b.py",
        "results": {"commands": ["python b.py --data x/svhn_jpeg95.npz"] * 2},
    }
    assert recompressed_text([plain]) == ""
    assert recompressed_text([plain, joined, joined]).count("`svhn_jpeg95.npz` as JPEG of quality 95") == 1
    assert recompressed_shortly([plain], {}) == ""
    shortly = recompressed_shortly([plain, joined, joined], {"svhn": "SVHN"})
    assert shortly.endswith("those of SVHN were recompressed (JPEG, quality 95).")


def test_speed_is_told_with_learning_and_without() -> None:
    exact = {"method": "KNN-Shapley", "seconds": 2.0}
    learned = {"method": "learned, published", "seconds": 1.0, "learning": 9.0}
    assert Speed.of([exact]) is None
    assert "not both timed" in speedup_text([exact])
    text = speedup_text([exact, learned])
    assert "2 times as fast once it has learnt, 5 times as slow with learning" in text
    assert "was not timed" in text
    assert "takes 30 s" in speedup_text([exact, learned, {"method": "KNN-Shapley, vote", "seconds": 30.0}])


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
    text = longer_text(sitting)
    assert "is 0.475 / 0.475 after 60 s, 0.650 / 0.650 after 240 s and 0.825 / 0.825 after 960 s (stopped after" in text
    assert text.endswith("; as far as one training each can tell, longer still helps and where it stops is not known.")
    assert longest_training(sitting) == 960
    text = longer_text(sitting_of(*methods, trained_piece(EVERY, 0.5), trained_piece(f"{EVERY}, 240 s", 0.6)))
    assert '"every weighting, Shapley" is 0.562 / 0.562 after 60 s and 0.650 / 0.650 after 240 s' in text


@pytest.mark.parametrize("seconds", [30, 60])
def test_training_that_was_not_longer_is_not_told(seconds: int) -> None:
    usual, other = trained_piece(BASE, 0.4), trained_piece(f"{BASE}, {seconds} s", 0.3, taken=seconds)
    assert longer_text(sitting_of(usual, other)) == longer_text(sitting_of(usual)) == ""


@pytest.mark.parametrize(
    ("gains", "told"),
    [
        ([(0.05, 0.04, 0.06)] * 2, "longer still helps and where it stops is not known"),
        ([(0.001, -0.002, 0.004)] * 2, "longer does not help"),
        ([(0.001, -0.002, 0.004), (0.05, 0.04, 0.06)], "whether longer helps is not clear"),
        ([(0.004, -0.002, 0.01)] * 2, "whether longer helps is not clear"),
        ([], "whether longer helps is not clear"),
    ],
)
def test_a_plateau_is_one_by_both_evaluators(gains: list[tuple[float, float, float]], told: str) -> None:
    assert plateau_text(gains) == told


def test_the_longest_training_is_told_with_its_sitting() -> None:
    short = sitting_of(trained_piece(BASE, 0.4))
    long = sitting_of(trained_piece(BASE, 0.4), trained_piece(f"{BASE}, 240 s", 0.6, taken=240))
    text = longest_text("svhn", {"a": short, "b": long})
    assert "Trained for longer (SVHN, sitting 2; second surrogate / zero-masked model), our network was not" in text
    assert "| FastSHAP | 0.475 / 0.475 | 0.650 / 0.650 |" in text
    assert "(SVHN, sitting 1;" in longest_text("svhn", {"b": long, "a": short})
    assert longest_text("svhn", {"a": short}) == ""


def test_our_lead_is_told_in_equal_time() -> None:
    ours = [trained_piece(EVERY, 0.6), trained_piece(f"{EVERY}, 240 s", 0.6, taken=240)]
    base = [trained_piece(BASE, 0.4), trained_piece(f"{BASE}, 240 s", 0.5, taken=240)]
    sitting = sitting_of(*ours, *base)
    assert lead_text(sitting) == "our lead over FastSHAP shrinks"
    early, late = (f"{area_of(0.6) / area_of(share) - 1:+.1%}" for share in (0.4, 0.5))
    assert f"| ours over FastSHAP | {early} / {early} | {late} / {late} |" in longer_table(sitting)
    assert f"{early} / {early} after 60 s each and {late} / {late} after 240 s each." in longer_text(sitting)
    alone = sitting_of(*ours, *base, trained_piece(f"{EVERY}, 580 s", 0.7, taken=580))
    assert f"| ours over FastSHAP | {early} / {early} | {late} / {late} |  |" in longer_table(alone)


def test_trainings_of_all_sittings_are_told_together() -> None:
    one = sitting_of(trained_piece(BASE, 0.4), trained_piece(EVERY, 0.6))
    two = sitting_of(*(trained_piece(BASE, 0.6, seed=seed) for seed in range(2)), trained_piece(EVERY, 0.6))
    text = trainings_text("SVHN", [one, two])
    assert '0.650 ± 0.000 / 0.650 ± 0.000 for "every weighting" (2 trainings)' in text
    assert '0.592 ± 0.101 / 0.592 ± 0.101 for "FastSHAP" (3 trainings)' in text


def test_learned_values_are_held_against_those_that_they_were_to_learn() -> None:
    def row(auroc: float, **more: list[float]) -> dict[str, Any]:
        return {"auroc": [auroc, 0.0], **more}

    methods = {
        "Shapley, 1,000 references": row(0.99),
        "Shapley, vote, 1,000 references": row(0.94),
        "learned, published, Shapley": row(0.94, spearman=[0.8, 0.0]),
        "learned, improved, Shapley": row(0.6, spearman=[0.1, 0.0]),
    }
    tables = {"svhn": {PAPER_NOISE: {"noisy labels": {"methods": methods}}}}
    measured, verdict = accuracy_line({"results": {"tables": tables, "missing": [], "settings": {}}})
    assert "SVHN: KNN-Shapley 0.990, exact for the vote 0.940, its network 0.940 and ours 0.600" in measured
    assert verdict.startswith("not confirmed: its network is worse than KNN-Shapley, as good as exact values")
    assert verdict.endswith("ours, taught by exact values, is not decided against KNN-Shapley")


@pytest.mark.parametrize(("seconds", "verdict"), [(0.01, "yes: 100 images"), (0.1, "no: 10 images")])
def test_real_time_is_as_many_images_as_a_film_has(seconds: float, verdict: str) -> None:
    times = [{"batch": batch, "compiled": False, "explainer_s": batch * seconds} for batch in (1, 1000)]
    found = {"images": 1000, "weightings": 9, "methods": {EVERY: {"seconds": 0.02}}}
    measured, said = time_line({"machine": GPU, "results": found}, [{"machine": GPU, "results": {"times": times}}])
    assert said.startswith(verdict)
    assert measured.endswith("on NVIDIA H200, two records")


def test_one_seed_has_no_spread_and_other_references_no_comparison() -> None:
    assert auroc_of({"auroc": [0.9, 0.0], "seeds": 1}) == "0.900 (1 seed)"
    assert auroc_of({"auroc": [0.9, 0.01], "seeds": 3}) == "0.900 ± 0.010"
    assert is_comparable("Shapley, 1,000 references")
    assert is_comparable("model loss")
    assert not is_comparable("Shapley, 5,000 references")


def test_sampling_is_told_where_it_does_better() -> None:
    def rows(**better: tuple[float, float]) -> dict[str, Any]:
        usual = dict.fromkeys(SHOWN_WEIGHTS, (0.9, 0.5))
        return {name: {"pearson": [a], "nrmse": [b]} for name, (a, b) in (usual | better).items()}

    assert sampled_text(rows(), rows()) == ""
    better = rows(**{"Shapley": (0.95, 0.5), "Beta(1, 4)": (0.1, 0.4)})
    text = sampled_text(rows(), better)
    assert text.endswith("correlates better at Shapley (0.95) and has the smaller error at Beta(1, 4).")


def test_room_is_what_is_left_between_nobody_and_everyone() -> None:
    name = f"inclusion, {EVALUATORS[0]}"
    row = {"curves": {name: [0.0, 0.5, 0.5, 0.5, 1.0]}, "areas": {name: [0.5, 0.4, 0.6]}}
    sitting = {"methods": {BASE: {"Shapley": row}}}
    assert room_in(sitting, EVALUATORS[0]) == pytest.approx((0.5 + 3) / 4 / 0.5 - 1)


def test_the_papers_method_is_the_same_on_all_data_sets() -> None:
    whole: Any = {"a": {"methods": {NOT_CENTRED: {}, CHOSEN: {}}}}
    part: Any = {"b": {"methods": {CHOSEN: {}}}}
    assert papers_method({"cifar10": whole, "svhn": whole}) == NOT_CENTRED
    assert papers_method({"cifar10": whole, "svhn": part}) == CHOSEN


def test_figures_of_a_smoke_run_say_so() -> None:
    figure = new_figure(width=2, height=2)
    assert marked(figure, smoke=False).get_suptitle() == ""
    assert "no result" in marked(figure, smoke=True).get_suptitle()


def test_claims_that_are_open_are_not_counted_as_decided() -> None:
    rows = [["fast", "", "not confirmed: exact values are fast"], ["good", "x", "yes, preliminary"]]
    assert claims_summary(rows).endswith("? Fast: not confirmed. Open or preliminary: good.")


def test_times_of_two_runs_on_one_gpu_are_told_apart() -> None:
    here: dict[str, Any] = {"machine": GPU, "results": {"images": 1000, "methods": {EVERY: {"seconds": 0.013}}}}
    row = {"batch": 1000, "compiled": False, "explainer_s": 0.047}
    there = {"machine": GPU, "results": {"times": [row]}}
    assert (
        "has 47.0 ms for as many images and weightings on the same GPU, where this table, with nothing compiled, has"
        in (reconciled_text(here, [there]))
    )
    assert reconciled_text(here, [there | {"machine": GPU | {"gpu": None}}]) == ""
