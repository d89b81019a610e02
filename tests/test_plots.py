"""Figures that show the numbers they were given, with letters as letters."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from tammes.calibration import Outcomes, bins, risk_coverage
from tammes.method import METHODS
from tammes.plots import (
    DARK,
    LIGHT,
    STYLES,
    accuracy_ece_plane,
    angle_heatmap,
    confidence_histogram,
    crowding_order,
    lambda_curve,
    pareto,
    pareto_front,
    reliability_diagram,
    risk_coverage_curve,
    sheet,
    similarity_histogram,
    style,
    svg,
    write,
)
from tammes.statistics import Interval


def outcomes(seed: int = 0, images: int = 300) -> Outcomes:
    random = np.random.default_rng(seed)
    confidence = random.uniform(0.3, 1, images)
    return Outcomes(
        np.ones(images, int), (random.random(images) < confidence - 0.1).astype(int), confidence
    )


def around(value: float) -> Interval:
    return Interval(value, value - 0.02, value + 0.01)


POINTS = {
    name: {"accuracy": around(0.6 + 0.01 * i), "ece": around(0.05 + 0.01 * (i % 3))}
    for i, name in enumerate([*METHODS, "a-tpt λ=40"])
}
BINS = bins(outcomes().confidence, outcomes().correct)
CURVES = {name: risk_coverage(outcomes(i)) for i, name in enumerate(METHODS)}
GRID = {name: {w: around(0.1 / (1 + w)) for w in (0.0, 5.0, 80.0)} for name in ("a-tpt", "c-tpt")}


def unit(classes: int) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(classes, 16)) + 1
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def angles(classes: int) -> np.ndarray:
    return np.arccos(np.clip(unit(classes) @ unit(classes).T, -1, 1))


FIGURES = {
    "reliability": lambda ax, p: reliability_diagram(BINS, ax, "title", palette=p),
    "histogram": lambda ax, p: confidence_histogram(BINS, ax, "title", palette=p),
    "plane": lambda ax, p: accuracy_ece_plane(POINTS, ax, "title", p),
    "pareto": lambda ax, p: pareto(POINTS, ax, "title", p),
    "risk": lambda ax, p: risk_coverage_curve(CURVES, ax, "title", p),
    "lambda": lambda ax, p: lambda_curve(GRID, ax, "ece", "title", p),
    "heat map": lambda ax, p: angle_heatmap(angles(9), [*"abcdefghi"], ax, "title", palette=p),
    "similarity": lambda ax, p: similarity_histogram({"tpt": unit(9) @ unit(9).T}, ax, "title", p),
}


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_a_figure_is_valid_svg_whose_ink_follows_the_page(name, palette):
    figure, ax = sheet()
    FIGURES[name](ax, palette)
    text = svg(figure, palette)
    root = ElementTree.fromstring(text)
    written = [
        "".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("text")
    ]
    assert "title" in written
    assert "currentColor" in text
    assert palette.ink not in text
    assert not re.search(r"(?:fill|stroke): #(?:000000|ffffff)", text)


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_equal_figures_make_equal_files(suffix, tmp_path):
    for path in (tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"):
        figure, ax = sheet()
        FIGURES["plane"](ax, LIGHT)
        write(figure, path)
    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_every_method_has_its_own_look():
    assert set(METHODS) <= set(STYLES)
    looks = list(STYLES.values())
    assert len({s.color for s in looks}) == len({s.marker for s in looks}) == len(looks)


def test_an_unknown_method_always_looks_the_same():
    assert style("mine") == style("mine")
    assert style("mine") not in STYLES.values()


def test_the_reliability_diagram_shows_the_bins():
    _, ax = sheet()
    reliability_diagram(BINS, ax)
    agreed, over, under = (np.array([b.get_height() for b in c]) for c in ax.containers)
    np.testing.assert_allclose(agreed + under, BINS.accuracy)
    np.testing.assert_allclose(agreed + over, BINS.confidence)


def test_the_histogram_says_the_two_means():
    _, ax = sheet()
    confidence_histogram(BINS, ax)
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == [
        f"mean confidence {outcomes().confidence.mean():.1%}",
        f"accuracy {outcomes().correct.mean():.1%}",
    ]


def test_no_image_at_all_still_draws():
    nothing = bins(np.array([]), np.array([], bool))
    for draw in (reliability_diagram, confidence_histogram):
        figure, ax = sheet()
        draw(nothing, ax)
        svg(figure)


def test_the_plane_draws_intervals_beside_their_value():
    _, ax = sheet()
    accuracy_ece_plane({"tpt": {"accuracy": around(0.7), "ece": Interval(0.1, 0.02, 0.08)}}, ax)
    ends = [line.get_ydata() for line in ax.lines]
    assert any(np.allclose(end, [0.02, 0.08]) for end in ends)
    assert any(np.allclose(end, [0.1]) for end in ends)


def test_the_frontier_holds_what_none_beats():
    points = {
        name: {"accuracy": around(accuracy), "ece": around(error)}
        for name, accuracy, error in (
            ("good", 0.7, 0.05),
            ("honest", 0.6, 0.02),
            ("proud", 0.65, 0.1),
            ("twin", 0.7, 0.05),
        )
    }
    assert pareto_front(points) == ["good", "honest", "twin"]


def test_long_curves_are_thinned_with_both_ends():
    _, ax = sheet()
    curve = risk_coverage(outcomes(images=5000))
    risk_coverage_curve({"tpt": curve}, ax)
    x, y = ax.lines[0].get_data()
    assert len(x) <= 250
    assert (x[0], x[-1], y[-1]) == (curve.coverage[0], 1, curve.risk[-1])


def test_negative_weights_have_their_place():
    figure, ax = sheet()
    lambda_curve({"a-tpt": {w: around(0.1) for w in (-80.0, 0.0, 80.0)}}, ax)
    svg(figure)
    shown = [text.get_text() for text in ax.get_xticklabels()]
    assert shown == ["-80", "0", "80"]


@pytest.mark.parametrize(("classes", "named"), [(10, True), (40, True), (300, False)])
def test_names_are_written_while_they_are_legible(classes, named):
    figure, ax = sheet(5, 4)
    angle_heatmap(angles(classes), [f"class {i}" for i in range(classes)], ax)
    svg(figure)
    assert [t.get_text() for t in ax.get_yticklabels()] == (
        [f"class {i}" for i in range(classes)] if named else []
    )
    assert all(t.get_fontsize() >= 3 for t in ax.get_yticklabels())


def test_two_maps_share_their_limits():
    _, ax = sheet()
    angle_heatmap(angles(5), [*"abcde"], ax, limits=(0.0, np.pi / 2))
    assert ax.images[0].get_clim() == (0, 90)


def test_crowded_classes_become_neighbors():
    group = np.array([0, 1, 2, 0, 1, 2, 0])
    order = crowding_order(np.where(group[:, None] == group, 0.1, 1.0))
    assert sorted(order) == list(range(7))
    assert (np.diff(group[order]) != 0).sum() == 2


@pytest.mark.parametrize("classes", [1, 2])
def test_few_classes_draw(classes):
    figure, ax = sheet()
    angle_heatmap(angles(classes), [*"ab"[:classes]], ax, limits=(0.0, 1.0))
    svg(figure)
    assert crowding_order(angles(classes)).tolist() == list(range(classes))
