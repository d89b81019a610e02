"""How commands speak: results on stdout, everything else on stderr, errors in one line."""

from __future__ import annotations

import errno
import inspect
import logging
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from typer import Exit
from typer.core import TyperGroup

from tammes.errors import TammesError

INTERRUPTED = 130  # 128 + SIGINT, as shells count


class Commands(TyperGroup):
    """Commands whose errors are messages: 2 for a refusal, 130 for Ctrl-C, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with spoken(logging.getLogger("tammes")):
                return super().invoke(ctx)
        except TammesError as problem:
            raise _refuse(str(problem)) from problem
        except KeyboardInterrupt as problem:
            raise _refuse("interrupted", INTERRUPTED) from problem
        except OSError as problem:
            if problem.errno == errno.EPIPE:  # the reader left: nobody is there to be told
                raise
            where = f"{problem.filename}: " if problem.filename else ""
            raise _refuse(f"{where}{problem.strerror or problem}") from problem
        except RuntimeError as problem:
            from tammes.encoder import out_of_memory

            if not out_of_memory(problem):
                raise
            raise _refuse(f"out of memory: try a smaller --batch ({problem})") from problem


class _Speaker(logging.Handler):
    """Say what the library logs, as commands say everything."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def spoken(logger: logging.Logger) -> Iterator[None]:
    """Let people hear what a logger has to tell them, as long as a command runs."""
    speaker, level = _Speaker(), logger.level
    logger.addHandler(speaker)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(speaker)
        logger.setLevel(level)


def say(message: str, style: str = "") -> None:
    """Print a line for people on stderr."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(("tammes: ", "bold red" if style == "error" else "bold"), message)
    Console(stderr=True).print(line, soft_wrap=True)


def end_unread(images: int, where: str) -> None:
    """Say that images could not be read, and where it says which and why; end with 1."""
    if images:
        say(f"{images} image{'s' if images > 1 else ''} could not be read: {where}")
        raise Exit(1)


def as_typed() -> str:
    """Write the command that runs."""
    return shlex.join(["tammes", *sys.argv[1:]])


def flowing(command: Callable[..., None]) -> str:
    """Give a docstring with one line per paragraph, for pages of any width."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def examples(*lines: str) -> str:
    """Write examples as the end of a help page."""
    return "\n\n".join(["Examples:", *(f"$ {line}" for line in lines)])


def _refuse(message: str, code: int = 2) -> Exit:
    sys.stdout.flush()
    say(message, "error")
    return Exit(code)
