"""Numbers for Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from toolheads.retrieval import Status
from toolheads.usage import RecorderStatus

_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_PATHS = {
    *("/mcp", "/v1/search", "/v1/rank", "/v1/call", "/v1/feedback", "/v1/tools"),
    *("/healthz", "/readyz", "/metrics", "/openapi.json"),
}
_ONE_TOOL = "/v1/tools/"


class Metrics:
    """What a server counts.

    Args:
        status: How the retriever is, asked at every scrape.
        usage: How the recording of events goes; None where nothing is recorded.
    """

    def __init__(
        self, status: Callable[[], Status], usage: Callable[[], RecorderStatus] | None = None
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "toolheads_requests",
            "HTTP requests answered",
            ("method", "path", "status"),
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "toolheads_request_seconds",
            "Time of HTTP requests",
            ("path",),
            buckets=_QUICK,
            registry=self._registry,
        )
        self._searches = Histogram(
            "toolheads_search_seconds",
            "Time of searches, by how they were answered",
            ("mode", "via"),
            buckets=_QUICK,
            registry=self._registry,
        )
        self._empty = Counter(
            "toolheads_searches_without_match",
            "Searches that no tool fits",
            registry=self._registry,
        )
        self._calls = Histogram(
            "toolheads_call_seconds",
            "Time of calls, by outcome",
            ("outcome", "kind"),
            buckets=_SLOW,
            registry=self._registry,
        )
        self._registry.register(_State(status, usage))

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count an HTTP answer. Paths and methods without a route are counted as `other`."""
        if path.startswith(_ONE_TOOL):
            path = "/v1/tools/{id}"
        elif path not in _PATHS:
            path = "other"
        method = method if method in _METHODS else "other"
        self._requests.labels(method, path, str(status)).inc()
        self._request_seconds.labels(path).observe(seconds)

    def search(self, mode: str, via: str, seconds: float, *, is_empty: bool) -> None:
        """Count a search."""
        self._searches.labels(mode, via).observe(seconds)
        if is_empty:
            self._empty.inc()

    def call(self, outcome: str, kind: str, seconds: float) -> None:
        """Count a call of a tool, or one that a client tells of."""
        self._calls.labels(outcome, kind).observe(seconds)

    def answer(self) -> Response:
        """All numbers as Prometheus reads them."""
        return Response(
            generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


class _State:
    """What others count, read when it is asked for."""

    def __init__(
        self, status: Callable[[], Status], usage: Callable[[], RecorderStatus] | None
    ) -> None:
        self._status, self._usage = status, usage

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        for name, text, value in (
            ("ready", "Whether searches are answered", status.ready),
            ("degraded", "Whether something is worse than it should be", status.degraded),
            ("dense", "Whether new queries are answered by vectors", status.mode == "dense"),
            ("tools", "Tools that are served", status.tools),
            ("tools_pending", "Tools that are not embedded yet", status.pending),
            ("catalogue_faults", "Lines that the last reading left out", status.faults),
            ("cached_queries", "Queries whose vectors are kept", status.cached_queries),
            ("cached_bytes", "Bytes of them", status.cached_bytes),
        ):
            yield GaugeMetricFamily(f"toolheads_{name}", text, value=float(value))
        circuit = GaugeMetricFamily(
            "toolheads_circuit", "State of the encoder's circuit", labels=["state"]
        )
        for state in ("closed", "half_open", "open"):
            circuit.add_metric([state], float(status.circuit == state))
        yield circuit
        for name, text, value in (
            ("encoder_failures", "Failures of the encoder", status.encoder_failures),
            ("reload_failures", "Failed reloads of the catalogue", status.reload_failures),
        ):
            yield CounterMetricFamily(f"toolheads_{name}", text, value=float(value))
        if self._usage is None:
            return
        usage = self._usage()
        yield GaugeMetricFamily(
            "toolheads_usage_waiting", "Usage events not yet written", value=usage.waiting
        )
        for name, text, value in (
            ("usage_written", "Usage events written", usage.written),
            ("usage_lost", "Usage events lost", usage.lost),
            ("usage_failures", "Failed tries to write usage events", usage.failures),
        ):
            yield CounterMetricFamily(f"toolheads_{name}", text, value=float(value))
