"""The shell front, as its users meet it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from tammes import METHODS
from tammes.classifier import ZeroShotClassifier
from tammes.cli import app, main
from tammes.cli.docs import page
from tammes.datasets import find_entry

DOCS = Path(__file__).parents[1] / "docs" / "cli.md"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six pictures in two class folders, and a file that is none."""
    noise = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            picture = Image.fromarray(noise.integers(0, 255, (40, 50, 3), dtype=np.uint8))
            picture.save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "notes.txt").write_text("nothing to see")
    return tmp_path / "photos"


def tammes(*words: object, code: int = 0) -> Result:
    """Run a command and check its exit code."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def model(tiny_path: Path) -> tuple[str, ...]:
    """The options that make a command fast."""
    return "--model", str(tiny_path), "--views", "4"


# --- classify -----------------------------------------------------------------------------------


def test_json_is_a_list_with_an_object_per_image(photos: Path, model: tuple[str, ...]) -> None:
    words = ("classify", photos, "--classes", "cat,sea bird,dog", *model, "--json")
    records = json.loads(tammes(*words).stdout)
    paths = sorted(photos.glob("*/*.png"))
    assert [record["path"] for record in records] == [str(path) for path in paths]
    expected = ZeroShotClassifier(model[1], views=4).fit(["cat", "sea bird", "dog"])
    for record, probs in zip(records, expected.predict_proba(paths), strict=True):
        assert set(record) == {"path", "prediction", "confidence", "probabilities", "method"}
        assert list(record["probabilities"]) == ["cat", "sea bird", "dog"]
        assert np.allclose(list(record["probabilities"].values()), probs, atol=1e-5)
        assert record["confidence"] == max(record["probabilities"].values())
        assert record["probabilities"][record["prediction"]] == record["confidence"]
        assert record["method"] == "a-tpt"


def test_a_bad_image_is_answered_with_its_reason(
    photos: Path, tmp_path: Path, model: tuple[str, ...]
) -> None:
    good = photos / "cat" / "0.png"
    (tmp_path / "cut.png").write_bytes(good.read_bytes()[:300])
    (tmp_path / "empty").mkdir()
    bad = (tmp_path / "gone.png", tmp_path / "cut.png", tmp_path / "empty", tmp_path / "no*.png")
    words = ("classify", bad[0], good, *bad[1:], "--classes", "cat,dog", *model)
    result = tammes(*words, "--json", code=1)
    records = json.loads(result.stdout)
    assert [record["path"] for record in records] == [str(p) for p in (bad[0], good, *bad[1:])]
    assert [record.get("error", "fine").split(":")[0] for record in records] == [
        "no such file", "fine", "damaged", "no image in this folder", "no such file",
    ]  # fmt: skip
    assert records[0]["prediction"] is records[0]["probabilities"] is None
    assert "4 of 5 images could not be read" in result.stderr
    table = tammes(*words, code=1).stdout
    assert "damaged" in table
    assert "cut.png" in table


def test_csv_has_a_column_per_class(photos: Path, model: tuple[str, ...]) -> None:
    words = ("classify", photos / "cat", "gone.png", "--classes", 'cat,a "big" dog', *model)
    rows = list(csv.DictReader(io.StringIO(tammes(*words, "--csv", code=1).stdout)))
    assert len(rows) == 4
    assert float(rows[0]["p(cat)"]) + float(rows[0]['p(a "big" dog)']) == pytest.approx(1, abs=1e-5)
    assert rows[0]["error"] == ""
    assert rows[3]["error"] == "no such file"
    assert rows[3]["prediction"] == rows[3]["p(cat)"] == ""


def test_the_table_shows_the_most_probable_classes(
    photos: Path, model: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    words = ("classify", "cat/0.png", "--classes", "a,b,c,d,e,f,g", *model)
    assert len(tammes(*words).stdout.strip().splitlines()) == 5
    assert len(tammes(*words, "--top", 2).stdout.strip().splitlines()) == 2
    (record,) = json.loads(tammes(*words, "--top", 2, "--json").stdout)
    values = list(record["probabilities"].values())
    assert len(values) == 2
    assert values == sorted(values, reverse=True)


def test_images_are_found_once_each(photos: Path, model: tuple[str, ...]) -> None:
    words = ("classify", photos / "cat", photos / "*" / "0.png", photos / "cat" / "1.png")
    result = tammes(*words, "--classes", "cat,dog", *model, "--method", "zero-shot", "--json")
    found = [Path(record["path"]).relative_to(photos) for record in json.loads(result.stdout)]
    assert [p.as_posix() for p in found] == ["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png"]


@pytest.mark.parametrize("path", ["x" * 300, "[", "**/[!", "a\nb", "/dev/null"])
def test_odd_paths_are_answered(path: str, model: tuple[str, ...]) -> None:
    words = ("classify", path, "--classes", "cat,dog", *model, "--method", "zero-shot", "--json")
    (record,) = json.loads(tammes(*words, code=1).stdout)
    assert record["path"] == path
    assert record["error"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.txt", "\ufeffcat\n\n  sea bird \r\ndog"), ("c.json", '["cat", "sea bird", "dog"]')],
)
def test_class_names_come_from_files(
    photos: Path, tmp_path: Path, model: tuple[str, ...], name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    words = ("classify", photos / "cat" / "0.png", "--classes-file", tmp_path / name, *model)
    (record,) = json.loads(tammes(*words, "--json").stdout)
    assert list(record["probabilities"]) == ["cat", "sea bird", "dog"]


def test_a_term_makes_a_method(photos: Path, model: tuple[str, ...]) -> None:
    words = ("classify", photos / "cat" / "0.png", "--classes", "cat,dog,fox", *model, "--json")
    (own,) = json.loads(tammes(*words, "--term", "angular(tau=0.99999):80").stdout)
    (known,) = json.loads(tammes(*words).stdout)
    assert own["method"] == "angular(tau=0.99999):80"
    assert own["probabilities"] == pytest.approx(known["probabilities"], abs=1e-5)


def test_names_outside_of_unicode_survive(tmp_path: Path, model: tuple[str, ...]) -> None:
    path = tmp_path / "\u732b \u00e9.png"
    Image.new("RGB", (20, 20)).save(path)
    words = ("classify", path, "--classes", "\u732b,dog", *model, "--json")
    (record,) = json.loads(tammes(*words).stdout)
    assert record["path"] == str(path)
    assert set(record["probabilities"]) == {"\u732b", "dog"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--classes", "cat,dog", "--method", "a-ptt"), "Did you mean 'a-tpt'"),
        (("--classes", "cat,dog", "--model", "pockt"), "Did you mean 'pocket'"),
        (("--classes", "cat,dog", "--model", "gone.pt"), "no checkpoint at gone.pt"),
        (("--classes", "cat,dog", "--preset", "shft"), "Did you mean 'shift'"),
        (("--classes", "cat,dog", "--term", "anglar:4"), "Did you mean 'angular'"),
        (("--classes", "cat,dog", "--term", "angular"), "write it as"),
        (("--classes", "cat,dog", "--term", "angular:4", "--method", "tpt"), "not both"),
        (("--classes", "cat,dog", "--json", "--csv"), "not both"),
        (("--classes", "cat,,dog"), "positions [1]"),
        (("--classes", "cat,cat"), "comes 2 times"),
        (("--classes-file", "gone.txt"), "cannot read class names from gone.txt"),
        ((), "name the classes"),
        (("--classes", "cat,dog", "--temperature", "0"), "must be above 0"),
        (("--classes", "cat,dog", "--views", "0"), "--views"),
        (("--classes", "cat,dog", "--metod", "tpt"), "--method"),
    ],
)
def test_refusals_name_the_remedy(
    photos: Path, tiny_path: Path, words: tuple[str, ...], message: str
) -> None:
    chosen = () if "--model" in words else ("--model", tiny_path)
    result = tammes("classify", photos / "cat" / "0.png", *words, *chosen, code=2)
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("content", ["{}", "[1]", "[", "\udcff"])
def test_a_file_that_holds_no_class_names(tmp_path: Path, content: str) -> None:
    path = tmp_path / "classes.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    result = tammes("classify", "photo.jpg", "--classes-file", path, code=2)
    assert "classes.json" in result.stderr


# --- interrupted and unwritable -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
        (RuntimeError("[enforce fail] can't allocate memory"), 2, "smaller --batch"),
    ],
)
def test_the_end_is_quiet(
    monkeypatch: pytest.MonkeyPatch, problem: BaseException, code: int, message: str
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("tammes.cli.classifying.read_classes", fail)
    assert message in tammes("classify", "photo.jpg", code=code).stderr


def test_our_own_mistakes_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tammes.cli.classifying.read_classes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(app, ["classify", "photo.jpg"], catch_exceptions=False)


def test_a_reader_that_leaves_is_no_error(photos: Path, model: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tammes.cli", "classify", str(photos), *model, "--csv"]
    child = subprocess.Popen(
        [*command, "--classes", "cat,dog"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout
    child.stdout.close()
    assert child.stderr
    with child.stderr as stderr:
        assert stderr.read() == b""
    child.wait()


# --- bench and report ---------------------------------------------------------------------------


@pytest.fixture
def runs(photos: Path, tmp_path: Path, model: tuple[str, ...]) -> Path:
    """A folder of runs of three methods."""
    words = ("bench", "--data", photos, "--out", tmp_path / "runs", *model)
    result = tammes(*words, "--methods", "zero-shot,a-tpt", "--term", "dispersion:3")
    assert "6 images of 2 classes" in result.stderr
    assert "dispersion:3" in result.stdout
    return tmp_path / "runs"


def test_a_bench_is_resumed_and_extended(runs: Path, photos: Path, model: tuple[str, ...]) -> None:
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*.parquet")}
    tammes("bench", "--data", photos, "--out", runs, *model, "--methods", "zero-shot,a-tpt,tpt")
    after = {path: path.stat().st_mtime_ns for path in runs.rglob("*.parquet")}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1


def test_own_photos_get_the_common_settings(runs: Path) -> None:
    (path,) = runs.rglob("*--a-tpt--*/run.json")
    settings = json.loads(path.read_text("utf-8"))["settings"]
    assert settings["method"]["terms"] == [[80.0, "AngularDiversity(tau=0.99999)"]]
    assert settings["views"] == {"count": 4, "augmix": False, "seed": 0}


def test_a_report_has_many_forms(runs: Path, tmp_path: Path) -> None:
    assert "zero-shot" in tammes("report", runs).stdout
    rows = list(csv.DictReader(io.StringIO(tammes("report", runs, "--format", "csv").stdout)))
    assert {row["method"] for row in rows} == {"zero-shot", "a-tpt", "dispersion:3"}
    assert json.loads(tammes("report", runs, "--format", "json").stdout)["comparisons"]
    assert "| zero-shot |" in tammes("report", runs, "-f", "markdown").stdout
    result = tammes("report", runs, "-f", "csv", "--html", tmp_path / "page.html")
    assert "wrote" in result.stderr
    assert "<html" in (tmp_path / "page.html").read_text("utf-8")


def test_limits_and_bad_images(photos: Path, tmp_path: Path, model: tuple[str, ...]) -> None:
    (photos / "cat" / "1.png").write_bytes(b"no image")
    words = ("bench", "--data", photos, "--out", tmp_path / "runs", *model)
    result = tammes(*words, "--methods", "zero-shot", "--limit", 4, code=1)
    assert "1 image could not be read" in result.stderr
    assert "cat/1.png" in result.stdout
    assert recorded(tmp_path / "runs")["images"] == 4
    assert list(recorded(tmp_path / "runs")["skipped"]) == ["cat/1.png"]


def recorded(folder: Path) -> dict:
    """Read the only run of a folder."""
    (path,) = folder.rglob("run.json")
    return json.loads(path.read_text("utf-8"))


def test_a_term_alone_is_the_only_method(
    photos: Path, tmp_path: Path, model: tuple[str, ...]
) -> None:
    words = ("bench", "--data", photos, "--out", tmp_path / "runs", *model)
    tammes(*words, "--term", "angular:5", "--temperature", 2)
    method = recorded(tmp_path / "runs")["settings"]["method"]
    assert method["terms"] == [[5.0, "AngularDiversity(tau=0.99999)"]]
    assert method["temperature"] == 2


@pytest.mark.parametrize(
    ("words", "weight", "augmix"),
    [((), 10.0, True), (("--preset", "fine-grained", "--no-augmix"), 80.0, False)],
)
def test_a_benchmark_brings_what_was_published_for_it(
    photos: Path, tmp_path: Path, model: tuple[str, ...], words: tuple[str, ...],
    weight: float, augmix: bool,
) -> None:  # fmt: skip
    folder = find_entry("imagenet_a").folders
    assert folder
    root = tmp_path / "sets" / "imagenet-a"
    root.mkdir(parents=True)
    (photos / "cat").rename(root / folder[3])
    fixed = ("bench", "--data", "imagenet_a", "--root", root, "--out", tmp_path / "runs", *model)
    tammes(*fixed, *words, "--methods", "a-tpt")
    settings = recorded(tmp_path / "runs")["settings"]
    assert [term[0] for term in settings["method"]["terms"]] == [weight]
    assert settings["views"]["augmix"] is augmix


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "empty"), "no image found"),
        (("--data", "photos/cat"), "none in a class folder"),
        (("--data", "oxford_pts"), "Did you mean 'oxford_pets'"),
        (("--data", "photos", "--methods", "tpt,a-ptt"), "Did you mean 'a-tpt'"),
        (("--data", "wrong.csv", "--classes-file", "names.txt"), "'dgo'"),
        (("--data", "photos", "--out", "wrong.csv"), "wrong.csv"),
        (("--data", "photos", "--template", "imagenet-80"), "zero-shot"),
    ],
)
def test_benches_that_are_refused(
    photos: Path, model: tuple[str, ...], words: tuple[str, ...], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(photos.parent)
    Path("empty").mkdir()
    Path("names.txt").write_text("cat\ndog\n")
    Path("wrong.csv").write_text("file,label\nphotos/cat/0.png,cat\nphotos/dog/0.png,dgo\n")
    out = () if "--out" in words else ("--out", "runs")
    result = tammes("bench", *words, *out, *model, code=2)
    assert message in " ".join(result.stderr.split())


def test_reports_that_are_refused(runs: Path, tmp_path: Path) -> None:
    assert "no such folder" in tammes("report", tmp_path / "gone", code=2).stderr
    assert "no format 'xlsx'" in tammes("report", runs, "--format", "xlsx", code=2).stderr


# --- batch ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [3, "auto"])
def test_the_batch_is_a_number_or_found(
    photos: Path, model: tuple[str, ...], batch: object
) -> None:
    words = ("classify", photos / "cat", "--classes", "cat,dog", *model, "--json")
    plain, other = tammes(*words), tammes(*words, "--batch", batch)
    told = "views per pass of the image encoder" in " ".join(other.stderr.split())
    assert told == (batch == "auto")
    pairs = zip(json.loads(plain.stdout), json.loads(other.stdout), strict=True)
    for one, again in pairs:
        assert one["confidence"] == pytest.approx(again["confidence"], abs=1e-5)


@pytest.mark.parametrize("batch", ["0", "-4", "2.5", "fast", ""])
def test_other_batches_are_refused(photos: Path, batch: str) -> None:
    words = ("classify", photos, "--classes", "cat,dog", "--batch", batch)
    said = " ".join(tammes(*words, code=2).stderr.replace("│", " ").split())
    assert f"'{batch}' is neither a number of views above 0 nor auto" in said


# --- list and lint ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("methods", "static-a-tpt"),
        ("models", "ViT-B-16/openai"),
        ("datasets", "eurosat"),
        ("templates", "imagenet-80"),
    ],
)
def test_lists(what: str, name: str) -> None:
    listed = json.loads(tammes("list", what, "--json").stdout)
    assert name in [record["name"] for record in listed]
    assert name in tammes("list", what).stdout


def test_methods_are_listed_as_the_terms_that_make_them() -> None:
    listed = json.loads(tammes("list", "methods", "--json").stdout)
    assert [record["name"] for record in listed] == list(METHODS)
    both = next(record for record in listed if record["name"] == "c-tpt+a-tpt")
    assert both["shift"] == "dispersion:20 angular:10"


def test_lint_finds_and_says_so(tiny_path: Path, tmp_path: Path) -> None:
    words = ("lint", "--classes", "cat,Cat,dog,dog", "--model", tiny_path)
    kinds = [finding["kind"] for finding in json.loads(tammes(*words, "--json", code=1).stdout)]
    assert kinds == ["duplicate", "variant"]
    assert "merge them" in " ".join(tammes(*words, code=1).stdout.split())
    (tmp_path / "names.txt").write_text("zebra\nviolin\nharbor\n")
    words = ("lint", tmp_path / "names.txt", "--model", tiny_path)
    assert "nothing to remark" in tammes(*words).stdout


# --- help ---------------------------------------------------------------------------------------


def test_help_needs_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from tammes.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'torch', 'numpy', 'PIL', 'sklearn', 'open_clip', 'pyarrow', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "classify" in done.stdout


def test_version() -> None:
    assert tammes("--version").stdout.startswith("tammes 0.")


def test_unknown_commands_are_corrected() -> None:
    assert "classify" in tammes("clasify", code=2).stderr


def test_every_option_is_explained() -> None:
    for line in page().splitlines():
        assert not line.endswith(("|  |", "| None |")), line


def test_the_page_of_commands_is_up_to_date() -> None:
    assert DOCS.read_text("utf-8") == page(), "run: python -m tammes.cli.docs > docs/cli.md"


@pytest.mark.parametrize(("given", "found"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_sleep_while_they_wait(
    given: str | None, found: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setattr(sys, "argv", ["tammes", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert os.environ["OMP_WAIT_POLICY"] == found


def test_class_folders_are_renamed_by_a_file(photos: Path, tmp_path: Path):
    names, out = tmp_path / "names.json", tmp_path / "runs"
    names.write_text(json.dumps({"cat": "kitten", "dog": "puppy"}))
    shared = ("bench", "--data", photos, "--methods", "zero-shot", "--device", "cpu", "--out", out)
    tammes(*shared, "--classes-file", names)
    (record,) = out.rglob("run.json")
    assert json.loads(record.read_text("utf-8"))["classnames"] == ["kitten", "puppy"]
    names.write_text('{"cat": 1}')
    assert "names by folder" in tammes(*shared, "--classes-file", names, code=2).output
