from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.networks import image_network as image_network_module
from fwshapley.networks.cnn import SmallCNN
from fwshapley.networks.encoder import FeatureTaps
from fwshapley.networks.image_network import ImageNetwork, _grids, _levels_of_maps
from fwshapley.networks.mlp import MLP, ColumnKinds, Coordinates, Rescale, TableNetwork, zero
from fwshapley.networks.unet import UNet
from fwshapley.objectives import HatBasis
from models import ImageModel, images, rows, seeded


def test_hats_sum_to_one_and_are_one_at_their_knots() -> None:
    basis = HatBasis(size=5, edge=2.0)
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    assert_close(basis(t).sum(1), torch.ones(101, dtype=torch.float64))
    knots = torch.linspace(-2, 2, 5, dtype=torch.float64).sigmoid()
    assert_close(basis(knots), torch.eye(5, dtype=torch.float64))


def test_a_function_linear_in_logit_t_is_represented_exactly() -> None:
    basis = HatBasis()
    logit = torch.linspace(-5.4, 5.4, 50, dtype=torch.float64)
    knots = torch.linspace(-basis.edge, basis.edge, basis.size, dtype=torch.float64)
    assert_close(basis(logit.sigmoid()) @ knots, logit)


@pytest.mark.parametrize(
    "weights", [*fw.semivalues.FEASIBLE_SET, fw.Shapley(), fw.Banzhaf(0.2), fw.LeaveOneOut()], ids=str
)
def test_moments_are_means_over_the_mixture(weights: fw.Semivalue) -> None:
    basis = HatBasis()
    assert float(basis.moments(weights).sum()) == pytest.approx(1)
    if isinstance(weights, fw.Beta):
        torch.manual_seed(0)  # which torch.distributions draws from
        t = torch.distributions.Beta(weights.beta, weights.alpha).sample((200_000,)).double()
        drawn = basis(t)
        standard_error = drawn.std(0) / len(t) ** 0.5
        assert bool(((drawn.mean(0) - basis.moments(weights)).abs() <= 4.5 * standard_error + 1e-4).all())


def test_leave_one_out_is_the_last_hat() -> None:
    assert HatBasis().moments(fw.LeaveOneOut()).tolist() == [0] * 11 + [1]


def test_a_law_that_is_no_mixture_has_no_moments() -> None:
    with pytest.raises(TypeError, match="no quadrature"):
        HatBasis().moments(fw.Cardinality([1, 2, 3]))


CHANNELS = 5
SEGMENTS = fw.segments([[column // 3 for column in range(8)]] * 8)  # three upright bands


def surrogate(network: nn.Module, players: fw.players.Players) -> fw.explanation.Surrogate:
    return fw.explanation.Surrogate(network, players, torch.zeros(1, 1, 1, 1)).eval()


def image_network(players: fw.players.Players, size: int = 8, network: nn.Module | None = None) -> ImageNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inside = surrogate(network or seeded(ImageModel), players)
        return ImageNetwork(inside, images(1, size), players, CHANNELS, width=16)


def unet(players: fw.players.Players, depth: int = 3) -> UNet:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return UNet(1, players, CHANNELS, width=4, depth=depth)


def wake(network: ImageNetwork | UNet) -> None:
    """Give the last layer weights, so that what comes before it shows."""
    with torch.no_grad():
        network.head.weight.copy_(torch.linspace(-1, 1, network.head.weight.numel()).view_as(network.head.weight))


def test_a_perceptron_without_residual_blocks_is_its_two_layers() -> None:
    network = MLP(3, 2, width=8, depth=0)
    x = rows(5, 3)
    expected = network.last(nn.functional.silu(network.norm(network.first(x))))
    assert torch.equal(network(x), expected)
    assert MLP(3, 2, width=8, depth=4)(x).shape == (5, 2)


def test_standardized_columns_have_mean_zero_and_deviation_one() -> None:
    x = rows(200, 3) * torch.tensor([1.0, 10.0, 0.0]) + torch.tensor([0.0, 5.0, 2.0])
    scaled = Coordinates(x)(x)
    assert_close(scaled.mean(0), torch.zeros(3), rtol=0, atol=1e-5)
    assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), rtol=0, atol=1e-5)  # one is constant


def test_a_table_network_has_channels_for_every_player_and_starts_at_zero() -> None:
    x = rows(6, 4)
    out = TableNetwork(x, 3, CHANNELS, width=8, depth=1)(x)
    assert out.shape == (6, 3, CHANNELS)
    assert not out.any()


def test_a_layer_without_a_bias_can_start_at_zero_too() -> None:
    layer = nn.Linear(3, 2, bias=False)
    zero(layer)
    assert not layer(rows(5, 3)).any()


@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize("patch", [1, 2, 4, 8])
def test_an_image_network_has_channels_for_every_patch_and_starts_at_zero(size: int, patch: int) -> None:
    players = fw.grid(size, size, patch=patch)
    out = image_network(players, size)(images(2, size))
    assert out.shape == (2, (size // patch) ** 2, CHANNELS)
    assert not out.any()


@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize("patch", [1, 2, 4, 8])
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_a_unet_has_channels_for_every_patch_and_starts_at_zero(size: int, patch: int, depth: int) -> None:
    players = fw.grid(size, size, patch=patch)
    out = unet(players, depth)(images(2, size))
    assert out.shape == (2, (size // patch) ** 2, CHANNELS)
    assert not out.any()


def test_an_image_of_odd_size_can_be_explained() -> None:
    players = fw.grid(14, 14, patch=7)
    for network in (image_network(players, 14), unet(players)):
        assert network(images(2, 14)).shape == (2, 4, CHANNELS)


def test_a_unet_is_no_deeper_than_a_narrow_image_allows() -> None:
    players = fw.grid(16, 2, patch=2)
    out = unet(players)(torch.zeros(2, 1, 16, 2))
    assert out.shape == (2, 8, CHANNELS)


def test_segments_get_the_mean_over_their_pixels() -> None:
    for network, size in ((image_network(SEGMENTS), (4, 4)), (unet(SEGMENTS), (8, 8))):
        wake(network)
        network.eval()
        heads: list[Tensor] = []
        network.head.register_forward_hook(lambda _, __, out, heads=heads: heads.append(out))
        out = network(images(2))
        assert out.shape == (2, 3, CHANNELS)
        assert heads[0].shape[-2:] == size
        pixels = nn.functional.interpolate(heads[0], (8, 8), mode="bilinear", align_corners=False)
        for number in range(3):
            band = pixels[..., torch.from_numpy(SEGMENTS.assignment) == number]
            assert_close(out[:, number], band.mean(-1), rtol=1e-4, atol=1e-6)


def test_a_network_says_the_same_of_an_image_whatever_is_beside_it() -> None:
    players = fw.grid(8, 8, patch=2)
    for network in (image_network(players), unet(players)):
        wake(network)
        network.eval()
        together, alone = network(images(5)), torch.cat([network(image[None]) for image in images(5)])
        assert together.any()
        assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_taps_are_the_last_map_of_each_resolution() -> None:
    model = seeded(ImageModel)
    assert isinstance(model, ImageModel)
    taps = FeatureTaps(surrogate(model, SEGMENTS), images(1), 3)
    assert taps.names == ["network.fine", "network.coarse"]
    assert taps.resolutions == [(8, 8), (4, 4)]
    assert taps.channels == [4, 8]
    model.eval()
    fine = model.fine(images(2))
    for found, expected in zip(taps(images(2)), (fine, model.coarse(fine)), strict=True):
        assert_close(found, expected)


def test_a_module_that_is_used_twice_counts_as_of_its_last_use() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1)
            self.activate, self.head = nn.ReLU(), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            coarse = self.activate(self.second(self.activate(self.first(x))))
            out: Tensor = self.head(coarse.mean((2, 3)))
            return out

    taps = FeatureTaps(surrogate(seeded(Twice), SEGMENTS), images(1), 3)
    assert taps.names == ["network.first", "network.activate"]
    assert [found.shape[-1] for found in taps(images(2))] == [8, 4]


class Tokens(nn.Module):
    """Patches as tokens, as in a transformer or MLP-Mixer: no map (channels, height, width) anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.embed, self.head = nn.Unfold(2, stride=2), nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.embed(self.patches(x).mT).mean(1))
        return out


WITHOUT_MAPS = {
    "perceptron": nn.Sequential(nn.Flatten(), nn.Linear(64, 2)),
    "tokens": Tokens(),
    "averages": nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)),
    "one map before a large layer": nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 64), nn.Linear(64, 2)
    ),
}


@pytest.mark.parametrize("model", WITHOUT_MAPS.values(), ids=WITHOUT_MAPS)
@pytest.mark.parametrize("players", [SEGMENTS, fw.grid(8, 8, patch=2)], ids=["segments", "patches"])
def test_a_model_without_useful_maps_gets_a_network_of_its_own(model: nn.Module, players: fw.players.Players) -> None:
    network = image_network(players, network=model)
    assert network.taps is None
    assert network(images(2)).shape == (2, players.n_players, CHANNELS)
    assert all(parameter.requires_grad for parameter in network.parameters())


@pytest.mark.parametrize("make", [ImageModel, Tokens])
def test_every_player_depends_on_every_pixel(make: type[nn.Module]) -> None:
    network = image_network(fw.grid(32, 32, patch=2), 32, seeded(make))
    wake(network)
    x = images(1, 32).requires_grad_()
    network(x)[0, 0].sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())


def test_an_image_that_its_grid_does_not_divide_is_stretched() -> None:
    players = fw.segments([[0, 0, 1, 1, 1]] * 9)
    network = ImageNetwork(surrogate(seeded(ImageModel), players), torch.zeros(1, 1, 9, 5), players, CHANNELS, width=16)
    assert network(torch.zeros(2, 1, 9, 5)).shape == (2, 2, CHANNELS)


def test_maps_join_at_the_level_of_their_resolution() -> None:
    sizes = _grids(fw.grid(32, 32, patch=2))
    assert sizes == [(16, 16), (8, 8), (4, 4)]
    joining = _levels_of_maps([(32, 32), (24, 24), (16, 16), (9, 9), (8, 8), (2, 2)], sizes)
    assert joining == [[1, 2], [3, 4], [5]]  # the finest map is left out


def test_a_large_surrogate_gets_a_wide_network(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = surrogate(seeded(ImageModel), SEGMENTS)
    narrow = ImageNetwork(inside, images(1), SEGMENTS, CHANNELS)
    monkeypatch.setattr(image_network_module, "LARGE_SURROGATE", 10)
    wide = ImageNetwork(inside, images(1), SEGMENTS, CHANNELS)
    assert (narrow.head.in_channels, wide.head.in_channels) == (64, 128)


def test_what_no_map_depends_on_is_frozen_and_so_is_batchnorm() -> None:
    taps = FeatureTaps(surrogate(seeded(ImageModel), SEGMENTS), images(1), 3)
    learns = {name for name, parameter in taps.surrogate.named_parameters() if parameter.requires_grad}
    assert learns == {f"network.{name}.{kind}" for name in ("fine.0", "coarse.1") for kind in ("weight", "bias")}


def test_an_encoder_is_a_copy_that_stays_in_evaluation_mode_while_it_learns() -> None:
    original = seeded(ImageModel)
    network = image_network(SEGMENTS, network=original)
    wake(network)
    network.train()
    assert network.training
    assert network.taps is not None
    assert not any(module.training for module in network.taps.modules())
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    optimizer = torch.optim.SGD([each for each in network.parameters() if each.requires_grad], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        network(images(4)).square().mean().backward()
        optimizer.step()
    changed = {name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])}
    assert "taps.surrogate.network.fine.0.weight" in changed
    assert not any(".fine.1." in name or ".coarse.2." in name or "network.head" in name for name in changed)
    fresh = seeded(ImageModel).state_dict()
    assert all(torch.equal(tensor, fresh[name]) for name, tensor in original.state_dict().items())


def test_a_copy_of_an_image_network_is_independent_and_says_the_same() -> None:
    network = image_network(fw.grid(8, 8, patch=2))
    wake(network)
    twin = copy.deepcopy(network)
    expected = network(images(3))
    assert torch.equal(twin(images(3)), expected)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    assert torch.equal(twin(images(3)), expected)
    assert not network(images(3)).any()


def test_an_image_network_can_be_exported_for_any_number_of_images() -> None:
    network = image_network(fw.grid(8, 8, patch=2)).eval()
    wake(network)
    expected = network(images(5))
    exported = torch.export.export(network, (images(3),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    assert_close(exported.module()(images(5)), expected)
    assert torch.equal(network(images(5)), expected)
    assert torch.equal(copy.deepcopy(network)(images(5)), expected)  # also after it was traced


@pytest.mark.usefixtures("unchecked")
def test_an_image_network_is_compiled_in_one_graph() -> None:
    network = image_network(fw.grid(8, 8, patch=2)).eval()
    wake(network)
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    assert_close(compiled(images(3)), network(images(3)))


def test_an_encoder_of_a_network_that_is_itself_one_finds_the_maps_outside_it() -> None:
    inner = image_network(fw.grid(8, 8, patch=2)).eval()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.inner, self.head = nn.Conv2d(1, 1, 3, padding=1), inner, nn.Linear(CHANNELS, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.inner(self.first(x)).mean(1))
            return out

    taps = FeatureTaps(surrogate(Outer(), SEGMENTS), images(1), 3)
    inside = taps.surrogate.get_submodule("network.inner")
    assert not any(name.startswith("network.inner.taps") for name in taps.names)
    assert [found.shape[-2:] for found in taps(images(2))] == [torch.Size(size) for size in taps.resolutions]
    assert torch.equal(inside(images(2)), inner(images(2)))


class Transformer(nn.Module):
    """Patches, attention among them, and far more parameters after its one map of the image than before."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 4, 2, stride=2)
        self.attention = nn.Identity()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 2))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2)
        mixed = self.attention((tokens.mT @ tokens)[:, None]).squeeze(1) @ tokens.mT
        out: Tensor = self.body(mixed.flatten(1))
        return out


def test_the_share_of_a_transformer_that_its_map_depends_on_is_small() -> None:
    taps = FeatureTaps(surrogate(Transformer(), SEGMENTS), images(1), 3)
    assert taps.names == ["network.patches"]
    assert taps.share == pytest.approx(20 / (20 + 64 * 64 + 64 + 128 + 2))


def test_a_matrix_of_attention_is_no_feature_map() -> None:
    model = Transformer()
    model.body = nn.Sequential(nn.AvgPool1d(32), nn.Linear(2, 2))
    assert FeatureTaps(surrogate(model, SEGMENTS), images(1), 3).resolutions == [(4, 4)]


def test_a_column_that_was_constant_keeps_its_units() -> None:
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    assert_close(Coordinates(x)(torch.tensor([[2.0, 1.0]])), torch.tensor([[0.0, 1.0]]))


NUMBER, CATEGORY, GAP = 0, 1, 2  # columns of a table of every kind
MIXED = torch.tensor([[1.0, 0.0, 5.0], [3.0, 2.0, torch.nan], [2.0, 1.0, 7.0], [2.0, 0.0, 6.0]])
KINDS = ColumnKinds((0, 3, 0), (False, False, True))


def test_a_category_has_a_coordinate_each_and_a_gap_one_that_tells_it() -> None:
    coordinates = Coordinates(MIXED, KINDS)
    assert coordinates.count == 6
    assert coordinates.owner.tolist() == [NUMBER, GAP, CATEGORY, CATEGORY, CATEGORY, GAP]
    unit = (2 / 3) ** 0.5  # the deviation of 5, 6, 7
    expected = torch.tensor(
        [
            [-(2**0.5), -1 / unit, 1, 0, 0, 0],
            [2**0.5, 0, 0, 0, 1, 1],
            [0, 1 / unit, 0, 1, 0, 0],
            [0, 0, 1, 0, 0, 0],
        ]
    )
    assert_close(coordinates(MIXED), expected)


def test_mean_and_deviation_ignore_gaps() -> None:
    x = rows(100, 2) * 3 + 1
    gappy = torch.cat([x, torch.full((50, 2), torch.nan)])
    one, other = Coordinates(gappy, ColumnKinds((), (True, True))), Coordinates(x)
    assert_close(one.mean, other.mean)
    assert_close(one.scale, other.scale)
    assert_close(one(gappy)[:, :2], torch.cat([other(x), torch.zeros(50, 2)]))


def test_a_column_of_gaps_alone_is_told_and_nothing_else() -> None:
    x = torch.full((3, 1), torch.nan)
    found = Coordinates(x, ColumnKinds((), (True,)))(torch.tensor([[torch.nan], [2.0]]))
    assert found.tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e-3, 1e9])
def test_the_units_of_a_column_do_not_matter(unit: float) -> None:
    x = rows(50, 2)
    assert_close(Coordinates(unit * x)(unit * x), Coordinates(x)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("constant", [0.0, 0.1, -3.0, 1e7, 1e-9])
def test_a_constant_column_has_the_coordinate_zero(constant: float) -> None:
    x = torch.full((1000, 1), constant)
    assert float(Coordinates(x).scale) == 1
    assert_close(Coordinates(x)(x), torch.zeros(1000, 1), rtol=0, atol=max(1e-6, 1e-6 * abs(constant)))


def test_rows_that_differ_have_different_coordinates() -> None:
    every = torch.cartesian_prod(torch.tensor([0.0, 1.0]), torch.arange(3.0), torch.tensor([0.0, 1.0, torch.nan]))
    assert len(Coordinates(every, KINDS)(every).unique(dim=0)) == 18


def test_only_what_was_learned_of_coordinates_is_saved() -> None:
    assert set(Coordinates(MIXED, KINDS).state_dict()) == {"mean", "scale"}
    twin = Coordinates(torch.zeros(2, 3), KINDS)
    twin.load_state_dict(Coordinates(MIXED, KINDS).state_dict())
    assert torch.equal(twin(MIXED), Coordinates(MIXED, KINDS)(MIXED))


def test_a_table_network_takes_categories_and_gaps() -> None:
    network = TableNetwork(MIXED, 3, CHANNELS, kinds=KINDS, width=8, depth=1)
    assert network(MIXED).shape == (4, 3, CHANNELS)
    nn.init.ones_(network.body.last.weight)
    assert bool(network(MIXED).isfinite().all())


def test_outputs_are_rescaled_to_the_units_of_the_targets() -> None:
    targets = torch.tensor([[1e6, 5.0], [3e6, 5.0]])
    rescale = Rescale(2, targets)
    assert rescale(torch.tensor([[0.0, 0.0], [1.0, 1.0]])).tolist() == [[2e6, 5], [3e6, 6]]  # a constant has units of 1
    assert torch.equal(Rescale(2)(targets), targets)


@pytest.mark.parametrize(("size", "channels"), [((8, 8), 1), ((28, 28), 2), ((5, 9), 4), ((2, 2), 1), ((64, 32), 3)])
def test_a_small_cnn_takes_images_of_any_size(size: tuple[int, int], channels: int) -> None:
    targets = torch.tensor([[10.0, -1.0], [30.0, 1.0]])
    network = SmallCNN(channels, 2, min(size), targets=targets, width=4).eval()
    assert network(torch.zeros(3, channels, *size)).shape == (3, 2)
    head = network.head[0]
    assert isinstance(head, nn.Linear)
    zero(head)
    assert network(torch.ones(1, channels, *size)).tolist() == [[20, 0]]  # the mean of the targets


def test_a_small_cnn_halves_an_image_until_it_is_small() -> None:
    levels = [len(SmallCNN(1, 2, side, width=1).blocks) for side in (1, 4, 7, 8, 16, 32, 224)]
    assert levels == [1, 1, 1, 2, 3, 4, 4]
