"""Patterns from outside: what is run, and what is not because it might not end."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolheads.calls.patterns import found, is_quick, steps

BOMBS = [
    r"(a+)+$",
    r"^(a*)*$",
    r"(a|a)*b",
    r"(a|aa)+$",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    "a?" * 40 + "a" * 40,
    r"(.*)\1{2}x",
    r"a*" * 12 + "b",
    r"(?:(?:a{1,50}){1,50}){1,50}b",
]


@pytest.mark.parametrize("pattern", BOMBS)
def test_a_pattern_that_could_run_for_ever_is_not_run(pattern):
    start = time.process_time()
    assert found(pattern, "a" * 60 + "!") is None
    assert time.process_time() - start < 1, "an upper bound that no machine misses"


@pytest.mark.parametrize(
    ("pattern", "text", "is_there"),
    [
        (r"^\d{4}-\d{2}-\d{2}$", "2026-01-31", True),
        (r"^\d{4}-\d{2}-\d{2}$", "31.01.2026", False),
        (r"^[\w.]+@[\w.]+\.\w+$", "a.b@c.example", True),
        (r"^(\+\d{1,3})?\d{5,15}$", "+4912345678", True),
        (r"^(open|closed)$", "shut", False),
        (r"^[^]/]+$", "a/b", False),
        (r"^(?:a|b)(?=c)c$", "bc", True),
        (r"(?i)ABC", "xabcx", True),
    ],
)
def test_patterns_as_people_write_them_are_run(pattern, text, is_there):
    assert found(pattern, text) is is_there


@pytest.mark.parametrize("pattern", [r"\p{Lu}+", "(", "[", "a{2}{3}", "(?<n>a)", "a" * 1_001])
def test_a_pattern_that_python_does_not_read_is_not_run(pattern):
    assert found(pattern, "a") is None


def test_the_same_pattern_is_run_on_a_short_text_and_not_on_a_long_one():
    assert is_quick(r"^\w+-\w+-\w+$", 100)
    assert not is_quick(r"^\w+-\w+-\w+$", 10_000)


@given(st.text(alphabet="ab(|)*+?{}[]\\^$.,:=!<>P012 -", max_size=30), st.integers(0, 50))
def test_judging_a_pattern_never_fails(pattern, length):
    assert steps(pattern, length) >= 0


@given(st.text(alphabet="ab(|)*+?.", max_size=12))
def test_what_is_judged_quick_is_quick(pattern):
    start = time.process_time()
    found(pattern, "ab" * 100)
    assert time.process_time() - start < 1
