"""The README's examples run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from tammes.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
PYTHON = [code for kind, code in BLOCKS if kind == "python"]
SHELL = [line for kind, text in BLOCKS if not kind for line in text.splitlines()]
TAMMES = [line.split("  #")[0] for line in SHELL if line.startswith("tammes ")]


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0)
    for name in ("cat.jpg", "street.png"):
        Image.fromarray(noise.integers(0, 255, (40, 50, 3), dtype=np.uint8)).save(tmp_path / name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("photos")
def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = PYTHON
    assert len([line for line in code.splitlines() if line.strip()]) <= 8
    exec(code, {})  # what a reader would paste
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(re.fullmatch(r"(cat|dog|bicycle): \d+%", line) for line in lines)


@pytest.mark.usefixtures("photos")
def test_the_shell_line_runs() -> None:
    line = next(line for line in TAMMES if line.startswith("tammes classify"))
    answer = CliRunner().invoke(app, shlex.split(line)[1:])
    assert answer.exit_code == 0, answer.output
    assert '"prediction"' in answer.stdout


@pytest.mark.parametrize("line", TAMMES)
def test_every_command_and_option_exists(line: str) -> None:
    command = get_command(app)
    words = shlex.split(line)[1:]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_the_tree_names_what_is_there() -> None:
    tree = BLOCKS[-1][1]
    for name in re.findall(r"^  ([\w.]+[./][\w]*)", tree, re.MULTILINE):
        assert (ROOT / "src/tammes" / name).exists(), name
