"""Figures and tables of `benchmarks.decide.run`. Knows episodes, no scorer and no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from toolheads.decide.calibration.episodes import Episodes, joined
from toolheads.decide.calibration.lists import fit_list_cutoff, list_figures
from toolheads.decide.calibration.thresholds import (
    Trade,
    absence_auroc,
    fit_thresholds,
    trade_of,
)

TARGETS = (0.01, 0.05, 0.1)
ALPHAS = (0.05, 0.1)
WAYS = ("own", "others", "half")

Key = tuple[str, str]


@dataclass(frozen=True)
class Bound:
    """One threshold on one data set."""

    dataset: str
    way: str
    target: float
    trade: Trade


@dataclass(frozen=True)
class Listed:
    """One cut-off on one data set; NaN where the calibration queries gave no bound."""

    dataset: str
    way: str
    alpha: float
    missed: float
    length: float
    fixed_missed: float
    """Of lists of one length, with the same bound from the same queries."""
    fixed_k: float


@dataclass(frozen=True)
class Figures:
    """All figures of one scorer."""

    auroc: Mapping[str, float]
    bounds: tuple[Bound, ...]
    lists: tuple[Listed, ...]

    @classmethod
    def of(
        cls, episodes: Mapping[Key, Episodes], *, halves: int, rng: np.random.Generator
    ) -> Figures:
        """Choose thresholds in every way and measure them."""
        test = {name: e for (name, split), e in episodes.items() if split == "test"}
        training = {name: e for (name, split), e in episodes.items() if split == "train"}
        bounds: list[Bound] = []
        lists: list[Listed] = []
        everything = joined(list(training.values())) if training else None
        for name, held_out in test.items():
            if name in training:
                ways = [("own", training[name], held_out)]
            else:
                ways = [("others", everything, held_out)] if everything else []
            for way, fit, measured in ways:
                bounds += _bounds(name, way, fit, measured)
                lists += _lists(name, way, fit, measured)
            parts = [_halves(held_out, rng) for _ in range(halves)]
            bounds += _mean_bounds(name, parts)
            lists += _mean_lists(name, parts)
        auroc = {name: absence_auroc(e) for name, e in test.items()}
        return cls(auroc, tuple(bounds), tuple(lists))

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


def tables(
    figures: Mapping[str, Figures], targets: Sequence[float], alphas: Sequence[float]
) -> str:
    """Markdown: decisions, lists, and the absence of each data set."""
    return "\n\n".join(
        [
            "\n".join(_decision_rows(figures, targets)),
            "\n".join(_list_rows(figures, alphas)),
            "\n".join(_bound_rows(figures, alphas)),
            "\n".join(_auroc_rows(figures)),
        ]
    )


def _decision_rows(figures: Mapping[str, Figures], targets: Sequence[float]) -> Iterator[str]:
    yield (
        "| thresholds from | sets | scorer | "
        + " | ".join(f"≤ {t:.0%}: false binds | coverage | right" for t in targets)
        + " |"
    )
    yield "| --- | ---: | --- |" + " ---: |" * (3 * len(targets))
    for way in WAYS:
        for name, one in figures.items():
            cells, sets = [], set()
            for target in targets:
                rows = [b for b in one.bounds if (b.way, b.target) == (way, target)]
                sets |= {row.dataset for row in rows}
                cells += [
                    _percent([row.trade.false_binds for row in rows]),
                    _percent([row.trade.coverage for row in rows]),
                    _percent([row.trade.accuracy for row in rows if row.trade.coverage]),
                ]
            if sets:
                yield f"| {way} | {len(sets)} | {name} | " + " | ".join(cells) + " |"


def _list_rows(figures: Mapping[str, Figures], alphas: Sequence[float]) -> Iterator[str]:
    yield (
        "| cut-offs from | scorer | "
        + " | ".join(
            f"alpha {a:g}: sets | missed | mean length | fixed k: missed | k" for a in alphas
        )
        + " |"
    )
    yield "| --- | --- |" + " ---: |" * (5 * len(alphas))
    for way in WAYS:
        for name, one in figures.items():
            cells = []
            for alpha in alphas:
                rows = [r for r in one.lists if (r.way, r.alpha) == (way, alpha)]
                bounded = [r for r in rows if np.isfinite(r.missed)]
                fixed = [r for r in bounded if np.isfinite(r.fixed_k)]
                cells += [
                    f"{len(bounded)} of {len(rows)}",
                    _percent([r.missed for r in bounded]),
                    _number([r.length for r in bounded]),
                    _percent([r.fixed_missed for r in fixed]),
                    _number([r.fixed_k for r in fixed]),
                ]
            yield f"| {way} | {name} | " + " | ".join(cells) + " |"


def _bound_rows(figures: Mapping[str, Figures], alphas: Sequence[float]) -> Iterator[str]:
    yield (
        "| missed on other halves | "
        + " | ".join(f"alpha {a:g}: mean | worst set | sets above" for a in alphas)
        + " |"
    )
    yield "| --- |" + " ---: |" * (3 * len(alphas))
    for name, one in figures.items():
        cells = []
        for alpha in alphas:
            rows = [r for r in one.lists if (r.way, r.alpha) == ("half", alpha)]
            rows = [r for r in rows if np.isfinite(r.missed)]
            worst = max(rows, key=lambda r: r.missed, default=None)
            cells += [
                _percent([r.missed for r in rows]),
                "-" if worst is None else f"{100 * worst.missed:.1f} ({worst.dataset})",
                f"{sum(r.missed > alpha for r in rows)} of {len(rows)}",
            ]
        yield f"| {name} | " + " | ".join(cells) + " |"


def _auroc_rows(figures: Mapping[str, Figures]) -> Iterator[str]:
    names = list(next(iter(figures.values())).auroc)
    yield "| AUROC of absence | " + " | ".join(figures) + " |"
    yield "| --- |" + " ---: |" * len(figures)
    for name in names:
        cells = " | ".join(f"{100 * one.auroc[name]:.1f}" for one in figures.values())
        yield f"| {name} | {cells} |"
    macro = " | ".join(_percent(list(one.auroc.values())) for one in figures.values())
    yield f"| **macro average** | {macro} |"


def _bounds(name: str, way: str, fit: Episodes, measured: Episodes) -> Iterator[Bound]:
    for target in TARGETS:
        settings = fit_thresholds(fit, target)
        if settings is not None:
            yield Bound(name, way, target, trade_of(measured, settings))


def _mean_bounds(name: str, parts: Sequence[tuple[Episodes, Episodes]]) -> Iterator[Bound]:
    for target in TARGETS:
        trades = [b.trade for one, two in parts for b in _bounds_at(name, one, two, target)]
        if trades:
            bound = [t for t in trades if t.coverage]
            yield Bound(
                name,
                "half",
                target,
                Trade(
                    false_binds=float(np.mean([t.false_binds for t in trades])),
                    coverage=float(np.mean([t.coverage for t in trades])),
                    accuracy=float(np.mean([t.accuracy for t in bound])) if bound else 0.0,
                    duplicates=float(np.mean([t.duplicates for t in trades])),
                    present=trades[0].present,
                    absent=trades[0].absent,
                ),
            )


def _bounds_at(name: str, fit: Episodes, measured: Episodes, target: float) -> Iterator[Bound]:
    settings = fit_thresholds(fit, target)
    if settings is not None:
        yield Bound(name, "half", target, trade_of(measured, settings))


def _lists(name: str, way: str, fit: Episodes, measured: Episodes) -> Iterator[Listed]:
    for alpha in ALPHAS:
        fitted = fit_list_cutoff(fit, alpha)
        if fitted is None:
            yield Listed(name, way, alpha, np.nan, np.nan, np.nan, np.nan)
            continue
        found = list_figures(measured, fitted.margin, fitted.max_k)
        k = fitted.fixed_k
        missed = np.nan if k is None else list_figures(measured, 1e9, k).missed
        fixed = np.nan if k is None else float(k)
        yield Listed(name, way, alpha, found.missed, found.mean_length, missed, fixed)


def _mean_lists(name: str, parts: Sequence[tuple[Episodes, Episodes]]) -> Iterator[Listed]:
    """NaN where one of the halves gives no bound: the rest would be the easy halves."""
    every = [row for one, two in parts for row in _lists(name, "half", one, two)]
    for alpha in ALPHAS:
        rows = [row for row in every if row.alpha == alpha]
        yield Listed(
            name,
            "half",
            alpha,
            float(np.mean([row.missed for row in rows])),
            float(np.mean([row.length for row in rows])),
            float(np.mean([row.fixed_missed for row in rows])),
            float(np.mean([row.fixed_k for row in rows])),
        )


def _halves(episodes: Episodes, rng: np.random.Generator) -> tuple[Episodes, Episodes]:
    order = rng.permutation(len(episodes.present))
    half = len(order) // 2
    one, two = np.sort(order[:half]), np.sort(order[half:])
    return episodes.at(one, one), episodes.at(two, two)


def _percent(values: Sequence[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f}" if values else "-"


def _number(values: Sequence[float]) -> str:
    return f"{float(np.mean(values)):.1f}" if values else "-"
