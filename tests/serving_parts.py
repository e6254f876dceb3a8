"""A server of three small models in a thread: a table, images, and an exact one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import requests
import torch
from fastapi import APIRouter
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression

import fwshapley as fw
from fwshapley.serving.exported_explainer import ExportedExplainer
from fwshapley.serving.http.server import HttpServer
from fwshapley.serving.http.settings import ServerSettings
from fwshapley.serving.mixtures import BanzhafNodes
from fwshapley.serving.model_folder import make_learned
from fwshapley.serving.served_model import ExactModel, ServedModel, fields_of_exact
from models import ImageModel, images, seeded

SIDE = 8
ERRORS_KNOWN = [fw.Shapley(), fw.Beta(4, 1)]
PATIENCE = 20.0
"""Seconds after which a test fails that waits for a server."""


def wines(count: int = 60) -> pd.DataFrame:
    """Return numbers with gaps, texts and dates."""
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "acid": np.where(generator.random(count) < 0.2, np.nan, generator.normal(3, 1, count)),
            "region": generator.choice(["Chianti", "Médoc", "Wachau"], count),
            "bottled": (pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, count), "D")).strftime(
                "%Y-%m-%d"
            ),
        }
    )


def rate(table: pd.DataFrame) -> NDArray[np.float64]:
    days = (pd.to_datetime(table["bottled"]) - pd.Timestamp("2020-01-01")).dt.days
    one = table["acid"].fillna(0) / 3 + (table["region"] == "Médoc")
    return np.stack([one, days / 900], 1).astype(float)


def as_instances(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON has them."""
    return [
        {str(name): None if isinstance(entry, float) and np.isnan(entry) else entry for name, entry in row.items()}
        for row in table.to_dict("records")
    ]


@dataclass(frozen=True)
class Explained:
    """An explainer that is served.

    Attributes:
        explainer: in Python.
        model: of the server.
    """

    explainer: Any
    model: ServedModel[Any]


@pytest.fixture(scope="session")
def explained() -> dict[str, Explained]:
    """Explainers after a few steps of training, by the name of their model."""
    few: dict[str, Any] = {"budget": fw.Budget(steps=3), "batch_size": 16, "n_coalitions": 4, "progress": False}
    few["augment"] = lambda x, _: x  # so that no mixed rows are predicted, which takes longest
    of_table = fw.FeatureExplainer(rate, output_names=["price", "age"], device="cpu").fit(wines(), **few)
    of_table.calibrate(wines(), n_inputs=16, n_calls=34, weights=ERRORS_KNOWN, progress=False)
    of_images = fw.FeatureExplainer(seeded(ImageModel), fw.grid(SIDE, SIDE, patch=2), device="cpu")
    of_images.fit(images(40), **few)
    samples = {"wines": tuple(as_instances(wines(4))), "shapes": tuple(images(3, seed=1).numpy().tolist())}
    served = {}
    for name, explainer in {"wines": of_table, "shapes": of_images}.items():
        generator = torch.Generator().manual_seed(0)
        for parameter in list(explainer.network_.parameters())[-2:]:  # far from zero
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        model = make_learned(name, ExportedExplainer.of(explainer), "torch", None)
        model = replace(model, samples=samples[name])
        served[name] = Explained(explainer, model)
    x = np.random.default_rng(0).normal(size=(30, 3))
    linear = fw.LinearExplainer(LinearRegression().fit(x, x @ [1, 2, 0]), x)
    exact = ExactModel("linear", fields_of_exact(linear), BanzhafNodes.of(3), (), linear)
    return served | {"linear": Explained(linear, exact)}


@dataclass
class Running:
    """A server that runs in a thread.

    Attributes:
        server: itself.
        address: of it.
    """

    server: HttpServer
    address: str
    session: requests.Session = field(default_factory=requests.Session)

    def post(self, path: str, body: Any, **options: Any) -> requests.Response:  # noqa: ANN401 - JSON
        return self.session.post(self.address + path, json=body, timeout=PATIENCE, **options)

    def get(self, path: str, **options: Any) -> requests.Response:  # noqa: ANN401 - of requests
        return self.session.get(self.address + path, timeout=PATIENCE, **options)


@contextmanager
def running(
    load: Callable[[], dict[str, ServedModel[Any]]], settings: ServerSettings, routers: Sequence[APIRouter] = ()
) -> Iterator[Running]:
    """Run a server on a free port until the block ends."""
    ready, addresses = threading.Event(), []

    def tell(address: str) -> None:
        addresses.append(address)
        ready.set()

    server = HttpServer(load, replace(settings, port=0), tell)
    for router in routers:
        server.app.include_router(router)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield Running(server, addresses[0])
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def server(explained: dict[str, Explained]) -> Iterator[Running]:
    with running(lambda: {name: one.model for name, one in explained.items()}, ServerSettings()) as started:
        yield started
