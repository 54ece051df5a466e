from __future__ import annotations

import time

import pytest

from toolheads.entrypoints.cli.progress import ProgressBar

pytest.importorskip("tqdm", reason="the progress bar needs the extra [cache]")


def test_what_is_done_at_once_shows_no_bar(capsys):
    with ProgressBar() as bar:
        bar(0, 2)
        bar(2, 2)
    assert capsys.readouterr().err == ""


def test_a_bar_says_how_many_how_fast_and_how_long_still(capsys, monkeypatch):
    monkeypatch.setattr("toolheads.entrypoints.cli.progress._AT_ONCE_S", 0)
    with ProgressBar() as bar:
        bar(0, 4)
        bar(2, 4)
        time.sleep(0.001)  # so that there is a speed
        bar(4, 4)
    shown = capsys.readouterr().err
    assert "embedding: 100%" in shown
    assert "4/4" in shown
    assert "texts/s" in shown


def test_a_second_list_of_texts_has_a_bar_of_its_own(capsys, monkeypatch):
    monkeypatch.setattr("toolheads.entrypoints.cli.progress._AT_ONCE_S", 0)
    with ProgressBar() as bar:
        for total in (3, 5):
            bar(0, total)
            bar(total, total)
    shown = capsys.readouterr().err
    assert "3/3" in shown
    assert "5/5" in shown


def test_after_close_no_bar_is_shown(capsys, monkeypatch):
    monkeypatch.setattr("toolheads.entrypoints.cli.progress._AT_ONCE_S", 0)
    bar = ProgressBar()
    bar.close()
    bar(0, 2)
    bar(2, 2)
    assert capsys.readouterr().err == ""
