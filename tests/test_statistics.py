"""Intervals that cover, differences that are real, resamples that are resamples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tammes.calibration import METRICS, Outcomes, ece, measure
from tammes.errors import DataError
from tammes.statistics import (
    Interval,
    bootstrap,
    calibrated_ece,
    paired_difference,
    paired_differences,
    resample,
    resample_weights,
    told_apart,
)


def predictor(random: np.random.Generator, images: int, overconfidence: float) -> Outcomes:
    """A two-class predictor whose true ECE is the overconfidence."""
    chance = random.beta(4, 1.5, images) * 0.8
    happened = (random.random(images) < chance).astype(int)
    return Outcomes(np.ones(images, int), happened, chance + overconfidence)


def five_classes(seed: int = 0, images: int = 200, sharpness: float = 1.0) -> Outcomes:
    """A five-class predictor; equal seeds see equal images."""
    random = np.random.default_rng(seed)
    labels = random.integers(5, size=images)
    logits = random.normal(size=(images, 5)) + 1.5 * np.eye(5)[labels]
    probs = np.exp(sharpness * logits)
    return Outcomes.from_probs(
        probs / probs.sum(1, keepdims=True), labels, random.uniform(0.4, 0.6, images)
    )


@given(st.integers(1, 50), st.integers(1, 40), st.integers(0, 99))
def test_a_resample_has_as_many_images(images, resamples, seed):
    drawn = np.concatenate(list(resample_weights(images, resamples, seed)))
    assert drawn.shape == (resamples, images)
    assert (drawn.sum(axis=1) == images).all()


def test_small_blocks_draw_like_one(monkeypatch):
    whole = resample(five_classes(), resamples=50)
    monkeypatch.setattr("tammes.statistics.CHUNK", 1500)  # seven resamples at a time
    for name, draws in resample(five_classes(), resamples=50).items():
        np.testing.assert_allclose(draws, whole[name], atol=1e-12)


def test_weights_are_multinomial():
    drawn = np.concatenate(list(resample_weights(40, 20_000, seed=1)))
    assert drawn.mean() == 1
    assert drawn.var() == pytest.approx(1 - 1 / 40, rel=0.01)
    assert np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1] == pytest.approx(-1 / 39, abs=0.02)


def test_every_metric_gets_an_interval_within_its_bounds():
    outcomes = five_classes()
    found = bootstrap(outcomes, resamples=200)
    assert {name: i.value for name, i in found.items()} == measure(outcomes)
    for name, interval in found.items():
        low, high = METRICS[name].bounds
        assert low <= interval.low < interval.high <= high
    assert bootstrap(outcomes, ["ece"], resamples=200)["ece"] == found["ece"]


def test_a_seed_settles_the_interval():
    first, again, other = (
        bootstrap(five_classes(), ["accuracy"], 200, seed=s)["accuracy"] for s in (3, 3, 4)
    )
    assert first == again != other


def test_a_higher_level_is_wider_and_more_images_are_narrower():
    def width(level, images):
        found = bootstrap(five_classes(images=images), ["brier"], 400, level)["brier"]
        return found.high - found.low

    assert width(0.5, 400) < width(0.9, 400) < width(0.99, 400)
    assert width(0.95, 1600) == pytest.approx(width(0.95, 400) / 2, rel=0.2)


def coverage(name: str, truth: float, images: int, overconfidence: float) -> float:
    random, trials = np.random.default_rng(0), 200
    found = [
        bootstrap(predictor(random, images, overconfidence), [name], 200, seed=trial)[name]
        for trial in range(trials)
    ]
    return sum(i.low <= truth <= i.high for i in found) / trials


def test_the_interval_of_accuracy_covers_the_truth():
    assert coverage("accuracy", 0.8 * 4 / 5.5, 300, 0.0) == pytest.approx(0.95, abs=0.04)


def test_the_interval_of_ece_covers_the_truth_of_an_overconfident_predictor():
    assert coverage("ece", 0.1, 300, 0.1) > 0.80  # 86 % in 600 longer trials: not 95, but not 0


def test_percentiles_would_not():
    """Why the interval is the basic one: resamples of a biased estimator are biased once more."""
    outcomes = predictor(np.random.default_rng(0), 300, 0.0)
    assert ece(outcomes) < np.quantile(resample(outcomes, ["ece"])["ece"], 0.15)


def test_noise_alone_explains_the_ece_of_the_calibrated_only():
    random = np.random.default_rng(0)
    honest = [predictor(random, 300, 0.0) for _ in range(60)]
    inside = [(i := calibrated_ece(o, 100)).low <= ece(o) <= i.high for o in honest]
    assert np.mean(inside) > 0.85
    proud = predictor(random, 300, 0.15)
    assert ece(proud) > calibrated_ece(proud, 100).high


def test_a_difference_of_nothing_is_zero():
    outcomes = five_classes()
    for interval in paired_differences(outcomes, outcomes, resamples=50).values():
        assert interval == Interval(0.0, 0.0, 0.0)
        assert not told_apart(interval)


def test_pairing_sees_what_two_intervals_hide():
    sharp, soft = five_classes(sharpness=1.3), five_classes(sharpness=1.0)
    alone = bootstrap(sharp, ["brier"])["brier"], bootstrap(soft, ["brier"])["brier"]
    assert alone[0].low < alone[1].value < alone[0].high
    paired = paired_difference(sharp, soft, "mean_confidence")
    assert told_apart(paired)
    assert paired.value == pytest.approx(sharp.confidence.mean() - soft.confidence.mean())
    assert paired.high - paired.low < 0.5 * (alone[0].high - alone[0].low)


def test_swapping_the_methods_flips_the_sign():
    a, b = five_classes(sharpness=1.5), five_classes()
    one, other = paired_difference(a, b, "ece"), paired_difference(b, a, "ece")
    np.testing.assert_allclose(
        [one.value, one.low, one.high], [-other.value, -other.high, -other.low], atol=1e-12
    )


def test_equal_methods_are_rarely_told_apart():
    random, alarms = np.random.default_rng(0), 0
    for trial in range(100):
        base, chance = random.normal(1, 1, 300), random.random(300)
        a, b = (
            Outcomes(np.ones(300, int), (chance < p).astype(int), p)
            for p in (1 / (1 + np.exp(-base - random.normal(0, 0.4, 300))) for _ in "ab")
        )
        alarms += told_apart(paired_difference(a, b, "ece", 200, seed=trial))
    assert alarms <= 15


def test_different_images_cannot_be_paired():
    with pytest.raises(DataError, match="same images"):
        paired_difference(five_classes(0), five_classes(1), "ece")


def test_a_difference_without_its_data_says_what_is_missing():
    top_only = predictor(np.random.default_rng(0), 50, 0.0)
    with pytest.raises(DataError, match="sce needs probs"):
        paired_difference(top_only, top_only, "sce")


def test_an_interval_prints_in_any_format():
    interval = Interval(0.1234, 0.1, 0.15)
    assert str(interval) == "0.1234 [0.1, 0.15]"
    assert f"{interval:.1%}" == "12.3% [10.0%, 15.0%]"
