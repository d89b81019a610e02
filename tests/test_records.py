"""Records: a run comes back from disk as it was, and its numbers come from its rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tammes import METHODS, Method, Outcome
from tammes.calibration import Outcomes, measure
from tammes.datasets import Item
from tammes.errors import DataError, StoreError
from tammes.records import Run, describe, load_run, load_runs, rows_of
from tammes.regularizers import AngularDiversity

CLASSES = ("cat", "dog", "fox", "owl", "emu", "elk", "yak")


def items(count: int, start: int = 0) -> list[Item]:
    return [Item(f"a/{i}.jpg", i % 7, Path(f"{i}")) for i in range(start, start + count)]


def outcome(count: int, seed: int = 0, steps: int = 1, scale: float = 4.0) -> Outcome:
    draw = torch.Generator().manual_seed(seed)
    return Outcome(
        logits=scale * torch.randn(count, 7, generator=draw),
        angle=torch.rand(count, generator=draw),
        kept=torch.arange(6).expand(count, -1),
        losses=torch.rand(count, steps, generator=draw),
        image_independent=torch.full((count,), 0.25 if steps else float("nan")),
        text=torch.zeros(7, 4),
        cosine=torch.full((count,), 0.6),
    )


def run_in(out: Path, **changes: object) -> Run:
    run = Run("pets", "tiny/one", "a photo of a {}.", "a-tpt", {"x": 1}, CLASSES, 10, 2, "/data")
    return replace(run, **changes).within(out)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two blocks, 8 rows, 2 images skipped."""
    run = run_in(tmp_path).begin()
    run.write_rows(0, rows_of(items(5), outcome(5, 0)))
    run.write_rows(1, rows_of(items(3, 5), outcome(3, 1)))
    return run.finish({"a/8.jpg": "no image", "a/9.jpg": "no such file"})


def test_a_run_comes_back_as_it_was(run: Run, tmp_path: Path):
    assert load_runs(tmp_path) == [run]
    again = load_run(run.folder)
    assert (again, again.identity, again.folder) == (run, run.identity, run.folder)
    assert run.folder.name == f"pets--tiny-one--a-tpt--{run.identity[:8]}"
    assert run.status == "finished"
    assert run.versions["torch"] == str(torch.__version__)
    assert run.started <= run.finished


def test_rows_from_before_a_column_was_added_are_still_read(run: Run):
    run.write_rows(0, rows_of(items(5), outcome(5, 0)).drop_columns("cosine"))
    column = run.rows()["cosine"].to_pylist()
    assert column == [None] * 5 + [pytest.approx(0.6)] * 3
    assert len(run.outcomes()) == 8


def test_metrics_are_those_of_the_rows(run: Run):
    found = run.outcomes()
    logits = torch.cat([outcome(5, 0).logits, outcome(3, 1).logits])
    labels = np.array([item.label for item in items(8)], dtype=np.int32)
    probs = logits.softmax(-1).numpy()
    assert found.confidence.tolist() == pytest.approx(probs.max(1).tolist(), abs=1e-6)
    assert np.array_equal(found.labels, labels)
    expected = measure(Outcomes.from_probs(probs, labels))
    assert set(run.metrics) == {*expected, "angle", "image_independent"}
    for name, value in expected.items():
        assert run.metrics[name] == pytest.approx(value, abs=2e-3), name
    for name in ("accuracy", "ece", "gap", "mean_confidence"):  # these need no fp16 probability
        assert run.metrics[name] == pytest.approx(expected[name], abs=1e-6), name
    assert run.metrics["image_independent"] == 0.25


@given(st.floats(0.01, 60), st.integers(0, 99))
def test_rows_say_what_the_logits_said(scale: float, seed: int):
    logits = outcome(9, seed, scale=scale).logits
    rows = rows_of(items(9), outcome(9, seed, scale=scale))
    probs = logits.double().softmax(-1)
    assert rows["prediction"].to_pylist() == logits.argmax(-1).tolist()
    assert rows["confidence"].to_pylist() == pytest.approx(probs.amax(-1).tolist(), rel=1e-5)
    surprise = -(probs * logits.double().log_softmax(-1)).sum(-1)
    assert rows["entropy"].to_pylist() == pytest.approx(surprise.tolist(), abs=1e-4)
    for labels, top, row in zip(
        rows["top_labels"].to_pylist(), rows["top_probs"].to_pylist(), probs, strict=True
    ):
        assert top == pytest.approx(row[labels].tolist(), rel=1e-5)
        assert top == sorted(top, reverse=True)
        assert len(top) == 5
    kept = torch.tensor(rows["log_probs"].to_pylist())
    torch.testing.assert_close(kept.double(), logits.double().log_softmax(-1), rtol=1e-3, atol=1e-4)


def test_what_does_not_apply_is_a_gap():
    rows = rows_of(items(4), outcome(4, steps=0), keep_log_probs=False)
    for name in ("image_independent", "loss_first", "loss_last"):
        assert rows[name].null_count == 4
    assert "log_probs" not in rows.column_names
    two = rows_of(items(4), outcome(4, steps=3))
    assert two["loss_first"].to_pylist() != two["loss_last"].to_pylist()


def test_without_log_probs_the_metrics_that_need_them_are_absent(tmp_path: Path):
    run = run_in(tmp_path, blocks=1, images=5).begin()
    run.write_rows(0, rows_of(items(5), outcome(5), keep_log_probs=False))
    run = run.finish({})
    assert run.outcomes().probs is None
    assert "ece" in run.metrics
    assert not {"nll", "brier", "sce"} & set(run.metrics)


def test_missing_parts_are_those_absent_damaged_or_of_another_run(run: Run, tmp_path: Path):
    assert run.missing() == []
    other = run_in(tmp_path, settings={"x": 2}).begin()
    other.write_rows(0, rows_of(items(5), outcome(5)))
    run.part(0).write_bytes(other.part(0).read_bytes())
    run.part(1).write_bytes(run.part(1).read_bytes()[:-9])
    assert run.missing() == [0, 1]
    run.part(1).unlink()
    assert run.missing() == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"x": 2}},
        {"method": "tpt"},
        {"model": "x"},
        {"dataset": "x"},
        {"prompt": "a {}"},
    ],
    ids=str,
)
def test_whatever_rows_depend_on_is_in_the_identity(tmp_path: Path, change: dict[str, object]):
    assert run_in(tmp_path, **change).identity != run_in(tmp_path).identity
    assert run_in(tmp_path, **change).folder != run_in(tmp_path).folder


def test_where_and_when_are_not_in_the_identity(run: Run, tmp_path: Path):
    assert run_in(tmp_path / "x", root="/elsewhere").identity == run.identity


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0.5, 0.9)), max_size=2), st.integers(0, 3))
def test_methods_that_differ_are_described_differently(
    terms: list[tuple[float, float]], steps: int
):
    method = Method(terms=tuple((w, AngularDiversity(tau)) for w, tau in terms), steps=steps)
    for other in METHODS.values():
        assert (describe(method) == describe(other)) == (method == other)
    assert json.loads(json.dumps(describe(method))) == describe(method)


def test_beginning_again_goes_on(run: Run, tmp_path: Path):
    assert run_in(tmp_path).begin() == run
    moved = run_in(tmp_path, root="/moved").begin()
    assert (moved.root, moved.metrics) == ("/moved", run.metrics)
    assert load_run(run.folder).root == "/moved"


def test_runs_are_ordered_as_the_methods_are(tmp_path: Path):
    for method in ("mine", "a-tpt", "zero-shot", "tpt"):
        run_in(tmp_path, method=method).begin()
    assert [run.method for run in load_runs(tmp_path)] == ["zero-shot", "tpt", "a-tpt", "mine"]


def test_a_run_without_rows_says_so(tmp_path: Path):
    run = run_in(tmp_path).begin()
    with pytest.raises(StoreError, match="no rows yet"):
        run.rows()
    run.write_rows(0, rows_of([], outcome(0)))
    with pytest.raises(DataError, match="every image was skipped"):
        run.outcomes()
    assert run.finish({f"a/{i}.jpg": "gone" for i in range(10)}).status == "failed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not the record of a run"),
        ("[]", "is not the record of a run"),
        ('{"format": 1}', "is not the record of a run"),
        ('{"format": 99, "identity": "x"}', "format 99, but this version reads format 1"),
    ],
)
def test_a_damaged_record_is_named(run: Run, tmp_path: Path, text: str, said: str):
    (run.folder / "run.json").write_text(text)
    with pytest.raises(StoreError, match=said):
        load_runs(tmp_path)


def test_an_edited_record_is_refused(run: Run, tmp_path: Path):
    path = run.folder / "run.json"
    path.write_text(path.read_text().replace('"x": 1', '"x": 2'))
    with pytest.raises(StoreError, match="was edited"):
        load_run(run.folder)


def test_absent_folders_are_named(tmp_path: Path):
    with pytest.raises(StoreError, match=r"no such folder.*nowhere"):
        load_runs(tmp_path / "nowhere")
    assert load_runs(tmp_path) == []
    with pytest.raises(StoreError, match=r"cannot read .*run\.json"):
        load_run(tmp_path)
