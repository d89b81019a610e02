"""Figures that show the numbers they were given, with letters as letters."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

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
    categories,
    class_scatter,
    confidence_histogram,
    cosine_histogram,
    cosine_per_sample,
    crowding_order,
    gradient_curves,
    grouped_bars,
    lambda_curve,
    pareto,
    pareto_front,
    pareto_over_weights,
    prompt_scatter,
    radar,
    reliability_diagram,
    risk_coverage_curve,
    sheet,
    sheets,
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


RANDOM = np.random.default_rng(0)
DATASETS = ("dtd", "pets", "eurosat", "cars", "food", "ucf", "sun")
TABLE = {
    name: {d: around(0.02 + 0.01 * i + 0.002 * k) for k, d in enumerate(DATASETS)}
    for i, name in enumerate(("zero-shot", "tpt", "a-tpt"))
}
VALUES = {name: {d: found.value for d, found in row.items()} for name, row in TABLE.items()}
COSINES = {"zero-shot": np.full(50, 0.7), "tpt": RANDOM.normal(0.6, 0.02, 50)}
SWEPT = {
    name: {
        w: {"accuracy": around(0.6 + 0.01 * i + w / 1000), "ece": around(0.1 - w / 1000)}
        for w in (0.0, 10.0, 80.0)
    }
    for i, name in enumerate(("c-tpt", "a-tpt"))
}
PROMPTS = {name: RANDOM.normal(size=(12, 2)) for name in ("a photo of a {}.", "art of {}.")}
TURNS = np.geomspace(1e-3, 1.0, 30)
NORMS = {
    "angular": np.where(TURNS > 0.005, 1.0, 0.0),
    "orthogonality": np.sin(TURNS),
    "frobenius": 4 * np.sin(TURNS),
    "dispersion": np.cos(TURNS / 2) / 2,
}
FIGURES = {
    "radar": lambda ax, p: radar(VALUES, ax, "ece", "title", p),
    "bars": lambda ax, p: grouped_bars(TABLE, ax, "ece", "title", VALUES, p),
    "samples": lambda ax, p: cosine_per_sample(COSINES, ax, "title", p),
    "sideways": lambda ax, p: cosine_histogram(COSINES, ax, "title", p),
    "scatter": lambda ax, p: class_scatter(PROMPTS, ax, "title", p),
    "prompts": lambda ax, p: prompt_scatter(PROMPTS, ax, "title", p),
    "gradients": lambda ax, p: gradient_curves(TURNS, NORMS, ax, "title", p),
    "weights": lambda ax, p: pareto_over_weights(SWEPT, ax, "title", p),
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
    figure, ax = sheet(projection="polar" if name == "radar" else None)
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


def lines_of(ax, name: str) -> list:
    return [line for line in ax.lines if line.get_label() == name]


def test_the_radar_shows_each_value_on_its_own_scale():
    _, ax = sheet(projection="polar")
    values = {"tpt": {"dtd": 0.2, "pets": 0.05, "ucf": 0.1}, "a-tpt": {"dtd": 0.1, "ucf": 0.1}}
    radar(values, ax)
    (tpt,), (ours,) = lines_of(ax, "tpt"), lines_of(ax, "a-tpt")
    np.testing.assert_allclose(tpt.get_ydata(), [1, 1, 1, 1])
    np.testing.assert_allclose(ours.get_ydata(), [0.5, np.nan, 1, 0.5])
    assert [t.get_text() for t in ax.texts] == ["dtd\n20.0%", "pets\n5.0%", "ucf\n10.0%"]


def test_bars_stand_beside_what_was_published():
    _, ax = sheet()
    table = {"tpt": {"dtd": Interval(0.2, 0.1, 0.4)}, "a-tpt": {"pets": around(0.1)}}
    grouped_bars(table, ax, published={"a-tpt": {"pets": 0.12, "no such set": 1.0}})
    heights = {c.get_label(): [bar.get_height() for bar in c] for c in ax.containers}
    assert heights == {"tpt": [0.2], "a-tpt": [0.1]}
    line, other, printed = ax.collections
    assert line.get_segments()[0][:, 1].tolist() == [0.1, 0.4]
    assert printed.get_offsets()[:, 1].tolist() == [0.12]
    assert printed.get_offsets()[0, 0] == other.get_segments()[0][0, 0]


def test_samples_and_their_histogram_say_the_same():
    _, (left, right) = sheets(2, sharey=True)
    cosine_per_sample(COSINES, left)
    cosine_histogram(COSINES, right)
    (mean,) = lines_of(left, "tpt")
    assert mean.get_ydata()[0] == COSINES["tpt"].mean()
    assert lines_of(right, "zero-shot")[0].get_ydata()[0] == COSINES["zero-shot"].mean()
    assert right.patches[0].get_data().values.sum() == pytest.approx(1)


def test_many_samples_are_thinned_but_the_mean_is_of_all():
    _, ax = sheet()
    values = np.r_[np.zeros(4999), 5000.0]
    cosine_per_sample({"tpt": values}, ax)
    dots, mean = ax.lines
    assert len(dots.get_xdata()) == 1000
    assert dots.get_xdata()[[0, -1]].tolist() == [0, 4999]
    assert mean.get_ydata()[0] == 1.0


def test_every_class_is_a_dot():
    _, ax = sheet()
    class_scatter(PROMPTS, ax)
    for dots, expected in zip(ax.collections, PROMPTS.values(), strict=True):
        np.testing.assert_array_equal(dots.get_offsets(), expected)


def test_prompts_come_with_the_trend_of_their_group():
    _, ax = sheet()
    x = np.array([0.5, 0.6, 0.7])
    prompt_scatter({"line": np.stack([x, 1 - x], 1), "two": np.array([[1.0, 1], [2, 2]])}, ax)
    dots, trend, _two = ax.lines
    np.testing.assert_array_equal(dots.get_xdata(), x)
    np.testing.assert_allclose(trend.get_ydata(), [0.5, 0.3])


def test_a_gradient_that_is_gone_ends_in_a_circle():
    _, ax = sheet()
    gradient_curves(TURNS, NORMS, ax)
    drawn = lines_of(ax, "angular")[0].get_ydata()
    np.testing.assert_array_equal(drawn, np.where(NORMS["angular"] > 0, 1.0, np.nan))
    circles = [line for line in ax.lines if len(line.get_xdata()) and line.get_marker() == "o"]
    assert [line.get_xdata().tolist() for line in circles] == [
        [np.degrees(TURNS[NORMS["angular"] > 0][0])]
    ]


def test_the_way_over_the_weights_is_in_their_order():
    _, ax = sheet()
    shuffled = {"a-tpt": {w: SWEPT["a-tpt"][w] for w in (80.0, 0.0, 10.0)}}
    pareto_over_weights(shuffled, ax)
    (way,) = lines_of(ax, "a-tpt")
    np.testing.assert_allclose(way.get_xdata(), [0.61, 0.62, 0.69])
    assert {t.get_text() for t in ax.texts} == {"0", "10", "80"}


def test_the_frontier_is_over_all_weights_of_all_methods():
    _, ax = sheet()
    pareto_over_weights(SWEPT, ax)
    (front,) = lines_of(ax, "frontier")
    np.testing.assert_allclose(front.get_xydata(), [[0.69, 0.02]])


def test_labels_at_one_point_are_written_once():
    _, ax = sheet()
    point = {"accuracy": around(0.5), "ece": around(0.1)}
    far = {"accuracy": around(0.6), "ece": around(0.05)}
    pareto_over_weights({"a-tpt": {0.0: point, 1.0: point, 80.0: far}}, ax)
    assert sorted(t.get_text() for t in ax.texts) == ["1", "80"]


def test_neighboring_categories_differ():
    looks = list(categories(str(i) for i in range(20)).values())
    assert all(a != b for a, b in pairwise(looks))
    assert len({(look.color, look.marker) for look in looks[:8]}) == 8
