"""The progress bar: images per second and time left, of what is done now."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tammes.progress import Bar, track


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bar(clock: Clock) -> Bar:
    bar = Bar(show=False)
    bar._bar.get_time = clock  # type: ignore[method-assign]
    return bar


def drawn(bar: Bar) -> str:
    """What the bar would show on a wide terminal."""
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as shown:
        console.print(bar._bar.get_renderable())
    return " ".join(shown.get().split())


def tell(bar: Bar, clock: Clock, steps: range, seconds: float, total: int, stage: str) -> None:
    for done in steps:
        clock.now += seconds
        bar(done, total, stage)


def test_speed_and_time_left_leave_out_what_was_done_before(bar: Bar, clock: Clock):
    bar(5008, 10_000, "evaluate")  # 5000 of them by an earlier run
    assert "images/s" not in drawn(bar)
    tell(bar, clock, range(5016, 5049, 8), 2.0, 10_000, "evaluate")
    assert "5048/10000 4.00 images/s 0:20:38" in drawn(bar)


def test_the_next_stage_has_a_speed_of_its_own(bar: Bar, clock: Clock):
    tell(bar, clock, range(1, 11), 1.0, 10, "encode")
    tell(bar, clock, range(100, 1001, 100), 0.05, 2000, "train")
    assert "encode" not in drawn(bar)
    assert "1000/2000 2,000 images/s 0:00:01" in drawn(bar)


def test_slow_work_has_a_speed_too(bar: Bar, clock: Clock):
    tell(bar, clock, range(1, 5), 80.0, 10, "evaluate")
    assert " 4/10 0.01 images/s 0:08:00" in drawn(bar)


def test_steps_pass_unchanged_and_nothing_is_drawn_where_nobody_looks(
    capsys: pytest.CaptureFixture[str],
):
    assert list(track(iter("abc"), 3, "classify", show=False)) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")


def test_it_is_drawn_on_stderr_where_it_is_insisted_on(capsys: pytest.CaptureFixture[str]):
    assert list(track(iter("abc"), 3, "classify", show=True)) == ["a", "b", "c"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "classify" in err
