"""Models small enough for a laptop, random but reproducible; settings that all tests share."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tammes import Backbone, load_backbone
from tammes.backbones.random import random_backbone

GOLDEN = Path(__file__).parent / "golden"
settings.register_profile(
    "tammes",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tammes")
torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Development data beside the project; its tests skip where it is absent."""
    folder = Path(os.environ.get("TAMMES_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "parity").is_dir():
        pytest.skip(f"needs the development data, not found at {folder} (set TAMMES_SHARED)")
    return folder


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random CLIP of the golden vectors, as an OpenAI-style checkpoint."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.safetensors"
    path.write_bytes(gzip.decompress((GOLDEN / "clip_tiny_vit.safetensors.gz").read_bytes()))
    return path


@pytest.fixture(scope="session")
def tiny(tiny_path: Path) -> Backbone:
    """The random CLIP of the golden vectors, loaded."""
    return load_backbone(tiny_path, device="cpu")


KINDS = {
    "causal": {},
    "causal-gelu": {"quick_gelu": False, "heads": 4, "layers": 1},
    "bidirectional": {"causal": False, "context_length": 20},
}


@pytest.fixture(scope="session", params=list(KINDS))
def backbone(request: pytest.FixtureRequest) -> Backbone:
    """Each kind of random model in turn."""
    return random_backbone(**KINDS[request.param])


@pytest.fixture(autouse=True)
def _same_draws_every_time() -> None:
    """Seed what tests draw without a generator of their own."""
    torch.manual_seed(0)
