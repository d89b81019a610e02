"""Reports: numbers are those of the rows, words claim no more, the page needs nothing else."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from fake_runs import NAMES, fake_images, fake_runs
from tammes import report
from tammes.calibration import measure
from tammes.errors import DataError, MissingExtra, StoreError
from tammes.records import Run, load_runs
from tammes.report import (
    FORMATS,
    Comparison,
    Row,
    Terminal,
    read_cases,
    summarize,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
    verdict,
    write_figures,
    write_html,
)
from tammes.report.crowding import angles, crowding
from tammes.report.mistakes import worst_mistakes
from tammes.report.verdict import MAYBE, PAID, STATIC, UNPAID, UNPROVEN
from tammes.statistics import Interval, paired_differences

METHODS = ("zero-shot", "static-a-tpt", "tpt", "a-tpt")
HOSTILE = (
    '<script>alert("1")</script>', '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "$x$ & $",
    "a|b*c_d", "new\nline", "\x01\x02", "名前", "🦊", "x" * 300, "[red]no markup[/]",
    "]]> --> </style>",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("runs")
    skipped = {"ant/broken.jpg": "empty: the file has no bytes"}
    found = fake_runs(out, images=120, classnames=NAMES[:8], methods=METHODS, skipped=skipped)
    fake_images(found)
    return load_runs(out)


@pytest.fixture(scope="module")
def page(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    return write_html(runs, path, "tammes report runs --html report.html", 100).read_text()


# --- numbers ------------------------------------------------------------------------------------


def test_numbers_are_those_of_the_rows(runs):
    (comparison,) = summarize(runs, 100).comparisons
    by_method = {run.method: run for run in runs}
    zero_shot = by_method["zero-shot"].outcomes()
    for row in comparison.rows:
        outcomes = by_method[row.method].outcomes()
        values = measure(outcomes)
        assert {k: row.metrics[k].value for k in values} == values
        if row.method != "zero-shot":
            expected = paired_differences(outcomes, zero_shot, ("accuracy", "ece"), 100)
            assert row.against["zero-shot"] == expected
    assert comparison.images == "119 images"
    assert comparison.skipped == {"ant/broken.jpg": "empty: the file has no bytes"}


def test_what_others_are_compared_to_comes_first(tmp_path):
    fake_runs(tmp_path, 40, methods=("tpt", "c-tpt", "static-a-tpt", "a-tpt", "zero-shot"))
    (comparison,) = summarize(reversed(load_runs(tmp_path)), 20).comparisons
    assert [row.method for row in comparison.rows] == [
        "zero-shot", "static-a-tpt", "tpt", "c-tpt", "a-tpt",
    ]  # fmt: skip
    assert (comparison.zero_shot, comparison.static, comparison.tpt) == (
        "zero-shot", "static-a-tpt", "tpt",
    )  # fmt: skip


def test_image_independent_share_is_of_the_images_that_have_one(runs):
    shares = {
        r.method: r.metrics.get("image_independent")
        for r in summarize(runs, 50).comparisons[0].rows
    }
    assert shares["zero-shot"] is None
    assert shares["tpt"] is None
    assert shares["static-a-tpt"] == Interval(1.0, 1.0, 1.0)
    assert 0.9 < shares["a-tpt"].low <= shares["a-tpt"].value <= shares["a-tpt"].high < 1


def text_of(summary: report.Summary) -> str:
    """What a wide terminal shows."""
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(Terminal(summary))
    return console.export_text()


def test_an_unfinished_run_is_compared_on_what_it_shares(runs, tmp_path):
    """The rows are of other images in another order: pairing goes by id."""
    zero_shot, tpt = (next(r for r in runs if r.method == m) for m in ("zero-shot", "tpt"))
    rows = tpt.rows()
    fewer = replace(tpt, folder=tmp_path, blocks=1, skipped={}, status="running")
    fewer.write_rows(0, rows.take(np.arange(len(rows))[::-1][:70]))
    summary = summarize([zero_shot, fewer], 50)
    (comparison,) = summary.comparisons
    assert "Unfinished: tpt lacks 50" in to_markdown(summary)
    assert "Unfinished: tpt lacks 50" in text_of(summary)
    shared = [r.outcomes().take(np.arange(len(rows))[::-1][:70]) for r in (tpt, zero_shot)]
    assert comparison.row("tpt").against["zero-shot"] == paired_differences(
        *shared, ("accuracy", "ece"), 50
    )
    assert comparison.unfinished == {"tpt": 50}
    assert comparison.images == "70 to 119 images"


def test_a_run_without_rows_is_named(runs, tmp_path):
    lost = replace(runs[0], dataset="lost", folder=tmp_path / "nowhere")
    summary = summarize([*runs, lost], 20)
    assert list(summary.unread) == [f"{lost.method} on lost"]
    assert f"Not in this report: {lost.method} on lost" in to_markdown(summary)
    assert f"Not in this report: {lost.method} on lost" in text_of(summary)
    assert (
        "Not in this report" in write_html([runs[0], lost], tmp_path / "r.html", "", 20).read_text()
    )
    with pytest.raises(DataError, match="holds no rows yet"):
        summarize([lost])
    with pytest.raises(DataError, match="tammes bench"):
        summarize([])


def test_a_method_that_was_run_twice_is_named_by_what_differs(runs, tmp_path):
    tpt = next(run for run in runs if run.method == "tpt")
    settings = {**tpt.settings, "views": {**tpt.settings["views"], "seed": 1}}
    again = replace(tpt, settings=settings, folder=tmp_path)
    again.write_rows(0, tpt.rows())
    same = [row.method for row in summarize([*runs, again], 10).comparisons[0].rows]
    assert same == list(METHODS)  # the same answers count once
    again.write_rows(0, tpt.rows().slice(3))
    names = [row.method for row in summarize([*runs, again], 10).comparisons[0].rows]
    assert {"tpt (views.seed 0)", "tpt (views.seed 1)"} < set(names)


def test_runs_on_other_labels_are_not_compared(runs):
    other = [replace(run, settings={**run.settings, "task": "other"}) for run in runs[:1]]
    cases, _ = read_cases([*runs, *other])
    assert [len(case.results) for case in cases] == [len(runs), 1]


# --- words --------------------------------------------------------------------------------------

NO, LESS, MORE = (
    Interval(0.0, -0.02, 0.02),
    Interval(-0.05, -0.08, -0.02),
    Interval(0.05, 0.02, 0.08),
)


def comparison_of(
    *rows: tuple[str, str, Interval, Interval], sure: bool = True, beats_static: bool = False
) -> Comparison:
    """A comparison of methods by role, with their differences in accuracy and ECE to zero-shot."""
    metrics = {
        name: Interval(0.5, 0.4, 0.6) for name in ("accuracy", "ece", "gap", "mean_confidence")
    }
    built = [Row("zero-shot", "zero-shot", 100, metrics, {}, {}, NO)]
    static = next((name for name, role, *_ in rows if role == "static"), None)
    for name, role, accuracy, ece in rows:
        against = {"zero-shot": {"accuracy": accuracy, "ece": ece}}
        if static and name != static:
            against[static] = {"accuracy": NO, "ece": LESS if beats_static else NO}
        corrected = against if sure else {"zero-shot": {"accuracy": NO, "ece": NO}}
        built.append(Row(name, role, 100, metrics, against, corrected, NO))
    return Comparison("d", "m", "p", tuple(built), {}, {}, "zero-shot", static, None)


@pytest.mark.parametrize(
    ("comparison", "claim", "words"),
    [
        (comparison_of(("tpt", "adapted", NO, MORE)), UNPAID, "tpt does worse than zero-shot"),
        (comparison_of(("tpt", "adapted", LESS, NO)), UNPAID, "tpt does worse"),
        (comparison_of(("a-tpt", "adapted", NO, NO)), UNPAID, "a-tpt cannot be told apart from"),
        (comparison_of(*[(m, "adapted", NO, NO) for m in "abc"]), UNPAID, "none of the 3 methods"),
        (comparison_of(("tpt", "adapted", MORE, MORE)), UNPAID, "tpt trades accuracy"),
        (
            comparison_of(("a-tpt", "adapted", NO, LESS)),
            PAID,
            "lowers ECE by 5.0 points [2.0, 8.0]",
        ),
        (comparison_of(("a-tpt", "adapted", MORE, NO)), PAID, "raises accuracy by 5.0 points"),
        (comparison_of(("a-tpt", "adapted", NO, LESS), sure=False), MAYBE, "by chance too often"),
        (
            comparison_of(("static", "static", NO, NO), ("a-tpt", "adapted", NO, LESS)),
            UNPROVEN,
            "nothing shows that it beats static, which looks at none",
        ),
        (
            comparison_of(
                ("static", "static", NO, LESS), ("a-tpt", "adapted", NO, LESS), beats_static=True
            ),
            PAID,
            "and beats static",
        ),
        (comparison_of(("static", "static", NO, LESS)), STATIC, "without looking at any image"),
    ],
)
def test_the_headline_says_what_happened(comparison, claim, words):
    found = verdict(comparison)
    assert found.claim == claim
    assert words in found.headline
    assert found.headline.endswith(".")


def test_nothing_is_claimed_without_zero_shot_or_from_few_images(tmp_path):
    runs = fake_runs(tmp_path, 20, methods=METHODS)
    few = verdict(summarize(runs, 50).comparisons[0])
    assert few.headline == "Too few images to tell: 20 images, and nothing shows below 30."
    alone = verdict(summarize(runs[2:3], 20).comparisons[0])
    assert alone.headline.startswith("Nothing here says whether adaptation paid: zero-shot was not")
    only = verdict(summarize(runs[:1], 20).comparisons[0])
    assert only.headline.startswith("Only zero-shot was run: accuracy ")


BOUND = st.floats(-0.2, 0.2).map(lambda x: round(x, 3))
RANGE = st.tuples(BOUND, BOUND).map(lambda ab: Interval(sum(ab) / 2, min(ab), max(ab)))


@given(st.lists(st.tuples(RANGE, RANGE), min_size=1, max_size=5))
def test_no_gain_is_claimed_that_no_interval_shows(differences):
    rows = [(f"m{i}", "adapted", *pair) for i, pair in enumerate(differences)]
    real = any(accuracy.low > 0 or ece.high < 0 for accuracy, ece in differences)
    claimed = verdict(comparison_of(*rows)).claim == PAID
    assert claimed <= real


def test_the_same_answers_are_the_same_method(runs):
    """A method against its own copy: no difference may be found, whatever the resamples say."""
    zero_shot = next(run for run in runs if run.method == "zero-shot")
    copy = replace(next(run for run in runs if run.method == "a-tpt"), folder=zero_shot.folder)
    (comparison,) = summarize([zero_shot, copy], 100).comparisons
    row = comparison.row("a-tpt")
    assert {row.effect("zero-shot", metric) for metric in ("accuracy", "ece")} == {"same"}
    assert verdict(comparison).claim == UNPAID


# --- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_the_terminal_table_fits(runs, width):
    text = io.StringIO()
    Console(file=text, width=width).print(Terminal(summarize(runs, 20)))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for metric in ("Accuracy", "ECE", "SCE", "Confidence", "Gap", "AD", "Indep."):
        assert metric in text.getvalue()
    assert "Skipped 1: ant/broken.jpg" in " ".join(lines)


def test_the_terminal_shows_every_number_at_80_columns(runs):
    text = io.StringIO()
    summary = summarize(runs, 20)
    Console(file=text, width=80).print(Terminal(summary))
    for row in summary.comparisons[0].rows:
        for name in ("accuracy", "ece", "mean_confidence", "gap"):
            assert f"{100 * row.metrics[name].value:.1f}".replace("-", "−") in text.getvalue()


def test_csv_keeps_full_precision(runs):
    summary = summarize(runs, 20)
    lines = list(csv.DictReader(io.StringIO(to_csv(summary))))
    row = summary.comparisons[0].row("a-tpt")
    of_method = {(x["metric"], x["reference"]): x for x in lines if x["method"] == "a-tpt"}
    for name, interval in row.metrics.items():
        found = of_method[name, ""]
        assert (float(found["value"]), float(found["low"]), float(found["high"])) == (
            interval.value, interval.low, interval.high,
        )  # fmt: skip
    assert float(of_method["ece", "zero-shot"]["value"]) == row.against["zero-shot"]["ece"].value


def test_json_holds_the_verdict_and_the_skipped(runs):
    (found,) = json.loads(to_json(summarize(runs, 20)))["comparisons"]
    assert found["verdict"]["claim"]
    assert found["skipped"] == {"ant/broken.jpg": "empty: the file has no bytes"}


def rename(run: Run, folder: Path, **changes: object) -> Run:
    """A copy of a run under other names."""
    copy = replace(run, folder=folder, **changes)
    copy.write_rows(0, run.rows())
    return copy


@pytest.fixture
def hostile(runs, tmp_path) -> list[Run]:
    """Runs whose every name tries to break out of where it is written."""
    root = tmp_path / "images"
    made = fake_runs(
        tmp_path / "bad", 60, HOSTILE, ("zero-shot", "a-tpt"), HOSTILE[0], root=root,
        ids=[f"{HOSTILE[i % len(HOSTILE)]}-{i}" for i in range(60)],
        skipped={HOSTILE[1]: HOSTILE[0]},
    )  # fmt: skip
    renamed = {"method": HOSTILE[0], "prompt": HOSTILE[2], "model": HOSTILE[1]}
    same = {"prompt": HOSTILE[2], "model": HOSTILE[1]}
    return [
        rename(made[0], tmp_path / "a", **same),
        rename(made[1], tmp_path / "b", **renamed, command=(HOSTILE[0],)),
    ]


def test_markdown_rows_have_as_many_cells_as_the_head(hostile):
    lines = [x for x in to_markdown(summarize(hostile, 20)).splitlines() if x.startswith("|")]
    cells = [len(re.split(r"(?<!\\)\|", line)) for line in lines]
    assert len(lines) == 4
    assert len(set(cells)) == 1


def test_latex_escapes_what_tex_reads_as_commands(hostile):
    text = to_latex(summarize(hostile, 20))
    body = text.replace(r"\\", "")
    assert not re.search(r"(?<!\\)[#%_]", body)
    assert len(re.findall(r"(?<!\\)\{", body)) == len(re.findall(r"(?<!\\)\}", body))
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [line.count(" & ") for line in rows] == [9, 9, 9]


def test_several_datasets_are_laid_side_by_side(tmp_path):
    runs = []
    for seed, (name, methods) in enumerate({"one": METHODS[::3], "two": METHODS[:1]}.items()):
        runs += fake_runs(tmp_path, 60, methods=methods, dataset=name, seed=seed, features=False)
    summary = summarize(runs, 20)
    text = to_markdown(summary)
    assert "| Method | one | two | Mean |" in text
    values = [c.row("zero-shot").metrics["accuracy"].value for c in summary.comparisons]
    assert re.search(rf"\| zero-shot \|.*\| {100 * np.mean(values):.1f} \|", text)
    assert re.search(r"\| a-tpt \| [^|]+ \| – \| – \|", text)  # no mean over other datasets
    page = write_html(runs, tmp_path / "r.html", "", 20).read_text()
    check_page(page)
    assert "of 2 comparisons" in page


def test_formats_end_with_a_newline(runs):
    summary = summarize(runs, 10)
    assert all(write(summary).endswith("\n") for write in FORMATS.values())


# --- the page -----------------------------------------------------------------------------------

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Reader(HTMLParser):
    """Reads a page and complains about what a browser would have to repair or to load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_page(page: str) -> Reader:
    """Assert that a page is well formed, needs nothing else and can be read aloud."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    names = [name for name, _ in reader.tags]
    assert not {"script", "iframe", "object", "embed", "base", "form"} & set(names)
    assert names.count("main") == names.count("h1") == 1
    ids = [a["id"] for _, a in reader.tags if "id" in a]
    assert len(set(ids)) == len(ids)
    for name, attributes in reader.tags:
        check_attributes(name, attributes, set(ids))
    style = page[page.index("<style>") : page.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style
    return reader


def check_attributes(name: str, attributes: dict[str, str | None], ids: set[str]) -> None:
    for key, value in attributes.items():
        assert not key.startswith("on"), f"{key} runs code"
        if key in ("src", "href", "xlink:href"):
            assert value.startswith("data:") or value.removeprefix("#") in ids
        for target in re.findall(r"url\(([^)]*)\)", value or ""):
            assert target.removeprefix("#") in ids
        if key in ("aria-labelledby",):
            assert value in ids
    if name == "th":
        assert attributes["scope"] in {"col", "row", "colgroup"}
    if name == "img":
        assert attributes["alt"]
    if attributes.get("role") == "img":
        assert attributes["aria-label"]


def test_the_page_is_complete(page, runs):
    reader = check_page(page)
    text = " ".join(reader.text)
    for words in ("Which differences are real", "Does the confidence mean what it says?",
                  "Which class names crowd together", "The most confident mistakes",
                  "How this was made", "views.count", "Skipped 1: ant/broken.jpg",
                  "tammes report runs --html report.html", "AngularDiversity"):  # fmt: skip
        assert words in text
    figures = [a for name, a in reader.tags if name == "svg" and a.get("role") == "img"]
    assert len(figures) == len(METHODS) + 2 + 2
    assert verdict(summarize(runs, 100).comparisons[0]).claim in text


def test_the_page_follows_the_color_scheme(page):
    style = page[page.index("<style>") : page.index("</style>")]
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    assert 'name="viewport"' in page
    inks = re.findall(r'<text[^>]*style="([^"]*)"', page)
    assert inks
    assert all("currentColor" in ink for ink in inks)


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_letters_stand_out(page, scheme):
    """WCAG AA: a contrast of 4.5 on both backgrounds."""
    blocks = re.findall(r":root \{([^}]*--paper[^}]*)\}", page)
    colors = dict(re.findall(r"--(\w+): (#\w{6})", blocks[scheme]))
    for letters in ("ink", "soft", "accent", "better", "worse"):
        for ground in ("paper", "panel"):
            pair = sorted(luminance(colors[name]) + 0.05 for name in (letters, ground))
            assert pair[1] / pair[0] >= 4.5, (letters, ground)


def test_names_cannot_break_out_of_the_page(hostile, tmp_path):
    page = write_html(hostile, tmp_path / "r.html", HOSTILE[0], 20).read_text()
    reader = check_page(page)
    text = " ".join(reader.text)
    assert HOSTILE[0] in text
    assert "{{ 7 * 7 }}" in text
    Console(file=io.StringIO(), width=80).print(Terminal(summarize(hostile, 10)))


def test_a_big_page_stays_small(tmp_path):
    runs = fake_runs(tmp_path)  # 300 images, 8 methods
    fake_images(runs)
    path = write_html(runs, tmp_path / "report.html", "", 20)
    assert 100_000 < path.stat().st_size < 3_000_000


def test_pictures_are_small_and_upright_jpegs(page, runs):
    found = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    assert found
    for data in found:
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        assert image.format == "JPEG"
        assert max(image.size) == 160


def test_pictures_come_out_of_an_archive_as_well(runs, tmp_path):
    root = Path(runs[0].root)
    with ZipFile(tmp_path / "pack.zip", "w") as pack:
        for path in root.rglob("*.jpg"):
            pack.write(path, path.relative_to(root).as_posix())
    (packed,), _ = read_cases([replace(runs[0], root=str(tmp_path / "pack.zip"))])
    (plain,), _ = read_cases(runs[:1])
    pictures = [m.picture for m in worst_mistakes(packed)]
    assert all(pictures)
    assert pictures == [m.picture for m in worst_mistakes(plain)]


def test_a_picture_that_moved_is_named(runs, tmp_path):
    gone = [replace(run, root=str(tmp_path / "gone")) for run in runs[:1]]
    page = write_html(gone, tmp_path / "r.html", "", 20).read_text()
    check_page(page)
    (case,), _ = read_cases(gone)
    worst = worst_mistakes(case)
    assert page.count("picture not found anymore") == len(worst) > 0
    assert all(m.id in page for m in worst)


def test_the_worst_mistakes_are_the_surest(runs):
    (case,), _ = read_cases(runs)
    wrong = [c for r in case.results for c in r.outcomes.confidence[~r.outcomes.correct]]
    worst = worst_mistakes(case)
    top = [max(a.confidence for a in m.answers if not a.right) for m in worst]
    assert top == sorted(top, reverse=True)
    assert top[0] == pytest.approx(max(wrong))
    assert all([a.method for a in m.answers] == list(METHODS) for m in worst)


def test_without_class_features_the_page_says_so(tmp_path):
    runs = fake_runs(tmp_path, 40, methods=METHODS[:1], features=False)
    (runs[0].folder / "classes.npz").write_bytes(b"PK broken")
    page = write_html(runs, tmp_path / "r.html", "", 10).read_text()
    check_page(page)
    assert "these runs kept no class features" in page


def test_crowded_classes_are_those_of_the_smallest_angles(tmp_path):
    names = tuple(f"class {i}" for i in range(60))
    (case,), _ = read_cases(fake_runs(tmp_path, 40, names, METHODS))
    found = crowding(case)
    a, b = found.closest()[0]
    off = found.start + 9 * np.eye(60)
    assert found.start[a, b] == off.min()
    assert {a, b} <= set(found.order)
    assert len(found.order) <= 24
    assert found.shown == "a-tpt"
    assert angles(np.eye(3)) == pytest.approx((1 - np.eye(3)) * np.pi / 2)


def test_a_page_needs_no_images_to_be_wrong(tmp_path):
    """One class, one image, one method: nothing to compare, no angle, no mistake."""
    runs = fake_runs(tmp_path, 1, ("only",), ("zero-shot",))
    page = write_html(runs, tmp_path / "r.html", "", 10).read_text()
    check_page(page)
    assert "No method made one" in page


# --- files --------------------------------------------------------------------------------------


def test_figures_are_written_in_three_formats(runs, tmp_path):
    written = write_figures(runs[:1], tmp_path / "figures")
    names = {path.name for path in written}
    for stem in ("reliability-zero-shot", "accuracy-ece", "risk-coverage", "angles-at-the-start"):
        assert {f"{stem}.svg", f"{stem}.pdf", f"{stem}.png"} <= names
    starts = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    assert all(path.read_bytes().startswith(starts[path.suffix]) for path in written)


def test_what_cannot_be_written_is_an_error_with_its_place(runs, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="file"):
        write_figures(runs, tmp_path / "file" / "figures")
    with pytest.raises(StoreError, match=r"report\.html"):
        write_html(runs[:1], tmp_path / "file" / "report.html", "", 10)


def test_without_jinja_the_page_names_the_extra(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtra, match=r"tammes\[report\]"):
        write_html(runs, tmp_path / "r.html", "", 10)


def test_equal_runs_make_equal_pages(runs, tmp_path):
    pages = [write_html(runs[:1], tmp_path / n, "x", 20).read_bytes() for n in ("a", "b")]
    assert pages[0] == pages[1]
