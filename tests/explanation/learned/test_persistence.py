from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import fwshapley as fw
from fwshapley.explanation.learned.persistence import FILE
from fwshapley.networks.mlp import TableNetwork
from fwshapley.objectives import Kernel
from fwshapley.players import columns
from models import ImageModel, TableModel, images, rows, seeded

N, CLASSES = 4, 3
X, X_TEST = rows(100, N), rows(5, N, seed=1)
SEVERAL = [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf(0.2)]


def own_network(channels: int) -> nn.Module:
    return TableNetwork(X, N, channels, width=16, depth=1)


def fit(x: Tensor | pd.DataFrame, *arguments: Any, **options: Any) -> fw.FeatureExplainer:  # noqa: ANN401 - of FeatureExplainer
    explainer = fw.FeatureExplainer(*arguments, **options)
    return explainer.fit(x, budget=fw.Budget(steps=4), batch_size=16, n_coalitions=4, progress=False)


@pytest.fixture(scope="module")
def table() -> fw.FeatureExplainer:
    return fit(X, seeded(TableModel), output_names=["cat", "dog", "cow"])


@pytest.fixture(scope="module")
def image() -> fw.FeatureExplainer:
    return fit(images(40), seeded(ImageModel), fw.grid(8, 8, patch=4), output="logit")


def assert_same(loaded: fw.FeatureExplainer, original: fw.FeatureExplainer, x: Tensor, **options: Any) -> None:  # noqa: ANN401 - of explain
    one, other = loaded.explain(x, total="efficient", **options), original.explain(x, total="efficient", **options)
    assert torch.equal(one.values, other.values)
    assert torch.equal(one.base_values, other.base_values)
    assert one.output_names == other.output_names
    assert one.players.names == other.players.names
    assert one.provenance == other.provenance
    assert loaded.histories_ == original.histories_
    assert loaded.fidelity_ == original.fidelity_
    coalitions = torch.rand(8, one.players.n_players, generator=torch.Generator().manual_seed(0)) < 0.5
    assert torch.equal(loaded.game(x[0])(coalitions), original.game(x[0])(coalitions))


def test_an_explainer_of_a_table_comes_back_as_it_was(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    table.save(tmp_path / "new" / "folder")
    assert_same(fw.FeatureExplainer.load(tmp_path / "new" / "folder"), table, X_TEST, weights=SEVERAL)
    loaded = fw.load(str(tmp_path / "new" / "folder"), model=TableModel(), device="cpu")
    assert isinstance(loaded, fw.FeatureExplainer)
    assert_same(loaded, table, X_TEST, outputs="predicted")


def test_an_explainer_of_images_comes_back_given_a_model_of_the_architecture(
    tmp_path: Path, image: fw.FeatureExplainer
) -> None:
    image.save(tmp_path)
    model = seeded(ImageModel, seed=9)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert_same(fw.FeatureExplainer.load(tmp_path, model=model), image, images(3, seed=1), weights=SEVERAL)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())  # only copied


@pytest.mark.parametrize(
    "options",
    [
        {"objective": Kernel(fw.Beta(4, 1), "paper", "penalty")},
        {"objective": "kernel", "weights": fw.Beta(4, 1)},
        {"objective": "kernel", "weights": fw.Cardinality([1.0, 2.0, 3.0, 4.0])},
        {"output": "raw"},
        {"players": fw.groups({"pair": [0, 2]}, count=N)},
        {"removal": X[:3]},
    ],
)
def test_explainers_of_every_kind_come_back(tmp_path: Path, options: dict[str, Any]) -> None:
    original = fit(X, seeded(TableModel), **{"surrogate": None} | options)
    original.save(tmp_path)
    assert_same(fw.FeatureExplainer.load(tmp_path, model=seeded(TableModel, seed=9)), original, X_TEST)


def test_a_surrogate_that_tells_the_mask_comes_back(tmp_path: Path) -> None:
    players = columns(N)
    surrogate = fw.explanation.Surrogate(nn.Linear(2 * N, CLASSES), players, torch.zeros(1, N), tell_mask=True)
    original = fit(X, seeded(TableModel), surrogate=surrogate)
    original.save(tmp_path)
    loaded = fw.FeatureExplainer.load(tmp_path, surrogate=nn.Linear(2 * N, CLASSES))
    assert_same(loaded, original, X_TEST)


def test_a_network_of_your_own_comes_back_given_the_function_that_makes_it(tmp_path: Path) -> None:
    original = fit(X, seeded(TableModel), network=own_network)
    original.save(tmp_path)
    loaded = fw.FeatureExplainer.load(tmp_path, network=own_network)
    assert_same(loaded, original, X_TEST)
    loaded.save(tmp_path / "again")
    assert_same(fw.FeatureExplainer.load(tmp_path / "again", network=own_network), original, X_TEST)
    with pytest.raises(ValueError, match=r"network=..."):
        fw.FeatureExplainer.load(tmp_path)
    with pytest.raises(ValueError, match="network must have the architecture"):
        fw.FeatureExplainer.load(tmp_path, network=lambda channels: TableNetwork(X, N, channels, width=8, depth=1))


def test_a_student_comes_back(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    student = table.distill(X, network=own_network, budget=fw.Budget(steps=2), progress=False)
    student.save(tmp_path)
    assert_same(fw.FeatureExplainer.load(tmp_path, network=own_network), student, X_TEST)


def test_metadata_are_in_the_same_file_and_a_fit_resets_them(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    table.metadata = {"scale": [1, 2]}
    table.save(tmp_path)
    table.metadata = None
    loaded = fw.FeatureExplainer.load(tmp_path, model=seeded(TableModel))
    assert loaded.metadata == {"scale": [1, 2]}
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    content = bytearray((tmp_path / FILE).read_bytes())
    content[content.index(b"scale")] ^= 1
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        fw.FeatureExplainer.load(tmp_path)
    assert refit(loaded).metadata is None


def test_what_was_loaded_can_be_saved_again(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    table.save(tmp_path / "one")
    fw.FeatureExplainer.load(tmp_path / "one", model=TableModel()).save(tmp_path / "two")
    one, two = (load_file(tmp_path / name / FILE) for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert all(torch.equal(two[name], tensor) for name, tensor in one.items())


def test_only_tensors_and_facts_are_on_disk(tmp_path: Path, image: fw.FeatureExplainer) -> None:
    image.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    content = (tmp_path / FILE).read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    tensors = load_file(tmp_path / FILE)
    assert len(content) == 8 + len(header) + sum(each.numel() * each.element_size() for each in tensors.values())


def test_saving_over_an_older_explainer_replaces_it(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    fit(X, seeded(TableModel, seed=2)).save(tmp_path)
    table.save(tmp_path)
    assert_same(fw.FeatureExplainer.load(tmp_path), table, X_TEST)


def test_what_was_loaded_without_its_model_cannot_be_fitted_again(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    table.save(tmp_path)
    loaded = fw.FeatureExplainer.load(tmp_path)
    with pytest.raises(RuntimeError, match="loaded without its model; to fit it again, pass model="):
        loaded.fit(X, budget=fw.Budget(steps=1), progress=False)
    assert_same(loaded, table, X_TEST)
    again = fw.FeatureExplainer.load(tmp_path, model=seeded(TableModel))
    again.fit(X, budget=fw.Budget(steps=1), progress=False)
    assert again.histories_["explainer"].steps == 1


def test_a_missing_explainer_is_named(tmp_path: Path) -> None:
    for load in (fw.load, fw.FeatureExplainer.load):
        with pytest.raises(FileNotFoundError, match=r"is missing"):
            load(tmp_path / "nowhere")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8:40] = bytes(byte ^ 0xFF for byte in content[8:40])
    path.write_bytes(content)


def make_foreign(path: Path) -> None:
    save_file({"tensor": torch.zeros(2)}, path)


def swap(path: Path) -> None:
    fw.Attribution(
        values=torch.zeros(1, N, 1),
        base_values=torch.zeros(1, 1),
        outputs=torch.zeros(1, 1, dtype=torch.int64),
        inputs=torch.zeros(1, N),
        weights=fw.Shapley(),
        total="raw",
        players=columns(N),
        output_names=("one",),
        provenance={},
    ).save(path)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (truncate, "is damaged"),
        (flip_header, "is damaged"),
        (make_foreign, "was not written by fwshapley"),
        (swap, "saved attribution"),
    ],
)
def test_a_file_that_is_no_whole_explainer_is_refused(
    tmp_path: Path, table: fw.FeatureExplainer, harm: Callable[[Path], None], message: str
) -> None:
    table.save(tmp_path)
    harm(tmp_path / FILE)
    with pytest.raises(ValueError, match=message):
        fw.FeatureExplainer.load(tmp_path)


def test_an_explainer_is_no_attribution(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    table.save(tmp_path)
    with pytest.raises(ValueError, match="saved explainer"):
        fw.Attribution.load(tmp_path / FILE)


def test_images_need_a_model_of_the_right_architecture(tmp_path: Path, image: fw.FeatureExplainer) -> None:
    image.save(tmp_path)
    with pytest.raises(ValueError, match=r"tensors of a ImageModel .*model="):
        fw.FeatureExplainer.load(tmp_path)
    for other in (seeded(ImageModel, 5), seeded(TableModel)):
        with pytest.raises(ValueError, match=r"model must have the architecture"):
            fw.FeatureExplainer.load(tmp_path, model=other)


def test_fitting_a_loaded_explainer_again_keeps_what_hides_features(tmp_path: Path) -> None:
    model = seeded(TableModel)
    fit(X, model, surrogate=None, removal="zero").save(tmp_path)
    again = fw.FeatureExplainer.load(tmp_path, model=model)
    again.fit(X, budget=fw.Budget(steps=2), batch_size=16, n_coalitions=4, progress=False)
    nobody = again.game(X_TEST[0])(torch.zeros(1, N, dtype=torch.bool))
    assert torch.allclose(nobody, model.eval()(torch.zeros(1, N)).softmax(1), atol=1e-6)


def refit(explainer: fw.FeatureExplainer, x: Tensor | pd.DataFrame = X, steps: int = 2) -> fw.FeatureExplainer:
    return explainer.fit(x, budget=fw.Budget(steps=steps), batch_size=16, n_coalitions=4, progress=False)


@pytest.mark.filterwarnings("ignore::fwshapley.explanation.learned.fidelity.FidelityWarning")
def test_a_loaded_explainer_that_is_fitted_again_explains_the_model_given(tmp_path: Path) -> None:
    def old(x: NDArray[Any]) -> NDArray[Any]:
        return 100 + 0 * x.sum(1)

    def new(x: NDArray[Any]) -> NDArray[Any]:
        return -100 + 0 * x.sum(1)

    fit(X, old, output="raw").save(tmp_path)
    loaded = fw.load(tmp_path, model=new)
    assert loaded.surrogate == "auto"
    everyone = torch.ones(1, N, dtype=torch.bool)
    assert float(loaded.game(X_TEST[0])(everyone)) == pytest.approx(100, abs=5)
    refit(loaded)
    assert float(loaded.game(X_TEST[0])(everyone)) == pytest.approx(-100, abs=5)
    assert "surrogate" in loaded.histories_


def test_a_loaded_explainer_of_images_teaches_its_surrogate_anew(tmp_path: Path, image: fw.FeatureExplainer) -> None:
    image.save(tmp_path)
    model = seeded(ImageModel, seed=5)
    loaded, fresh = fw.load(tmp_path, model=model), fw.FeatureExplainer(model, image.players, output="logit")
    x = images(40, seed=2)
    assert torch.equal(refit(loaded, x).explain(x[:2]).values, refit(fresh, x).explain(x[:2]).values)
    assert loaded.fidelity_ == fresh.fidelity_


def test_a_surrogate_that_was_given_ready_is_used_again(tmp_path: Path) -> None:
    ready = fw.explanation.Surrogate(seeded(TableModel, seed=3), columns(N), torch.zeros(1, N))
    fit(X, seeded(TableModel), surrogate=ready).save(tmp_path)
    loaded = refit(fw.load(tmp_path, model=seeded(TableModel, seed=4)))
    assert isinstance(loaded.surrogate, fw.explanation.Surrogate)
    assert set(loaded.histories_) == {"explainer"}
    shown = torch.ones(5, N, dtype=torch.bool)
    assert torch.equal(loaded.surrogate_(X_TEST, shown), ready.eval()(X_TEST, shown))


@pytest.mark.parametrize("given", [True, False], ids=["given again", "from the file"])
def test_a_surrogate_network_of_your_own_is_trained_again(tmp_path: Path, *, given: bool) -> None:
    own = seeded(TableModel, seed=3)
    fit(X, seeded(TableModel), surrogate=own).save(tmp_path)
    loaded = fw.load(tmp_path, model=seeded(TableModel, seed=4), surrogate=own if given else None)
    assert isinstance(loaded.surrogate, TableModel)
    assert (loaded.surrogate is own) == given
    assert set(refit(loaded).histories_) == {"surrogate", "explainer"}


def test_a_loaded_explainer_credits_the_columns_that_it_is_fitted_with_again(tmp_path: Path) -> None:
    model = seeded(TableModel)
    fit(pd.DataFrame(X.numpy(), columns=list("abcd")), model, surrogate=None).save(tmp_path)
    loaded = fw.load(tmp_path, model=model)
    assert (loaded.players, loaded.players_.names) == (None, tuple("abcd"))
    table = pd.DataFrame(X.numpy(), columns=list("efgh"))
    assert refit(loaded, table).explain(table[:2]).players.names == tuple("efgh")


def test_a_loaded_explainer_can_be_fitted_with_a_table_of_another_width(tmp_path: Path) -> None:
    def model(x: NDArray[Any]) -> NDArray[Any]:
        return x.sum(1)

    fit(X, model, output="raw", surrogate=None).save(tmp_path)
    assert refit(fw.load(tmp_path, model=model), rows(100, 6)).players_.n_players == 6


@pytest.mark.parametrize("removal", ["zero", "mean", "row", "table"])
def test_what_hides_features_comes_back_for_another_fit(tmp_path: Path, removal: str) -> None:
    table = pd.DataFrame(X.numpy(), columns=list("abcd"))
    given = {"row": X[0], "table": table[:3]}.get(removal, removal)
    original = fit(table, seeded(TableModel), surrogate=None, removal=given)
    original.save(tmp_path)
    again = refit(fw.load(tmp_path, model=seeded(TableModel)), table)
    assert isinstance(again.surrogate_, fw.explanation.Surrogate)
    assert isinstance(original.surrogate_, fw.explanation.Surrogate)
    assert torch.equal(again.surrogate_.fill, original.surrogate_.fill)


def test_names_of_outputs_are_those_of_the_model_that_is_fitted_again(tmp_path: Path) -> None:
    animals, colors = (LogisticRegression().fit(X, [names[int(row[0] > 0)] for row in X])
                        for names in (["cat", "dog"], ["blue", "red"]))  # fmt: skip
    fit(X, animals, surrogate=None).save(tmp_path)
    loaded = fw.load(tmp_path, model=colors)
    assert loaded.output_names is None
    assert refit(loaded).explain(X_TEST).output_names == ("blue", "red")


def test_without_its_model_a_loaded_explainer_does_not_know_what_is_predicted(
    tmp_path: Path, table: fw.FeatureExplainer
) -> None:
    table.save(tmp_path)
    with pytest.raises(RuntimeError, match="loaded without its model"):
        fw.load(tmp_path).explain(X_TEST, outputs="predicted")
    known = fw.load(tmp_path, model=TableModel())  # untrained: its tensors come from the file
    expected = table.explain(X_TEST, outputs="predicted")
    assert torch.equal(known.explain(X_TEST, outputs="predicted").values, expected.values)


def test_a_model_that_was_not_saved_is_not_made_up(tmp_path: Path, table: fw.FeatureExplainer) -> None:
    table.save(tmp_path / "one")
    fw.load(tmp_path / "one").save(tmp_path / "two")
    with pytest.raises(RuntimeError, match="loaded without its model"):
        fw.load(tmp_path / "two", model=TableModel()).explain(X_TEST, outputs="predicted")


def test_a_surrogate_network_of_your_own_is_asked_for(tmp_path: Path) -> None:
    own = nn.Sequential(nn.Linear(N, 5), nn.Tanh(), nn.Linear(5, CLASSES))
    original = fit(X, seeded(TableModel), surrogate=own)
    original.save(tmp_path)
    with pytest.raises(ValueError, match="model or surrogate must have the architecture"):
        fw.load(tmp_path, model=TableModel())
    assert_same(fw.load(tmp_path, model=TableModel(), surrogate=own), original, X_TEST)
