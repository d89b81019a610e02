"""The help of every command as one page: `python -m tammes.cli.docs > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer import echo
from typer.main import get_command

from tammes.cli import app

HEAD = """\
# The command line

Written by `python -m tammes.cli.docs` from the help of the commands; a test keeps it so.

Exit codes: 0 all is well; 1 something was found (an image that could not be read, a remark on a
class name); 2 the command was refused, with the reason on stderr; 130 interrupted.
"""


def page() -> str:
    """Write the page."""
    return "\n".join([HEAD, *_sections(get_command(app), "tammes")])


def _sections(command: Any, name: str) -> Iterator[str]:
    """Write a section for each command, and for those below it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield _section(command, name)
        return
    for word, below in inner.items():
        yield from _sections(below, f"{name} {word}")


def _section(command: Any, name: str) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, "[OPTIONS]", *map(_metavar, arguments)])
    title, *examples = (command.epilog or "").split("\n\n")
    parts = [
        f"## {name}",
        command.help,
        f"```\n{usage}\n```",
        "\n".join(["| | default | |", "|---|---|---|", *map(_line, command.params)]),
        *([title, "\n".join(["```", *examples, "```"])] if examples else []),
    ]
    return "\n\n".join(parts) + "\n"


def _line(parameter: Any) -> str:
    """Write one argument or option as a row of the table."""
    if parameter.param_type_name == "argument":
        names = f"`{_metavar(parameter)}`"
    else:
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    default = "required" if parameter.required else _default(parameter.default)
    return f"| {names} | {default} | {parameter.help} |".replace("  ", " ")


def _metavar(argument: Any) -> str:
    return argument.metavar + ("..." if argument.nargs == -1 else "")


def _default(value: Any) -> str:
    if value is None or value is False or value == []:
        return ""
    return f"`{value}`"


if __name__ == "__main__":
    echo(page(), nl=False)
