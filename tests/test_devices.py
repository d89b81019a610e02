"""Devices: which is chosen, and that nothing asks one for what it does not have.

No Apple GPU is at hand: here the CPU stands for it, watched for what mps lacks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tammes import METHODS, Backbone, Engine, Prompt, load_backbone, tune
from tammes.backbones import pick_device
from tammes.backbones.random import random_backbone
from tammes.benchmark.floor import text_flops
from tammes.datasets import load_dataset
from tammes.engine.gradient import room
from tammes.errors import TammesError
from tammes.evaluate import evaluate
from tammes.views import ViewSettings

NAMES = ["cat", "sea bird", "old dog", "cat"]
DOUBLES = (torch.float64, torch.complex128)


class NoDoubles(TorchDispatchMode):
    """Refuse every tensor in double precision, as mps does."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            assert not (isinstance(leaf, torch.Tensor) and leaf.dtype in DOUBLES), func
        return found


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every function of torch.cuda fail that needs a CUDA device."""
    for name in (
        "current_device", "current_stream", "device", "empty_cache", "get_device_capability",
        "get_device_name", "get_device_properties", "max_memory_allocated", "mem_get_info",
        "reset_peak_memory_stats", "set_device", "stream", "synchronize",
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, None)


@pytest.fixture(params=["cuda", "mps", "both", "none"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A computer with some kinds of devices."""
    has = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has in ("cuda", "both"))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: has in ("mps", "both"))
    return has


def test_the_fastest_device_is_chosen_and_absent_ones_are_named(machine: str):
    expected = {"cuda": "cuda", "mps": "mps", "both": "cuda", "none": "cpu"}[machine]
    assert pick_device(None).type == expected
    assert pick_device("cpu").type == "cpu"
    for kind in ("cuda", "mps"):
        if machine in (kind, "both"):
            assert pick_device(kind).type == kind
        else:
            with pytest.raises(TammesError, match=f"no {kind.upper()} device.*device='cpu'"):
                pick_device(kind)


@pytest.mark.parametrize("method", ["zero-shot", "tpt", "c-tpt", "o-tpt", "a-tpt", "c-tpt+a-tpt"])
@pytest.mark.parametrize("gradient", ["vjp", "jacobian"])
@pytest.mark.usefixtures("no_cuda")
def test_the_engine_needs_neither_doubles_nor_cuda(method: str, gradient: Any):
    with NoDoubles():
        backbone = random_backbone()
        prompt = Prompt.from_template(backbone, NAMES)
        features = torch.nn.functional.normalize(torch.randn(2, 12, backbone.dim), dim=-1)
        engine = Engine(backbone, prompt, images=50, gradient=gradient)
        (answer,) = engine.predict(features, [METHODS[method]])
        spec = tune(backbone, prompt, METHODS[method], features[0])
    torch.testing.assert_close(answer.logits[0], spec.logits, atol=1e-3, rtol=0)


@pytest.mark.parametrize("augmix", [False, True])
@pytest.mark.usefixtures("no_cuda")
def test_an_evaluation_needs_neither_doubles_nor_cuda(tiny: Backbone, tmp_path: Path, augmix: bool):
    for i in range(3):
        (tmp_path / "set" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.effect_noise((50 + i, 40), 90).save(tmp_path / "set" / "ab"[i % 2] / f"{i}.png")
    dataset = load_dataset(tmp_path / "set")
    prompt = Prompt.from_template(tiny, dataset.classnames)
    methods = {name: METHODS[name] for name in ("zero-shot", "a-tpt")}
    with NoDoubles():
        runs = evaluate(
            dataset, tiny, prompt, methods, tmp_path / "out",
            views=ViewSettings(4, augmix), batch="auto", workers=1,
        )  # fmt: skip
    assert [run.status for run in runs] == ["finished"] * 2


class Elsewhere(TorchFunctionMode):
    """Note which tensors are asked for in double precision before they are back on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.calls.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def test_the_benchmark_counts_in_doubles_on_the_cpu_alone(tiny: Backbone):
    prompt = Prompt.from_template(tiny, NAMES)
    with Elsewhere() as seen:
        assert text_flops(tiny, prompt) > 0
    assert seen.calls.index("cpu") < seen.calls.index("double")


def test_room_is_asked_of_cuda_alone(no_cuda: None):
    assert room(torch.device("cpu")) == room(torch.device("mps")) == 2**31


def test_half_precision_is_for_cuda(tiny_path: Path):
    assert load_backbone(tiny_path, device="cpu").dtype == torch.float32


@pytest.mark.parametrize("platform", ["darwin", "linux"])
def test_on_a_mac_what_the_gpu_cannot_do_runs_on_the_cpu(platform: str):
    name = "PYTORCH_ENABLE_MPS_FALLBACK"
    code = f"import sys; sys.platform = {platform!r}; import os, tammes; print(os.getenv({name!r}))"
    bare = {key: value for key, value in os.environ.items() if key != name}
    for given, expected in (({}, "1"), ({name: "0"}, "0")):
        job = [sys.executable, "-c", code]
        done = subprocess.run(job, env={**bare, **given}, capture_output=True, text=True)
        assert done.stdout.strip() == (expected if platform == "darwin" or given else "None")
