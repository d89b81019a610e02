"""Imports point down, never up; the package itself is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tammes"
LAYERS = [  # from the ground up
    ["errors"],
    ["objectives", "regularizers", "calibration", "statistics"],
    ["preprocessing", "images", "storage", "progress", "threads"],
    ["method", "backbones", "datasets"],
    ["prompts"],
    ["views", "tuner"],
    ["engine"],
    ["encoder"],
    ["features", "records"],
    ["evaluate", "training"],
    ["sweep"],
    ["plots"],
    ["report", "benchmark"],
    ["paper"],
    ["classifier", "lint"],
    ["demo"],
    ["cli"],
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tammes"):
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {n[1] for n in names if n[0] == "tammes" and len(n) > 1}
    return found


def test_imports_point_down():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "__init__.py" and path.parent == SOURCE:
            continue
        here = module_of(path)
        assert here in HEIGHT, f"{here} has no place in the layers: add it to this test"
        for name in imported(path) - {here, "__version__"}:
            if HEIGHT.get(name, 99) > HEIGHT[here]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not wrong, wrong


def test_the_package_is_light():
    code = "import sys, tammes; print([m for m in ('torch', 'numpy', 'PIL') if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert loaded.strip() == "[]"


def test_every_public_name_exists():
    import tammes

    for name in tammes.__all__:
        assert getattr(tammes, name) is not None
