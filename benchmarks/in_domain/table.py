"""From values of single requests to tables with paired tests; knows no vectors and no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolheads.evaluation.statistics import bootstrap_means, holm, interval, permutation_p

FROZEN, NEAREST, PROBE = "frozen vectors", "nearest requests", "probe"
GENERAL, OWN_ALONE = "general heads", "own heads, vectors alone"
OWN, ALL = "own heads", "heads of all sets"
SYSTEMS = (FROZEN, NEAREST, PROBE, GENERAL, OWN_ALONE, OWN, ALL)
TESTED = (OWN_ALONE, OWN, ALL)
"""Those that are held against the probe."""

PARTS = {
    "all": "All test requests",
    "seen": "Requests whose tools all occur in training requests",
    "unseen": "Requests with a tool that occurs in none",
}

MIN_REQUESTS = 20
"""A data set with fewer requests of a part has no line there."""


@dataclass(frozen=True)
class Measured:
    """One data set: nDCG@10 of each test request for each system."""

    name: str
    train: int
    """Requests that trained."""
    validation: int
    tools: int
    seen_tools: int
    """Tools that a training request names."""
    seen: tuple[bool, ...]
    """For each test request, whether all of its tools are among these."""
    values: Mapping[str, tuple[float, ...]]
    """System → one value for each test request, in [0, 1]."""
    chosen: Mapping[str, float]
    """What validation chose: L2 strength of the probe, number of neighbours."""
    cpu_s: Mapping[str, float]
    """System → CPU seconds of its training, choosing included."""

    def part(self, name: str) -> dict[str, np.ndarray]:
        """System → values in percent of the requests of a part."""
        seen = np.array(self.seen, dtype=bool)
        kept = {"all": np.ones_like(seen), "seen": seen, "unseen": ~seen}[name]
        return {system: 100 * np.array(v)[kept] for system, v in self.values.items()}


def render(found: Sequence[Measured], head: str) -> str:
    """All tables in Markdown under a line that says what was measured on what."""
    parts = [head]
    for name, title in PARTS.items():
        parts += [f"**{title}**, nDCG@10", _quality(found, name)]
    parts += ["**Training**", _training(found)]
    return "\n\n".join(part for part in parts if part)


def _quality(found: Sequence[Measured], part: str) -> str:
    values = {one.name: one.part(part) for one in found}
    values = {name: v for name, v in values.items() if len(v[PROBE]) >= MIN_REQUESTS}
    if not values:
        return "none"
    systems = [s for s in SYSTEMS if all(s in v for v in values.values())]
    tested = [s for s in TESTED if s in systems]
    against = {s: _against_probe(values, s) for s in tested}
    header = ["data set", "requests", *systems, *(f"{s} - probe" for s in tested)]
    lines = []
    for at, (name, of_set) in enumerate(values.items()):
        means = [float(of_set[s].mean()) for s in systems]
        cells = [f"{len(of_set[PROBE]):,}", *_bold_best(means)]
        lines.append([name, *cells, *(against[s][at] for s in tested)])
    means = [float(np.mean([v[s].mean() for v in values.values()])) for s in systems]
    count = sum(len(v[PROBE]) for v in values.values())
    macro = [f"{count:,}", *_bold_best(means), *(against[s][-1] for s in tested)]
    return _table(header, [*lines, ["**macro average**", *macro]])


def _against_probe(values: Mapping[str, Mapping[str, np.ndarray]], system: str) -> list[str]:
    """Difference, interval and p of each data set (Holm) and of the macro average (one test)."""
    differences = {name: v[system] - v[PROBE] for name, v in values.items()}
    drawn = bootstrap_means(differences, resamples=1000, seed=0)
    ps = holm([permutation_p({name: d}, seed=0) for name, d in differences.items()])
    cells = [
        _difference(float(d.mean()), interval(drawn[name][:, 0], confidence=0.95), p)
        for (name, d), p in zip(differences.items(), ps, strict=True)
    ]
    mean = float(np.mean([d.mean() for d in differences.values()]))
    ends = interval(np.mean([one[:, 0] for one in drawn.values()], axis=0), confidence=0.95)
    return [*cells, _difference(mean, ends, permutation_p(differences, seed=0))]


def _difference(mean: float, ends: tuple[float, float], p: float) -> str:
    shown = "<0.001" if p < 0.001 else f"{p:.3f}"
    return f"{mean:+.2f} [{ends[0]:+.1f}, {ends[1]:+.1f}], p {shown}"


def _training(found: Sequence[Measured]) -> str:
    header = [
        *("data set", "training requests", "validation", "tools", "of them seen"),
        *("L2 strength", "neighbours", "probe, CPU s", "own heads, CPU s"),
    ]
    lines = [
        [
            one.name,
            *(f"{n:,}" for n in (one.train, one.validation, one.tools, one.seen_tools)),
            f"{one.chosen[PROBE]:g}",
            f"{one.chosen[NEAREST]:g}",
            *(f"{one.cpu_s[s]:.0f}" if s in one.cpu_s else "" for s in (PROBE, OWN)),
        ]
        for one in found
    ]
    return _table(header, lines)


def _bold_best(means: Sequence[float]) -> list[str]:
    shown = [f"{value:.2f}" for value in means]
    best = max(shown, key=float)
    return [f"**{one}**" if one == best else one for one in shown]


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *lines))
