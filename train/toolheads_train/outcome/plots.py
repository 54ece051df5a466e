"""Plots of a run as PNG files. Takes numbers, writes pictures; knows neither torch nor heads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolheads.errors import import_extra
from toolheads_train.outcome.calibration import MarginPoint

DPI = 120

_BLUE, _ORANGE, _GREEN, _RED, _GREY = "#2f6db3", "#d9762b", "#3a8f5c", "#b8433f", "#8a8f98"

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 10,
    "axes.edgecolor": "#b5bac2",
    "axes.labelcolor": "#33373d",
    "text.color": "#22262b",
    "xtick.color": "#55595f",
    "ytick.color": "#55595f",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e7e9ec",
    "grid.linewidth": 0.9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.9,
    "figure.facecolor": "white",
}

_MOST_SETS_IN_A_CURVE = 6
"""More validation sets than this are drawn as thin grey lines without names."""


def plot_curves(
    path: Path,
    loss: Sequence[tuple[int, float]],
    validation: Mapping[str, Sequence[tuple[int, float]]],
    *,
    best_step: int | None,
    metric: str = "nDCG@10",
) -> None:
    """Draw the loss and the validation metric over the optimiser steps.

    Args:
        path: The PNG file.
        loss: (step, nats), rising steps.
        validation: Validation set → (step, metric); the mean of the sets under "".
        best_step: Step of the chosen checkpoint.
        metric: Name of the metric as it is shown.
    """
    with _figure(path, 2, width=8.0, height=6.2, sharex=True) as (_, (top, bottom)):
        top.set_title("Training loss")
        top.set_ylabel("loss (nats)")
        if loss:
            steps, values = zip(*loss, strict=True)
            top.plot(steps, values, color=_BLUE, alpha=0.3 if len(loss) > 20 else 1.0)
            if len(loss) > 20:
                top.plot(steps, _smoothed(values), color=_BLUE, label="running mean")
                top.legend(loc="upper right")
        bottom.set_title("Validation, step 0 is the frozen embedding")
        bottom.set_ylabel(metric)
        bottom.set_xlabel("optimiser steps")
        sets = {name: points for name, points in validation.items() if name and points}
        if len(sets) > 1:
            few = len(sets) <= _MOST_SETS_IN_A_CURVE
            for at, (name, points) in enumerate(sets.items()):
                color = f"C{at + 1}" if few else _GREY
                bottom.plot(
                    *zip(*points, strict=True),
                    color=color,
                    alpha=0.75 if few else 0.45,
                    linewidth=1.1,
                    label=name if few else ("each data set" if at == 0 else None),
                )
        mean = validation.get("", ())
        if mean:
            style = {"marker": "o", "markersize": 4} if len(mean) <= 40 else {}
            label = "mean of the data sets" if len(sets) > 1 else next(iter(sets), "validation")
            bottom.plot(*zip(*mean, strict=True), color=_BLUE, label=label, **style)
            at_best = dict(mean).get(best_step) if best_step is not None else None
            if at_best is not None:
                bottom.axvline(best_step, color=_ORANGE, linewidth=1.2, linestyle="--")
                bottom.plot(
                    [best_step],
                    [at_best],
                    marker="o",
                    markersize=9,
                    color=_ORANGE,
                    linestyle="none",
                    clip_on=False,
                    label=f"kept: step {best_step}, {at_best:.3f}",
                )
            _legend_below(bottom, -0.26)
        last = max([1, *(step for step, _ in (*loss, *mean))])
        bottom.set_xlim(-0.02 * last, 1.02 * last)
        bottom.xaxis.get_major_locator().set_params(integer=True)


def plot_gains(
    path: Path,
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    metric: str = "nDCG@10",
) -> None:
    """Draw the gain over the frozen embedding for each data set, the mean apart.

    Args:
        path: The PNG file.
        before: Data set → metric of the frozen embedding, in [0, 1]; the mean under "".
        after: The same of the heads as they are served.
        metric: Name of the metric as it is shown.
    """
    gains = {name: 100 * (after[name] - before[name]) for name in before if name}
    order = sorted(gains, key=lambda name: (gains[name], name))
    rows = [*order, *([""] if "" in before and len(order) > 1 else [])]
    height = 1.9 + 0.42 * len(rows)
    with _figure(path, 1, width=8.0, height=height) as (_, (axes,)):
        axes.set_title(f"Gain over the frozen embedding in {metric}, validation data")
        axes.set_xlabel("points of 100")
        axes.grid(visible=False, axis="y")
        values = [gains[name] if name else 100 * (after[""] - before[""]) for name in rows]
        colors = [
            _BLUE if not name else _GREEN if value >= 0 else _RED
            for name, value in zip(rows, values, strict=True)
        ]
        axes.barh(range(len(rows)), values, color=colors, height=0.62)
        axes.axvline(0, color="#55595f", linewidth=1.0)
        axes.set_yticks(range(len(rows)), [name or "mean of the data sets" for name in rows])
        axes.tick_params(axis="y", length=0)
        span = max(max(map(abs, values), default=0.0), 0.5)
        low, high = min(0.0, *values), max(0.0, *values)
        # Room for the words beside the bars: about 38 characters at this width and size.
        axes.set_xlim(low - (0.95 * span if low < 0 else 0.04 * span), high + 0.95 * span)
        for row, (name, value) in enumerate(zip(rows, values, strict=True)):
            gain = f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")
            text = f"{gain}   ({100 * before[name]:.1f} → {100 * after[name]:.1f})"
            axes.annotate(
                text,
                (value, row),
                xytext=(6 if value >= 0 else -6, 0),
                textcoords="offset points",
                va="center",
                ha="left" if value >= 0 else "right",
                fontsize=9,
            )
        axes.set_ylim(-0.6, len(rows) - 0.4)


def plot_cutoff(
    path: Path,
    points: Sequence[MarginPoint],
    *,
    chosen: float,
    fixed: MarginPoint,
) -> None:
    """Draw recall, completeness and list length against the margin of the adaptive cut.

    Args:
        path: The PNG file.
        points: At least one; those of no use for a look (the margin that keeps everything) are
            left out.
        chosen: The margin that was chosen.
        fixed: The list of always as many hits, for comparison.
    """
    shown = [p for p in points if p.margin <= max(chosen, 1.0)] or list(points)
    margins = [p.margin for p in shown]
    hits = f"{fixed.length:.0f} hits always" if fixed.length >= 9.5 else "all hits always"
    with _figure(path, 2, width=8.0, height=6.2, sharex=True) as (_, (top, bottom)):
        top.set_title("What the adaptive cut finds, validation data")
        top.set_ylabel("share of queries or tools (%)")
        for name, color in (("recall", _BLUE), ("completeness", _GREEN)):
            values = [100 * getattr(p, name) for p in shown]
            top.plot(margins, values, color=color, marker="o", markersize=3.5, label=name)
            top.axhline(
                100 * getattr(fixed, name),
                color=color,
                linewidth=1.0,
                linestyle=":",
                label=f"{name}, {hits}",
            )
        bottom.set_title("What it shows")
        bottom.set_ylabel("hits of a query, mean")
        bottom.set_xlabel("margin: largest difference to the best score")
        lengths = [p.length for p in shown]
        bottom.plot(margins, lengths, color=_BLUE, marker="o", markersize=3.5)
        bottom.set_ylim(bottom=0)
        for axes in (top, bottom):
            axes.axvline(chosen, color=_ORANGE, linewidth=1.4, linestyle="--")
        point = min(shown, key=lambda p: abs(p.margin - chosen))
        right = chosen > (min(margins) + max(margins)) / 2
        bottom.annotate(
            f"chosen: margin {chosen:g}\n"
            f"{point.length:.1f} hits, recall {100 * point.recall:.1f} %",
            (chosen, point.length),
            xytext=(-12 if right else 12, -30 if point.length > max(lengths) / 2 else 18),
            textcoords="offset points",
            ha="right" if right else "left",
            color=_ORANGE,
        )
        _legend_below(top, -0.03)


@contextmanager
def _figure(
    path: Path, rows: int, *, width: float, height: float, sharex: bool = False
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """A figure without a display that is saved when the context ends."""
    matplotlib = import_extra("matplotlib", user="plots of a run", extra="train")
    agg = import_extra("matplotlib.backends.backend_agg", user="plots of a run", extra="train")
    figures = import_extra("matplotlib.figure", user="plots of a run", extra="train")
    with matplotlib.rc_context(_STYLE):
        figure = figures.Figure(figsize=(width, height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # inches
        agg.FigureCanvasAgg(figure)
        axes = figure.subplots(rows, 1, sharex=sharex, squeeze=False)[:, 0]
        yield figure, axes
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without the writer's name and version, equal numbers give equal files.
        figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def _legend_below(axes: Any, at: float) -> None:
    """A legend that covers no line, in rows of four."""
    axes.legend(loc="upper left", bbox_to_anchor=(0, at), ncols=4, borderaxespad=0)


def _smoothed(values: Sequence[float]) -> list[float]:
    """Exponential running mean over about a twentieth of the curve, without a bias at the start."""
    keep = 1 - 1 / max(2.0, len(values) / 20)
    smooth, weight, mean = [], 0.0, 0.0
    for value in values:
        if not math.isfinite(value):
            smooth.append(math.nan)
            continue
        mean, weight = keep * mean + (1 - keep) * value, keep * weight + (1 - keep)
        smooth.append(mean / weight)
    return smooth
