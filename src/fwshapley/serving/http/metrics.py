"""What a server counts and measures, in the format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Metrics of one server. Labels are names of models and routes, never what clients send."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "fwshapley_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "fwshapley_request_seconds", "Time from the head of a request to its last byte.", ["route"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.rows = Counter("fwshapley_inputs", "Inputs explained.", ["model"], registry=self.registry)
        self.batches = Histogram(
            "fwshapley_batch_inputs", "Inputs computed at once.", ["model"], buckets=ROWS, registry=self.registry
        )
        self.queued = Gauge("fwshapley_queued_inputs", "Inputs that wait.", ["model"], registry=self.registry)
        self.running = Gauge("fwshapley_running_requests", "Requests that are answered now.", registry=self.registry)
        self.reloads = Counter(
            "fwshapley_reloads", "Reloads of the models by result.", ["result"], registry=self.registry
        )

        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request.

        Args:
            route: its path, with {name} for the name of a model.
            status: of its answer.
            seconds: from its head to its last byte.
        """
        children = self._children.get((route, status))
        if children is None:  # it takes a while to find them
            children = self._children[route, status] = (self.requests.labels(route, status), self.seconds.labels(route))
        children[0].inc()
        children[1].observe(seconds)

    def write(self) -> bytes:
        """Return all metrics as text."""
        return generate_latest(self.registry)
