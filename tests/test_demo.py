"""What ships with the package: the pocket model, the bundled images, and the demo on them."""

from __future__ import annotations

import inspect
import re
import socket
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from typer.testing import CliRunner

from tammes import METHODS, Backbone, Engine, Prompt, load_backbone, tune
from tammes.cli import app, demoing
from tammes.datasets.catalog import find_entry
from tammes.demo import CREDIT, VIEWS, bundled_images, run_demo
from tammes.demo import METHODS as SHOWN
from tammes.encoder import ImageEncoder
from tammes.report import FORMATS, summarize
from tammes.views import ViewSettings, render_ahead


@pytest.fixture(scope="module")
def pocket() -> Backbone:
    return load_backbone("pocket", device="cpu")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection."""

    def refuse(*given: object) -> None:
        raise OSError("there is no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_the_pocket_model_is_small_and_takes_the_fast_path(pocket: Backbone) -> None:
    folder = Path(str(resources.files("tammes") / "assets" / "pocket"))
    assert sum(f.stat().st_size for f in folder.iterdir()) <= 25e6
    assert pocket.causal is not None
    assert not pocket.sigmoid
    assert pocket.preprocessing.size == 160


def test_a_step_means_what_it_means_for_clip(pocket: Backbone) -> None:
    """CLIP's token embeddings have a standard deviation of 0.0141; lr 5e-3 is made for them."""
    prompt = Prompt.from_template(pocket, ["cat"])
    assert 0.012 < float(prompt.context.std()) < 0.017


def test_loading_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    load_backbone("pocket", device="cpu")
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_the_engine_is_the_specification_on_the_pocket_model(pocket: Backbone) -> None:
    images = bundled_images().subset(3)
    prompt = Prompt.from_template(pocket, images.classnames[:20])
    rendered = list(render_ahead(images.items, ViewSettings(8), pocket, 1))
    features = torch.stack(ImageEncoder(pocket)(rendered))
    for name in ("tpt", "a-tpt"):
        (answer,) = Engine(pocket, prompt).predict(features, [METHODS[name]])
        for row, logits in zip(features, answer.logits, strict=True):
            expected = tune(pocket, prompt, METHODS[name], row).logits
            torch.testing.assert_close(logits, expected, atol=2e-3, rtol=1e-3)


def test_the_pocket_model_knows_things(pocket: Backbone) -> None:
    """Zero-shot on one bundled image per class: far above chance, which is 1 %."""
    images = bundled_images().subset(100)
    prompt = Prompt.from_template(pocket, images.classnames)
    start = Engine(pocket, prompt, images=1).start
    assert start is not None
    rendered = list(render_ahead(images.items, ViewSettings(1), pocket, 2))
    features = torch.stack(ImageEncoder(pocket)(rendered))[:, 0]
    found = (normalize(features, dim=-1) @ start.T).argmax(dim=1)
    assert (found == torch.tensor(images.labels)).float().mean() > 0.4


def test_the_bundled_images_are_caltech101s() -> None:
    images = bundled_images()
    assert len(images) == 300
    assert images.classnames == find_entry("caltech101").classnames
    assert np.bincount(images.labels).tolist() == [3] * 100
    assert not images.ignored


@pytest.mark.usefixtures("offline")
def test_the_demo_writes_a_page_without_a_network(tmp_path: Path) -> None:
    demo = run_demo(tmp_path, views=4, images=bundled_images().subset(40))
    assert [run.method for run in demo.runs] == list(SHOWN)
    page = demo.page.read_text("utf-8")
    assert demo.page == tmp_path / "report.html"
    assert CREDIT in page
    assert not re.search(r'(src|href)="(https?:)?//', page)
    markdown = FORMATS["markdown"](summarize(demo.runs))
    for word in (*SHOWN, "Accuracy", "ECE", "SCE", "AD", "Gap", "Indep."):
        assert word in markdown
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    run_demo(tmp_path, views=4, images=bundled_images().subset(40))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before


def test_the_command_takes_as_many_views_as_the_demo() -> None:
    """The command line imports nothing heavy before it runs, so it writes the number again."""
    assert inspect.signature(demoing.demo).parameters["views"].default == VIEWS


def test_the_command_shows_the_table_and_names_the_photographers(tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        app, ["demo", "--limit", "30", "--views", "2", "--out", str(tmp_path / "d")]
    )
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "d" / "report.html").is_file()
    assert "static-a-tpt" in answer.stdout
    assert "CC BY 4.0" in answer.stderr
