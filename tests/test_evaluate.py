"""Evaluation: rows are the specification's answers, whatever was interrupted, added or repeated."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tammes import METHODS, Backbone, Method, Prompt, tune
from tammes.datasets import Dataset, load_dataset
from tammes.encoder import Batch
from tammes.errors import DataError, PromptError, StoreError, TammesError, UnknownName
from tammes.evaluate import evaluate
from tammes.features import FeatureStore
from tammes.records import Run, load_runs
from tammes.regularizers import AngularDiversity, Dispersion
from tammes.sweep import sweep
from tammes.views import ViewSettings

VIEWS = ViewSettings(count=10, seed=1)
SOME = {name: METHODS[name] for name in ("zero-shot", "tpt", "a-tpt")}


def make_images(root: Path, count: int = 9) -> Path:
    draw = np.random.default_rng(0)
    for i in range(count):
        folder = root / ("red_fox", "owl", "emu")[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 255, (34 + i, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    (root / "owl" / "bad.png").write_bytes((root / "owl" / "1.png").read_bytes()[:300])
    return root


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Ten images of three classes; one of them is truncated."""
    return load_dataset(make_images(tmp_path_factory.mktemp("data") / "animals"))


@pytest.fixture(scope="module")
def prompt(tiny: Backbone, dataset: Dataset) -> Prompt:
    return Prompt.from_template(tiny, dataset.classnames)


def run_all(
    dataset: Dataset,
    backbone: Backbone,
    prompt: Prompt,
    out: Path,
    methods: Mapping[str, Method] = SOME,
    **options: Any,
) -> list[Run]:
    options = {"views": VIEWS, "block": 4, "workers": 2, **options}
    return evaluate(dataset, backbone, prompt, methods, out, **options)


@pytest.fixture(scope="module")
def done(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path_factory: pytest.TempPathFactory
) -> list[Run]:
    """An evaluation that nothing disturbed."""
    return run_all(dataset, tiny, prompt, tmp_path_factory.mktemp("done"))


def files(out: Path) -> dict[str, bytes]:
    """All files that must not depend on how a run came about."""
    found = {}
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.suffix in (".parquet", ".npz"):
            found[str(path.relative_to(out))] = path.read_bytes()
        elif path.name == "run.json":
            record = json.loads(path.read_bytes())
            timeless = {
                k: v for k, v in record.items() if k not in ("started", "finished", "command")
            }
            found[str(path.relative_to(out))] = json.dumps(timeless).encode()
    return found


def out_of(runs: list[Run]) -> Path:
    return runs[0].folder.parent.parent


def test_rows_are_the_answers_of_the_specification(
    done: list[Run], dataset: Dataset, tiny: Backbone, prompt: Prompt
):
    store = FeatureStore(out_of(done) / "features", dataset, tiny, VIEWS, block=4)
    blocks = [store.read(i) for i in range(len(store))]
    features = torch.cat([block.features for block in blocks])
    items = [item for block in blocks for item in block.items]
    assert [run.method for run in done] == list(SOME)
    for run in done:
        rows = run.rows()
        assert rows["id"].to_pylist() == [item.id for item in items]
        assert rows["label"].to_pylist() == [item.label for item in items]
        episodes = [tune(tiny, prompt, SOME[run.method], one) for one in features]
        probs = torch.stack([episode.probs for episode in episodes])
        assert rows["prediction"].to_pylist() == probs.argmax(-1).tolist()
        np.testing.assert_allclose(rows["confidence"], probs.amax(-1), atol=1e-5)
        np.testing.assert_allclose(run.outcomes().probs, probs, atol=1e-3)


def test_every_image_is_a_row_or_a_reason(done: list[Run], dataset: Dataset):
    for run in done:
        assert (run.status, run.images) == ("finished", 10)
        assert list(run.skipped) == ["owl/bad.png"]
        assert {*run.rows()["id"].to_pylist(), *run.skipped} == {i.id for i in dataset.items}
        assert len(run.rows()) == 9
        assert "accuracy" in run.metrics
        assert Path(run.root, run.rows()["id"][0].as_py()).is_file()


def test_the_diagnostics_are_recorded(done: list[Run]):
    zero, tpt, angular = (run.metrics for run in done)
    assert "image_independent" not in zero
    assert "image_independent" not in tpt
    assert 0.5 < angular["image_independent"] <= 1
    assert zero["gap"] == pytest.approx(zero["mean_confidence"] - zero["accuracy"])


def test_a_finished_evaluation_computes_nothing(
    done: list[Run], dataset: Dataset, prompt: Prompt, tiny: Backbone, tmp_path: Path, monkeypatch
):
    out = tmp_path / "copy"
    shutil.copytree(out_of(done), out)
    shutil.rmtree(out / "features")
    monkeypatch.setattr(tiny, "encode_image", None)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    again = run_all(dataset, tiny, prompt, out)
    assert again == done
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_another_method_needs_no_image(
    done: list[Run], dataset: Dataset, prompt: Prompt, tiny: Backbone, tmp_path: Path, monkeypatch
):
    out = tmp_path / "copy"
    shutil.copytree(out_of(done), out)
    monkeypatch.setattr(tiny, "encode_image", None)
    more = {**SOME, "c-tpt": METHODS["c-tpt"], "mine": Method(terms=((3.0, AngularDiversity()),))}
    runs = run_all(dataset, tiny, prompt, out, more)
    assert [run.method for run in runs] == [*more]
    assert runs[:3] == done
    assert {run.identity for run in load_runs(out)} == {run.identity for run in runs}


@given(lost=st.data())
@settings(max_examples=12)
def test_whatever_is_lost_comes_back_the_same(
    lost: st.DataObject,
    done: list[Run],
    dataset: Dataset,
    prompt: Prompt,
    tiny: Backbone,
    tmp_path: Path,
):
    whole, out = files(out_of(done)), tmp_path / "copy"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(out_of(done), out)
    for name in lost.draw(st.sets(st.sampled_from(sorted(whole)), min_size=1)):
        if name.endswith(".json") or lost.draw(st.booleans()):
            (out / name).unlink()
        else:
            (out / name).write_bytes(whole[name][: lost.draw(st.integers(0, len(whole[name]) - 1))])
    runs = run_all(dataset, tiny, prompt, out, workers=lost.draw(st.integers(1, 3)))
    assert [run.metrics for run in runs] == [run.metrics for run in done]
    assert [run.rows() for run in runs] == [run.rows() for run in done]


@pytest.mark.parametrize("methods", [["tpt"], ["a-tpt", "tpt", "zero-shot"]])
def test_rows_do_not_depend_on_the_company(
    done: list[Run],
    dataset: Dataset,
    prompt: Prompt,
    tiny: Backbone,
    tmp_path: Path,
    methods: list[str],
):
    runs = run_all(dataset, tiny, prompt, tmp_path, {name: SOME[name] for name in methods})
    found = {run.method: run for run in done}
    for run in runs:
        assert run.identity == found[run.method].identity
        assert run.rows() == found[run.method].rows()


@pytest.mark.parametrize("batch", [1, 7, 1000, "auto"])
def test_the_batch_moves_nothing_beyond_rounding(
    done: list[Run], dataset: Dataset, prompt: Prompt, tiny: Backbone, tmp_path: Path, batch: Batch
):
    for run, other in zip(run_all(dataset, tiny, prompt, tmp_path, batch=batch), done, strict=True):
        assert run.identity == other.identity
        assert run.rows()["id"] == other.rows()["id"]
        np.testing.assert_allclose(run.outcomes().probs, other.outcomes().probs, atol=5e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"views": replace(VIEWS, seed=2)},
        {"views": replace(VIEWS, augmix=True)},
        {"methods": {"tpt": Method(lr=1e-3)}},
        {"block": 3},
        {"keep_log_probs": False},
    ],
    ids=str,
)
def test_other_settings_are_another_run(
    done: list[Run], dataset: Dataset, prompt: Prompt, tiny: Backbone, tmp_path: Path, change
):
    out = tmp_path / "copy"
    shutil.copytree(out_of(done), out)
    (run,) = run_all(dataset, tiny, prompt, out, **{"methods": {"tpt": METHODS["tpt"]}, **change})
    assert run.folder.name not in {other.folder.name for other in done}
    assert len(load_runs(out)) == 4
    assert [r.rows() for r in load_runs(out) if r in done] == [r.rows() for r in done]


def test_another_prompt_or_other_labels_are_another_run(
    done: list[Run], dataset: Dataset, tiny: Backbone, tmp_path: Path
):
    out = tmp_path / "copy"
    shutil.copytree(out_of(done), out)
    art = Prompt.from_template(tiny, dataset.classnames, "art of a {}.")
    relabeled = replace(dataset, items=tuple(replace(i, label=0) for i in dataset.items))
    plain = Prompt.from_template(tiny, dataset.classnames)
    for data, prompt in ((dataset, art), (relabeled, plain)):
        run_all(data, tiny, prompt, out, {"tpt": METHODS["tpt"]})
    assert len({run.identity for run in load_runs(out)}) == 5
    assert len(list((out / "features").iterdir())) == 1


def test_without_a_method_that_looks_only_the_clean_views_are_encoded(
    done: list[Run], dataset: Dataset, prompt: Prompt, tiny: Backbone, tmp_path: Path
):
    blind = {name: METHODS[name] for name in ("zero-shot", "static-a-tpt")}
    runs = run_all(dataset, tiny, prompt, tmp_path, blind)
    assert runs[0].settings["views"]["count"] == 1
    assert runs[0].rows()["prediction"] == done[0].rows()["prediction"]
    assert runs[1].metrics["angle"] > runs[0].metrics["angle"]


def test_one_unreadable_image_after_the_other_is_an_error_after_the_record(
    tiny: Backbone, tmp_path: Path
):
    folder = tmp_path / "data" / "owl"
    folder.mkdir(parents=True)
    for i in range(3):
        (folder / f"{i}.jpg").write_text("no image")
    dataset = load_dataset(tmp_path / "data")
    prompt = Prompt.from_template(tiny, dataset.classnames)
    for _ in range(2):  # the second time from the record alone
        with pytest.raises(
            DataError, match=r"none of the 3 images could be read; owl/0\.jpg: .*run\.json"
        ):
            run_all(dataset, tiny, prompt, tmp_path / "out")
    for run in load_runs(tmp_path / "out"):
        assert (run.status, len(run.skipped), run.metrics) == ("failed", 3, {})


def test_what_cannot_fit_is_refused_before_an_image_is_read(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path
):
    names = list(dataset.classnames)
    with pytest.raises(DataError, match="has 3 classes, the prompt 2"):
        run_all(dataset, tiny, Prompt.from_template(tiny, names[:2]), tmp_path)
    with pytest.raises(DataError, match="another order: label 0 is 'emu' in the one and 'red fox'"):
        run_all(dataset, tiny, Prompt.from_template(tiny, names[::-1]), tmp_path)
    with pytest.raises(TammesError, match="no method"):
        run_all(dataset, tiny, prompt, tmp_path, {})
    ensemble = Prompt.from_template(tiny, names, ["a {}.", "the {}."])
    with pytest.raises(PromptError, match="ensemble"):
        run_all(dataset, tiny, ensemble, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path
):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StoreError, match=r"cannot write run\.json in .*out.*another folder"):
        run_all(dataset, tiny, prompt, tmp_path / "out")


def test_progress_counts_images_while_they_are_encoded_or_only_answered(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path
):
    told: list[tuple[int, int, str]] = []
    options: dict[str, Any] = {"progress": lambda *step: told.append(step)}
    run_all(dataset, tiny, prompt, tmp_path, batch=10, **options)
    assert told == [(done, 10, "evaluate") for done in range(1, 11)]
    told.clear()
    run_all(dataset, tiny, prompt, tmp_path, {"c-tpt": METHODS["c-tpt"]}, **options)
    assert told == [(done, 10, "evaluate") for done in (4, 8, 10)]


def test_a_block_is_answered_before_the_next_is_encoded(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path
):
    rows: list[int] = []

    def look(*_: object) -> None:
        rows.append(len([p for p in tmp_path.rglob("*.parquet") if "features" not in p.parts]))

    run_all(dataset, tiny, prompt, tmp_path, {"tpt": METHODS["tpt"]}, batch=40, progress=look)
    assert rows == sorted(rows)
    assert set(rows) == {0, 1, 2}


def test_what_fails_while_answering_leaves_its_block_encoded_and_ends_the_threads(
    done: list[Run], dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path, monkeypatch
):
    threads = threading.active_count()
    with monkeypatch.context() as patched:
        patched.setattr("tammes.evaluate.rows_of", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            run_all(dataset, tiny, prompt, tmp_path)
    assert threading.active_count() == threads
    store = FeatureStore(tmp_path / "features", dataset, tiny, VIEWS, block=4)
    assert store.missing() == [1, 2]
    runs = run_all(dataset, tiny, prompt, tmp_path)
    assert [run.rows() for run in runs] == [run.rows() for run in done]


# Killed at any instant

KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from tammes import METHODS, Prompt, load_backbone
from tammes.datasets import load_dataset
from tammes.evaluate import evaluate
from tammes.images import open_image
from tammes.views import ViewSettings

checkpoint, images, out = map(Path, sys.argv[1:])
backbone, dataset = load_backbone(checkpoint, device="cpu"), load_dataset(images)
prompt = Prompt.from_template(backbone, dataset.classnames)
methods = {name: METHODS[name] for name in ("zero-shot", "a-tpt")}

# What every child would otherwise do again
import pyarrow.compute
assert backbone.fingerprint and open_image(dataset.items[0].open())
fsync, rename = os.fsync, Path.replace

def run(out, kill_at):
    events = iter(range(1000))
    def die_at_the_right_event(before=lambda: None):
        if next(events) == kill_at:
            before()
            os.kill(os.getpid(), signal.SIGKILL)
    def half_written(fd):
        die_at_the_right_event(lambda: os.ftruncate(fd, os.fstat(fd).st_size // 2))
        fsync(fd)
    def renamed(path, target):
        die_at_the_right_event()
        rename(path, target)  # what follows is the next event
    os.fsync, Path.replace = half_written, renamed
    views = ViewSettings(count=4)
    evaluate(dataset, backbone, prompt, methods, out, views=views, block=5, workers=1)

def in_child(*job):
    child = os.fork()
    if child == 0:
        run(*job)
        os._exit(0)
    return os.waitpid(child, 0)[1]

assert in_child(out / "whole", -1) == 0
points = 0
while in_child(out / str(points), points) == signal.SIGKILL:
    if points % 4 == 0:
        in_child(out / str(points), points % 7)  # and once more, on the way
    assert in_child(out / str(points), -1) == 0
    points += 1
print(points)
"""


def test_killed_at_any_instant_a_rerun_ends_with_the_same_files(tiny_path: Path, tmp_path: Path):
    images, out = make_images(tmp_path / "animals", 6), tmp_path / "out"
    job = [sys.executable, "-W", "ignore", "-c", KILLED, str(tiny_path), str(images), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(job, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    points = int(ended.stdout)
    # shards, rows, class features, records (of a method that tunes, once more: how it does)
    # each half written and not yet renamed
    assert points == 2 * (2 + 2 * 2 + 2 + 5)
    whole = files(out / "whole")
    assert len(whole) == 10
    for point in range(points + 1):
        assert files(out / str(point)) == whole, f"killed at event {point}"


# Sweeps


def test_a_sweep_visits_every_point_once(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path, monkeypatch
):
    grid = {"weight": [0, 80], "lr": [0.005, 0.01], "seed": [0, 1]}
    options: dict[str, Any] = {"views": VIEWS, "block": 4, "workers": 1}
    runs = sweep(dataset, tiny, prompt, grid, tmp_path, **options)
    assert len({run.identity for run in runs}) == 8
    assert {run.method for run in runs} == {
        f"a-tpt (weight={w}, lr={lr})" for w in (0, 80) for lr in (0.005, 0.01)
    }
    assert {run.settings["views"]["seed"] for run in runs} == {0, 1}
    monkeypatch.setattr(tiny, "encode_image", None)
    assert sweep(dataset, tiny, prompt, grid, tmp_path, **options) == runs


def test_a_weight_of_zero_is_tpt(
    done: list[Run], dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path
):
    (run,) = sweep(
        dataset, tiny, prompt, {"weight": [0]}, tmp_path, views=VIEWS, block=4, workers=1
    )
    np.testing.assert_allclose(run.outcomes().probs, done[1].outcomes().probs, atol=1e-3)


def test_a_term_can_be_named_or_added(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path
):
    both = Method(terms=((1.0, AngularDiversity()), (2.0, Dispersion())))
    options: dict[str, Any] = {"method": both, "views": VIEWS, "workers": 1}
    (run,) = sweep(
        dataset, tiny, prompt, {"dispersion": [5], "frobenius": [7]}, tmp_path, **options
    )
    assert [weight for weight, _ in run.settings["method"]["terms"]] == [1.0, 5.0, 7.0]
    with pytest.raises(TammesError, match="has 2: name the term instead: angular"):
        sweep(dataset, tiny, prompt, {"weight": [1]}, tmp_path, **options)


def test_unknown_settings_and_methods_are_named(
    dataset: Dataset, tiny: Backbone, prompt: Prompt, tmp_path: Path
):
    with pytest.raises(UnknownName, match=r"'wieght'.*Did you mean 'weight'"):
        sweep(dataset, tiny, prompt, {"wieght": [1]}, tmp_path)
    with pytest.raises(UnknownName, match=r"'a-ptt'.*Did you mean 'a-tpt'"):
        sweep(dataset, tiny, prompt, {"weight": [1]}, tmp_path, method="a-ptt")


def test_the_record_says_how_gradients_were_taken(dataset, tiny, prompt, tmp_path):
    some = {name: METHODS[name] for name in ("zero-shot", "tpt")}
    told: list[list[str]] = []

    def look(*_: object) -> None:
        told.append([run.gradient for run in load_runs(tmp_path)])

    plain, run = run_all(dataset, tiny, prompt, tmp_path, some, progress=look)
    assert re.match(r"(vjp|jacobian): \d+ images cost .* TFLOP", run.gradient)
    assert plain.gradient == ""
    assert told[0] == ["", run.gradient]  # before any answer, which a crash may leave behind
    again = run_all(dataset, tiny, prompt, tmp_path, some)[1]
    assert again.gradient == load_runs(tmp_path)[1].gradient == run.gradient
