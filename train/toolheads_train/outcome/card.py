"""The model card of heads: a README.md that says what they are, of what data, and how good.

Plain text from plain data. It holds no time and no path, so that equal runs have equal cards:
equal config, seed, data and machine, and an equal number of threads. Matrix products add up in
another order on another number of threads, so that weights may differ in their last digits, and
with them the sha256 in the card.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolheads.data.shared import COUNTS
from toolheads.identity import Fingerprint
from toolheads_train.outcome.calibration import MACRO, Calibration
from toolheads_train.outcome.export import Export

SOURCE_FILE = "SOURCE.md"
"""File beside a data set that says where it comes from and under which licence."""

_LICENCE = re.compile(r"^\W*licen[cs]e\s*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)

_SHOWN = {"ndcg@10": "nDCG@10", "recall@5": "R@5", "completeness@10": "C@10"}


@dataclass(frozen=True)
class DataRecord:
    """What a heads file and its card say about one data set."""

    name: str
    tools: int
    train: int
    """Labelled queries that were trained on."""
    validation: int
    """Queries that chose checkpoint, share, views and margin."""
    label_free: int
    """Pairs made of its descriptions."""
    sha256: Mapping[str, str]
    """File → sha256."""
    licence: str
    """As the line of its SOURCE.md says; empty when there is none."""

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self) | {"sha256": dict(self.sha256)}


@dataclass(frozen=True)
class Card:
    """Everything that a model card is written from."""

    name: str
    export: Export
    fingerprint: Fingerprint
    parameters: int
    """Weights of both heads."""
    calibration: Calibration
    alpha: float
    """Of the served heads."""
    best_step: int
    steps: int
    data: Sequence[DataRecord]
    guarded: Sequence[str]
    """Data sets that were read for their test queries only."""
    left_out: Mapping[str, int]
    """Why queries or tools were not used → how many."""
    near: Mapping[str, int]
    """Data set → training queries that were left out for their vectors."""
    shared: Mapping[str, Mapping[str, Any]]
    """Data set with test queries → counts of its tools that training has met, see
    `toolheads.data.shared`."""
    training: Mapping[str, Any]
    """The header's training block: seeds, config, package versions."""


def licence_of(folder: Path) -> str:
    """The licence line of a data set's SOURCE.md; empty when there is none."""
    source = folder / SOURCE_FILE
    if not source.is_file():
        return ""
    found = _LICENCE.search(source.read_text(encoding="utf-8", errors="replace"))
    return " ".join(found.group(1).split()) if found else ""


def model_card(card: Card) -> str:
    """Write the card as Markdown."""
    parts = [
        _introduction(card),
        _use(card),
        _validation(card),
        _serving(card),
        _data(card),
        *([_shared(card)] if card.shared else []),
        _recipe(card),
        _limits(card),
    ]
    return "\n\n".join(parts) + "\n"


def _introduction(card: Card) -> str:
    encoder, texts = card.fingerprint.encoder, card.fingerprint.texts
    rows = [
        ("file", f"`{card.export.path.name}`"),
        ("sha256", f"`{card.export.sha256}`"),
        ("backbone", f"{encoder.model}, width {encoder.width}"),
        ("revision", f"`{encoder.revision}`" if encoder.revision else "not told"),
        ("texts", f"{texts.tool_format}, {texts.query_format}, at most {texts.budget} characters"),
        ("instruction", texts.instruction or "none"),
        ("weights", f"{card.parameters:,} in two heads"),
        ("fingerprint", f"`{card.fingerprint.key}`"),
    ]
    listed = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return (
        f"# {card.name}\n\n"
        "Two small heads over frozen text embeddings. One moves the vector of a request, the "
        "other the vectors of tools, so that the tools a request needs are found before others. "
        "Written by `toolheads train fit`.\n\n"
        f"| | |\n| --- | --- |\n{listed}"
    )


def _use(card: Card) -> str:
    file = card.export.path.name
    return (
        "## Use\n\n"
        "```python\nimport toolheads\n\n"
        f'scorer = toolheads.load_scorer("./{file}")\n'
        'scorer.index(toolheads.read_tools("tools.jsonl"))\n'
        'hits = scorer.search("move the call with Ada to Friday")\n```\n\n'
        f"The file is loaded only with the digest above, which `{file}.sha256` beside it holds, "
        "and used only with the backbone above, which is recognised by its vectors of four texts."
    )


def _validation(card: Card) -> str:
    calibration = card.calibration
    names = [name for name in calibration.frozen if name != MACRO]
    rows = [*names, *([MACRO] if len(names) > 1 else [])]
    head = " | ".join(
        f"{shown} {which}" for shown in _SHOWN.values() for which in ("frozen", "heads")
    )
    lines = [f"| data set | {head} |", "| --- |" + " ---: |" * (2 * len(_SHOWN))]
    for name in rows:
        cells = [
            f"{100 * values[name][metric]:.1f}"
            for metric in _SHOWN
            for values in (calibration.frozen, calibration.chosen)
        ]
        lines.append(f"| {name or '**mean of the data sets**'} | {' | '.join(cells)} |")
    best = calibration.trained[MACRO][calibration.metric]
    metric = _SHOWN.get(calibration.metric, calibration.metric)
    return (
        "## Validation\n\n"
        "On the data that chose checkpoint, share, weights of views and margin. Read it as how "
        "well the choice fits, not as a result: a result is of a test set.\n\n"
        + "\n".join(lines)
        + f"\n\nKept: step {card.best_step} of {card.steps}. As they were trained, before "
        f"calibration, the heads have {metric} {100 * best:.1f}.\n\n"
        "![loss and validation](curves.png)\n\n![gain](gains.png)"
    )


def _serving(card: Card) -> str:
    calibration, cutoff = card.calibration, card.calibration.cutoff
    point = next(p for p in calibration.margins if p.margin == cutoff.margin)
    metric = _SHOWN.get(calibration.metric, calibration.metric)
    kept = f"{100 * calibration.share:.0f} %"
    tried = ", ".join(f"{share:g}: {100 * v:.2f}" for share, v in calibration.shares.items())
    lines = [
        "## Settings in serving",
        "",
        f"- alpha {card.alpha:g}: how far the heads move a vector; {kept} of what was "
        f"learned. {metric} by share: {tried}.",
        f"- views of a tool: {_weights(calibration.views.tool)}; "
        f"of a query: {_weights(calibration.views.query)}.",
        *_mixed(calibration),
        f"- adaptive cut: hits within {cutoff.margin:g} of the best score, "
        f"{cutoff.min_k} to {cutoff.max_k} of them.",
        f"- on validation data this shows {point.length:.1f} hits on average and finds "
        f"{100 * point.recall:.1f} % of the relevant tools; {cutoff.max_k} hits each time find "
        f"{100 * calibration.fixed.recall:.1f} %.",
        "",
        "![recall and list length against the margin](cutoff.png)",
    ]
    return "\n".join(lines)


def _mixed(calibration: Calibration) -> list[str]:
    """What is mixed into the scores, and what was tried in its place."""
    fusion, lines = calibration.fusion, []
    if fusion is not None and fusion.lexical is not None:
        fields = ", ".join(f"{name} {w:g}" for name, w in fusion.lexical.fields.items() if w)
        weight = fusion.lexical.weight
        lines.append(f"- shared words count {weight:g} times the spread of the scores: {fields}.")
    if fusion is not None and fusion.hubness is not None:
        hubness = fusion.hubness
        lines.append(
            f"- hubness, by {hubness.neighbours} neighbours, takes {hubness.weight:g} times the "
            "spread of the scores for each standard deviation."
        )
    if fusion is not None and fusion.clause_temperature:
        lines.append(f"- clauses: soft maximum, temperature {fusion.clause_temperature:g}.")
    lexical = [step for step in calibration.steps if "lexical" in step.settings]
    if lexical:
        metric = _SHOWN.get(calibration.metric, calibration.metric)
        best: dict[float, float] = {}
        at = lexical[-1].settings.index("lexical")
        for tried_together, value in lexical[-1].values:
            part = tried_together[at]
            weight = 0.0 if part is None else part.weight
            best[weight] = max(value, best.get(weight, value))
        tried = ", ".join(f"{weight:g}: {100 * v:.2f}" for weight, v in sorted(best.items()))
        lines.append(f"- {metric} by weight of shared words: {tried}.")
    return lines


def _data(card: Card) -> str:
    lines = [
        "## Data",
        "",
        "| data set | tools | training queries | validation queries | label-free pairs | licence |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in card.data:
        cells = (one.tools, one.train, one.validation, one.label_free)
        counts = " | ".join(f"{count:,}" for count in cells)
        lines.append(f"| {one.name} | {counts} | {_cell(one.licence) or 'not told'} |")
    left_out = [f"{why}: {count:,}" for why, count in card.left_out.items() if count]
    if left_out:
        lines += ["", f"Left out, {'; '.join(left_out)}."]
    if card.near:
        near = ", ".join(f"{name} {count:,}" for name, count in card.near.items())
        lines += ["", f"Of these, training queries left out for their vectors: {near}."]
    if card.guarded:
        lines += ["", f"Read for their test queries only: {', '.join(card.guarded)}."]
    lines += ["", "Files and their sha256:", ""]
    lines += [
        f"- `{one.name}/{file}` `{digest}`"
        for one in card.data
        for file, digest in one.sha256.items()
    ]
    return "\n".join(lines)


def _shared(card: Card) -> str:
    lines = [
        "## Shared tools",
        "",
        "Tools of the test sets that were beside the training data and, by name and description, "
        "are in the training corpus too: asked for or as negatives. *Asked for* counts the "
        "relevant tools that a labelled training query asks for.",
        "",
        "| test set | tools | in training | relevant tools | in training | asked for |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, one in sorted(card.shared.items()):
        counts = " | ".join(f"{one[count]:,}" for count in COUNTS)
        lines.append(f"| {name} | {counts} |")
    return "\n".join(lines)


def _recipe(card: Card) -> str:
    about = card.training
    packages = ", ".join(f"{name} {v}" for name, v in about.get("packages", {}).items())
    config = "\n".join(_yaml(about.get("config", {})))
    return (
        "## Recipe\n\n"
        f"Seed {about.get('seed')}, data seed {about.get('data_seed')}; {packages}. The weights in "
        f"the file give the projections of training to a cosine of {card.export.cosine:.7f} "
        f"({card.export.weights_cosine:.7f} before they were rounded).\n\n"
        "One config, one seed, one machine and one number of threads give these bytes again, "
        "also where a run was interrupted and resumed. Another number of threads adds up in "
        "another order and may change them.\n\n"
        f"```yaml\n{config}\n```"
    )


def _limits(card: Card) -> str:
    mixed = card.calibration.fusion
    kind = "a cosine of projections" if mixed is None else "a cosine of projections and more"
    return (
        "## Limits\n\n"
        f"- Vectors of any other encoder than {card.fingerprint.encoder.model} are refused.\n"
        "- Requests and catalogues far from the data above may gain nothing, or lose: measure with "
        "`toolheads eval` and compare with `--scorer dense` before use.\n"
        f"- A score is {kind}, not a probability. The margin was chosen on the "
        "validation data above.\n"
        "- What the encoder does not see of a text, beyond its longest input, the heads cannot use."
    )


def _weights(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{view} {weight:g}" for view, weight in weights.items())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _yaml(value: Mapping[str, Any], depth: int = 0) -> list[str]:
    """Nested mappings as lines of YAML; anything else on one line, as JSON is YAML."""
    lines = []
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            lines += [f"{'  ' * depth}{name}:", *_yaml(inner, depth + 1)]
        else:
            lines.append(f"{'  ' * depth}{name}: {json.dumps(inner, ensure_ascii=False)}")
    return lines
