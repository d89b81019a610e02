"""Studies: laws of what the figures claim, on mathematics and on data with known answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.nn.functional import normalize

from tammes.errors import DataError
from tammes.paper.studies.embedding import embed_prompts
from tammes.paper.studies.gradients import contract, gradient_norms, mean_angle
from tammes.paper.studies.prompts import (
    Group,
    PromptPoint,
    correlate,
    group_by_accuracy,
    pooled,
)
from tammes.regularizers import REGULARIZERS, AngularDiversity, mean_nearest_angle

SIZES = [(2, 2), (6, 40), (40, 6), (30, 30)]  # fewer and more classes than dimensions


def directions(classes: int, dim: int, seed: int = 0) -> torch.Tensor:
    draw = torch.randn(classes, dim, generator=torch.manual_seed(seed), dtype=torch.float64)
    return torch.eye(2).double() if classes == 2 else normalize(draw, dim=-1)


# --- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("classes", "dim"), SIZES)
def test_only_the_angular_and_the_dispersion_term_still_push_when_classes_crowd(classes, dim):
    shares = np.array([0.02, 0.002])
    terms = {name: make() for name, make in REGULARIZERS.items()}
    terms["angular"] = AngularDiversity(tau=1 - 1e-7)  # the clamp has its own test
    found = gradient_norms(directions(classes, dim), shares, terms)
    wide, narrow = found.angles
    assert narrow == pytest.approx(wide / 10, rel=0.01)
    for name in ("orthogonality", "frobenius"):
        before, after = found.norms[name]
        assert after == pytest.approx(before / 10, rel=0.1), name
    before, after = found.norms["dispersion"]
    assert after == pytest.approx(before, rel=0.05)
    # A class that is nobody's nearest keeps 1/N; without such a class, all keep 2/N in pairs.
    assert (found.norms["angular"] >= 0.9 / classes).all()


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 10**6))
def test_the_angular_gradient_is_bounded_below_by_one_class(classes, dim, seed):
    text = normalize(torch.randn(classes, dim, generator=torch.manual_seed(seed)).double(), dim=-1)
    nearest = mean_nearest_angle(text)
    found = gradient_norms(text, np.array([1.0]), {"angular": AngularDiversity()})
    assert found.angles[0] == pytest.approx(float(nearest), abs=5e-3)
    cosine = (text @ text.T).fill_diagonal_(-1).max(dim=-1).values
    clear = bool(((cosine < 0.999) & (cosine > -0.999)).all())  # of the clamp at either end
    assert not clear or found.norms["angular"][0] >= 0.99 / classes


def test_the_clamp_ends_the_angular_gradient():
    tau = AngularDiversity().tau
    edge = np.arccos(tau)
    found = gradient_norms(directions(2, 2), np.tan(np.array([1.1, 0.9]) * edge / 2))
    np.testing.assert_allclose(found.angles, np.array([1.1, 0.9]) * edge, rtol=1e-6)
    assert found.norms["angular"][0] == pytest.approx(np.sqrt(2), rel=0.02)
    assert found.norms["angular"][1] == 0


def test_it_is_the_radial_part_that_hides_a_vanishing_gradient():
    text, shares = directions(6, 40), np.array([1e-3])
    whole = gradient_norms(text, shares, tangent=False).norms
    tangent = gradient_norms(text, shares).norms
    assert whole["orthogonality"][0] == pytest.approx(2, rel=1e-3)
    assert tangent["orthogonality"][0] < 0.01


@pytest.mark.parametrize("name", REGULARIZERS)
def test_norms_of_two_classes_are_the_derivatives_of_the_formulas(name):
    angle = 0.7
    slope = {  # of the term by the angle, over the two classes: each turns by half of it
        "angular": 1.0,
        "dispersion": np.cos(angle / 2) / 2,
        "orthogonality": np.cos(angle) * np.sin(angle) / np.sqrt(1 + np.cos(angle) ** 2),
        "frobenius": 4 * np.cos(angle) * np.sin(angle),
    }[name]
    found = gradient_norms(directions(2, 2), np.array([np.tan(angle / 2)]))
    assert found.angles[0] == pytest.approx(angle)
    assert found.norms[name][0] == pytest.approx(np.sqrt(2) * slope, rel=1e-5)


def test_crowding_keeps_rows_unit_and_ends_at_the_features():
    text = directions(6, 40)
    torch.testing.assert_close(contract(text, 1.0), text)
    torch.testing.assert_close(contract(text, 0.1).norm(dim=-1), torch.ones(6).double())
    assert mean_angle(contract(text, 0.1)) < mean_angle(text)


# --- class features -----------------------------------------------------------------------------


def test_prompts_far_apart_stay_apart_in_the_plane():
    random = np.random.default_rng(0)
    middles = {"one": np.eye(16)[0], "two": np.eye(16)[1]}
    features = {name: m + 0.05 * random.normal(size=(25, 16)) for name, m in middles.items()}
    flat = embed_prompts(features)
    assert {name: rows.shape for name, rows in flat.items()} == {"one": (25, 2), "two": (25, 2)}
    one, two = flat["one"], flat["two"]
    spread = max(np.linalg.norm(rows - rows.mean(0), axis=1).max() for rows in (one, two))
    assert np.linalg.norm(one.mean(0) - two.mean(0)) > spread
    np.testing.assert_array_equal(embed_prompts(features)["one"], one)


def test_few_classes_are_embedded_or_refused():
    rows = np.eye(4)
    assert embed_prompts({"a": rows[:2], "b": rows[2:]})["b"].shape == (2, 2)
    with pytest.raises(DataError, match="2 class features make no picture"):
        embed_prompts({"a": rows[:2]})


# --- prompts ------------------------------------------------------------------------------------


def prompts(count: int, accuracy: float, slope: float, noise: float, seed: int = 0):
    random = np.random.default_rng(seed)
    angle = random.uniform(0.4, 0.7, count)
    ece = 0.3 + slope * angle + noise * random.normal(size=count)
    near = accuracy + random.uniform(0, 0.005, count)
    return [
        PromptPoint(f"{accuracy} {i} {{}}.", *map(float, row))
        for i, row in enumerate(zip(near, ece, angle, strict=True))
    ]


def values(points) -> tuple[list[float], list[float]]:
    return [p.angle for p in points], [p.ece for p in points]


def test_groups_hold_every_prompt_once_and_are_no_wider_than_asked():
    points = prompts(12, 0.60, -0.3, 0.01) + prompts(9, 0.63, -0.3, 0.01) + prompts(3, 0.70, 0, 1)
    groups = group_by_accuracy(points[::-1])
    assert [len(g.points) for g in groups] == [3, 9, 12]
    assert sorted(p.template for g in groups for p in g.points) == sorted(
        p.template for p in points
    )
    for group in groups:
        low, high = group.accuracy
        assert high - low <= 0.01
    assert [g.correlation is None for g in groups] == [True, False, False]


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_correlations_are_those_of_scipy(noise):
    points = prompts(20, 0.6, -0.3, noise)
    found = correlate([points])
    assert found.prompts == 20
    assert found.pearson.value == pytest.approx(stats.pearsonr(*values(points)).statistic)
    assert found.spearman.value == pytest.approx(stats.spearmanr(*values(points)).statistic)
    for interval in (found.pearson, found.spearman):
        assert interval.low <= interval.value <= interval.high


def test_ties_share_their_rank():
    points = [PromptPoint(str(i), 0.6, e, a) for i, (a, e) in enumerate([(1, 2), (1, 1), (3, 1)])]
    expected = stats.spearmanr(*values(points)).statistic
    assert correlate([points]).spearman.value == pytest.approx(expected)


def test_what_all_prompts_show_may_be_gone_among_equals():
    groups = [prompts(30, 0.5 + 0.05 * i, 0.0, 0.002, seed=i) for i in range(4)]
    moved = [
        [PromptPoint(p.template, p.accuracy, p.ece - 0.1 * i, p.angle + 0.3 * i) for p in group]
        for i, group in enumerate(groups)
    ]
    everything = [p for group in moved for p in group]
    assert stats.pearsonr(*values(everything)).statistic < -0.9
    within = pooled(group_by_accuracy(everything))
    assert within.prompts == 120
    assert within.pearson.low < 0 < within.pearson.high


def test_one_slope_within_every_group_is_found_when_pooled():
    groups = [prompts(15, 0.5 + 0.05 * i, -0.3, 0.02, seed=i) for i in range(4)]
    found = pooled(group_by_accuracy([p for group in groups for p in group]))
    for interval in (found.pearson, found.spearman):
        assert interval.high < -0.5


def test_intervals_cover_what_is_true():
    covered = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows = random.multivariate_normal([0, 0], [[1, -0.6], [-0.6, 1]], 25)
        points = [PromptPoint(str(i), 0.6, float(e), float(a)) for i, (a, e) in enumerate(rows)]
        interval = correlate([points], resamples=400).pearson
        covered += interval.low < -0.6 < interval.high
    assert covered >= 50  # of 60; 95 % would be 57


def test_a_flat_group_has_no_correlation_but_no_warning():
    points = [PromptPoint(str(i), 0.6, 0.1, 0.5 + i / 100) for i in range(6)]
    found = correlate([points]).pearson
    assert np.isnan(found.value)
    assert (found.low, found.high) == (-1, 1)


def test_no_group_large_enough_gives_no_number():
    assert pooled(group_by_accuracy(prompts(4, 0.6, 0, 1))) is None
    assert pooled([Group((), None)]) is None
