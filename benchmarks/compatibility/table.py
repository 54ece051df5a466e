"""Counts, for docs/compatibility.md, which cases of other programs are answered as they did.

    python -m benchmarks.compatibility.table FOLDER

FOLDER has the cases. Runs the tests that compare with them, and prints a row for each function of
the three programs: the cases, those that passed, and those that are answered alike; the others are
answered in another way on purpose, which the same tests check. The names of those follow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]

FUNCTIONS = {
    "Reranking": {
        "test_ascii_words": "tokens and their expansion",
        "test_idf": "idf",
        "test_plain_keyword": "keyword ranking: order and scores",
        "test_mentions": "the same with named tools first",
        "test_a_tie_is_a_tie": "a tie that float sums break",
        "test_the_text_that_is_ranked_on": "text of a conversation",
        "test_replies": "reading a reply",
        "test_llm": "ranking by a model: names, calls, report",
    },
    "Decisions": {
        "test_settings_are_read_as_by_the_original_but_for_what_is_unknown": "configuration",
        "test_catalogues_are_read_as_by_the_original": "catalogue from JSON",
        "test_tools_are_written_as_by_the_original": "text of a tool",
        "test_tools_are_ordered_as_by_the_original": "the best k of a catalogue",
        "test_given_scores_are_decided_as_by_the_original_or_better": "what given scores come to",
        "test_needs_are_resolved_as_by_the_original_or_better": "resolve, shortlist from vectors",
        "test_near_duplicates_are_those_of_the_original": "near duplicates",
    },
    "Plans": {
        "test_tokens_are_estimated_alike": "estimate of tokens",
        "test_the_text_of_a_tool_is_the_same": "text of a tool",
        "test_scores_are_the_same": "BM25 scores",
        "test_the_same_tools_are_retrieved": "retrieve",
        "test_sizes_give_the_same_advice": "advice from sizes",
        "test_the_plan_is_the_same": "plan_catalogue",
        "test_menu_lines_are_the_same_and_one_line_each": "menu lines",
        "test_replies_are_read_alike_or_better": "reading a selection",
        "test_two_stages_come_to_the_same": "TwoStage",
        "test_the_same_is_left_out": "fit_to_budget",
    },
}
"""Part → test → function of the original."""

FILES = {"Reranking": "rerank", "Decisions": "decide", "Plans": "plan"}


@dataclass
class Counted:
    """What one test said over its cases."""

    cases: int = 0
    passed: int = 0
    differing: list[str] = field(default_factory=list)


def counted(folder: Path, part: str) -> dict[str, Counted]:
    """Run the tests of one part: test → what it said."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        test = f"tests/unit/{FILES[part]}/test_conformance.py"
        options = ("-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", test, *options, f"--junitxml={report}"],
            cwd=ROOT,
            env={**os.environ, "TOOLHEADS_CONFORMANCE": str(folder.resolve())},
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.is_file():
            sys.exit(f"the tests must run, got: {done.stdout[-500:]}{done.stderr[-500:]}")
        tree = ET.parse(report)
    found: dict[str, Counted] = defaultdict(Counted)
    for case in tree.iter("testcase"):
        one = found[case.get("name", "").partition("[")[0]]
        one.cases += 1
        one.passed += not _failed(case)
        one.differing += [
            " ".join(str(p.get("value")).split())
            for p in case.iter("property")
            if p.get("name") == "differs"
        ]
    return found


def _failed(case: ET.Element) -> bool:
    return any(case.find(name) is not None for name in ("failure", "error", "skipped"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    failed = 0
    for part, functions in FUNCTIONS.items():
        found = counted(args.folder, part)
        print(f"\n## {part}\n\n| function there | cases | passed | answered alike |")
        print("| --- | ---: | ---: | ---: |")
        total = Counted()
        for test, function in functions.items():
            one = found[test]
            print(f"| {function} | {one.cases} | {one.passed} | {one.cases - len(one.differing)} |")
            total.cases += one.cases
            total.passed += one.passed
            total.differing += one.differing
        alike = total.cases - len(total.differing)
        print(f"| **all** | {total.cases} | {total.passed} | {alike} |")
        print(f"\nOthers, on purpose: {', '.join(total.differing)}")
        failed += total.cases - total.passed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
