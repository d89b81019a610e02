"""A progress bar that only long work brings up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

LONG = 2.0  # seconds after which a bar is worth looking at
Step = TypeVar("Step")


WINDOW = 600.0  # seconds that the speed is a mean over: large models need many for an image


class Rate(ProgressColumn):
    """Images per second, in this stage, since the first were done here."""

    def render(self, task: Task) -> Text:
        """Write the speed, as soon as there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.{0 if speed >= 10 else 2}f} images/s")


class Bar:
    """Call it with how many of how many images a stage has done; it draws on stderr.

    `show=None` draws on a terminal only, once work takes long, and leaves nothing behind; True and
    False insist.
    """

    def __init__(self, show: bool | None = None) -> None:
        console = Console(stderr=True)
        # Output is never redirected: what a program prints for a machine must stay on stdout.
        self._bar = Progress(
            TextColumn("{task.description}"),
            *(BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn()),
            console=console,
            speed_estimate_period=WINDOW,
            transient=not show,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not (console.is_terminal if show is None else show),
        )
        self._due = time.monotonic() + (0.0 if show else LONG)
        self._stage: str | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Take note; a new stage replaces the one before.

        What the first call counts is not part of the speed: an earlier run may have done it.
        """
        if stage != self._stage:
            for old in self._bar.task_ids:
                self._bar.remove_task(old)
            self._stage = stage
            self._bar.add_task(stage, total=total)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)
        if time.monotonic() >= self._due:
            self._bar.start()


def track(
    steps: Iterable[Step], total: int, stage: str, show: bool | None = None
) -> Iterator[Step]:
    """Pass steps on, and count them on a bar."""
    with Bar(show) as bar:
        for done, step in enumerate(steps, start=1):
            bar(done, total, stage)
            yield step
