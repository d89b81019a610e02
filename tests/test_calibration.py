"""Calibration numbers: the published digits, an outside library, and laws."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from tammes.calibration import (
    METRICS,
    Outcomes,
    accuracy,
    adaptive_ece,
    aurc,
    bin_edges,
    bins,
    ece,
    fit_temperature,
    gap,
    match_confidence_temperature,
    measure,
    risk_coverage,
    sce,
)
from tammes.errors import DataError, UnknownName

GOLDEN = Path(__file__).parent / "golden"
ECE = json.loads((GOLDEN / "ece.json").read_text())["vectors"]
SCE = json.loads((GOLDEN / "sce.json").read_text())["vectors"]


def binary(confidence, correct) -> Outcomes:
    """Outcomes of which only confidence and correctness are known."""
    confidence = np.asarray(confidence)
    return Outcomes(np.ones(len(confidence), int), np.asarray(correct, int), confidence)


def random_outcomes(seed: int, images: int = 60, classes: int = 5, ties: bool = True) -> Outcomes:
    """Outcomes with everything; ties and exact zeros and ones as half precision makes them."""
    random = np.random.default_rng(seed)
    probs = softmax(random.normal(size=(images, classes)) * 4, axis=1)
    probs = probs.astype(np.float16 if ties else np.float32).astype(np.float32)
    if ties:
        probs[: images // 4] = np.eye(classes, dtype=np.float32)[
            random.integers(classes, size=images // 4)
        ]
    labels = np.where(
        random.random(images) < 0.6, probs.argmax(1), random.integers(classes, size=images)
    )
    return Outcomes.from_probs(probs, labels, random.uniform(0.3, 0.8, images))


seeds = st.integers(0, 10_000)


# --- parity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", ECE, ids=lambda v: v["name"])
def test_ece_and_its_bins_equal_the_published_code(vector):
    confidence, correct = np.array(vector["confidence"]), np.array(vector["correct"], bool)
    assert ece(binary(confidence, correct)) == pytest.approx(vector["ece"], abs=1e-9)
    found = bins(confidence, correct)
    assert found.count.tolist() == vector["bin_count"]
    np.testing.assert_allclose(found.accuracy, vector["bin_accuracy"], atol=1e-9)
    np.testing.assert_allclose(found.confidence, vector["bin_confidence"], atol=1e-9)


def test_ece_of_half_precision_confidences_equals_the_published_code():
    vector = next(v for v in ECE if "fp16" in v["name"])
    confidence = np.array(vector["confidence"], np.float16)
    assert ece(binary(confidence, vector["correct"])) == pytest.approx(vector["ece"], abs=1e-9)


@pytest.mark.parametrize("vector", SCE, ids=lambda v: f"N={v['N']} K={v['K']}")
def test_sce_equals_the_published_code(vector):
    probs = np.array(vector["probs"], np.float32)
    found = sce(Outcomes.from_probs(probs, np.array(vector["labels"])))
    assert found == pytest.approx(vector["sce"], abs=1e-9)


@pytest.mark.parametrize("count", [1, 2, 10, 15, 20, 100])
def test_bin_edges_are_those_of_torch(count):
    np.testing.assert_array_equal(bin_edges(count), torch.linspace(0, 1, count + 1).numpy())


def test_one_is_in_the_last_bin_and_zero_in_none():
    found = bins(np.array([0.0, 1.0, 1.0]), np.array([True, True, False]))
    assert found.count.sum() == found.count[-1] == 2
    assert ece(binary([0.0, 1.0, 1.0], [1, 1, 0])) == pytest.approx(1 / 3)


def test_more_classes_than_one_block_change_nothing():
    outcomes = random_outcomes(0, images=80, classes=230, ties=False)
    classes = [
        ece(binary(outcomes.probs[:, k], outcomes.labels == k))
        for k in range(outcomes.probs.shape[1])
    ]
    assert sce(outcomes) == pytest.approx(np.mean(classes), abs=1e-12)


# --- an outside library -------------------------------------------------------------------------


@given(seeds, st.integers(20, 400))
@settings(max_examples=25)
def test_ece_equals_netcal(seed, images):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing netcal warns about its own dependencies
        from netcal.metrics import ECE as NETCAL

    random = np.random.default_rng(seed)
    # netcal's bins are [low, high): the same for continuous confidences, which miss the edges.
    confidence, correct = random.uniform(0.01, 0.99, images), random.random(images) < 0.6
    expected = NETCAL(bins=20).measure(confidence, correct.astype(int))
    assert ece(binary(confidence, correct)) == pytest.approx(expected, abs=1e-6)


# --- every metric against a loop ------------------------------------------------------------------


def loop_ece(confidence, correct):
    total = 0.0
    for low, high in zip(bin_edges()[:-1], bin_edges()[1:], strict=True):
        inside = [
            (float(c), bool(r)) for c, r in zip(confidence, correct, strict=True) if low < c <= high
        ]
        total += abs(sum(r - c for c, r in inside))
    return total / len(confidence)


def loop_adaptive(outcomes):
    """Cut every image into 20 slices, so that 20 bins hold n slices each; pool ties first."""
    slices = []
    for c in np.unique(outcomes.confidence):
        pool = outcomes.correct[outcomes.confidence == c]
        slices += [pool.mean() - float(c)] * (20 * len(pool))
    n = len(outcomes)
    return sum(abs(sum(slices[b * n : (b + 1) * n])) for b in range(20)) / (20 * n)


def loop_aurc(outcomes):
    """Average over many random orders of ties would converge to this: pools share their errors."""
    errors = []
    for c in np.unique(outcomes.confidence)[::-1]:
        pool = ~outcomes.correct[outcomes.confidence == c]
        errors += [pool.mean()] * len(pool)
    return np.mean([sum(errors[: j + 1]) / (j + 1) for j in range(len(errors))])


LOOPS = {
    "accuracy": lambda o: np.mean([p == t for p, t in zip(o.predictions, o.labels, strict=True)]),
    "mean_confidence": lambda o: np.mean([float(c) for c in o.confidence]),
    "gap": lambda o: np.mean([float(c) for c in o.confidence]) - np.mean(o.correct),
    "ece": lambda o: loop_ece(o.confidence, o.correct),
    "adaptive_ece": loop_adaptive,
    "sce": lambda o: np.mean([loop_ece(p, o.labels == k) for k, p in enumerate(o.probs.T)]),
    "brier": lambda o: np.mean(
        [
            ((np.eye(o.probs.shape[1])[t] - p) ** 2).sum()
            for p, t in zip(o.probs, o.labels, strict=True)
        ]
    ),
    "nll": lambda o: np.mean(
        [
            -np.log(max(float(p[t]), np.finfo(np.float32).tiny))
            for p, t in zip(o.probs, o.labels, strict=True)
        ]
    ),
    "aurc": loop_aurc,
    "angle": lambda o: np.mean([float(a) for a in o.angle]),
}


@pytest.mark.parametrize("ties", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("name", METRICS)
def test_metric_equals_its_loop(name, ties):
    outcomes = random_outcomes(3, ties=ties)
    assert METRICS[name].function(outcomes) == pytest.approx(LOOPS[name](outcomes), abs=1e-6)


@pytest.mark.parametrize("name", METRICS)
@given(seed=seeds)
@settings(max_examples=15)
def test_weights_are_repeats(name, seed):
    outcomes, random = random_outcomes(seed), np.random.default_rng(seed)
    drawn = random.integers(len(outcomes), size=(3, len(outcomes)))
    weights = np.stack([np.bincount(d, minlength=len(outcomes)) for d in drawn]).astype(float)
    metric = METRICS[name].function
    expected = [metric(outcomes.take(d)) for d in drawn]
    np.testing.assert_allclose(metric(outcomes, weights), expected, atol=1e-9)


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
@given(seed=seeds)
@settings(max_examples=15)
def test_the_order_of_images_does_not_matter_and_values_stay_in_bounds(name, seed):
    outcomes = random_outcomes(seed)
    shuffled = outcomes.take(np.random.default_rng(seed).permutation(len(outcomes)))
    value, (low, high) = METRICS[name].function(outcomes), METRICS[name].bounds
    assert METRICS[name].function(shuffled) == pytest.approx(value, abs=1e-12)
    assert low <= value <= high


@given(seeds)
@settings(max_examples=25)
def test_no_binning_hides_the_gap(seed):
    outcomes = random_outcomes(seed)
    for error in (ece, adaptive_ece):
        assert abs(gap(outcomes)) <= error(outcomes) + 1e-6


def test_the_calibrated_is_told_from_the_overconfident():
    random = np.random.default_rng(0)
    truth = random.beta(4, 2, 50_000)
    happened = random.random(len(truth)) < truth
    honest, proud = binary(truth, happened), binary(np.minimum(1, truth + 0.1), happened)
    for error in (ece, adaptive_ece):
        assert error(honest) < 0.01
        assert error(proud) == pytest.approx(0.1, abs=0.01)
    assert gap(proud) == pytest.approx(0.1, abs=0.01)


def test_aurc_rewards_confidence_that_ranks():
    good = binary([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 0])
    bad = binary([0.9, 0.8, 0.7, 0.6], [0, 0, 1, 1])
    assert aurc(good) == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    assert aurc(bad) == pytest.approx((1 + 1 + 2 / 3 + 2 / 4) / 4)


def test_aurc_is_the_mean_over_random_orders_of_ties():
    outcomes = binary([0.9, 0.5, 0.5, 0.5, 0.2], [1, 0, 1, 1, 0])
    random, orders = np.random.default_rng(0), []
    for _ in range(4000):
        order = np.lexsort((random.random(5), -outcomes.confidence))
        wrong = np.cumsum(~outcomes.correct[order])
        orders.append((wrong / np.arange(1, 6)).mean())
    assert aurc(outcomes) == pytest.approx(np.mean(orders), abs=0.005)


def test_risk_coverage_ends_at_the_error_rate():
    outcomes = random_outcomes(5)
    curve = risk_coverage(outcomes)
    assert (np.diff(curve.coverage) > 0).all()
    assert (np.diff(curve.threshold) < 0).all()
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(1 - accuracy(outcomes))
    half = outcomes.confidence >= curve.threshold[3]
    assert curve.coverage[3] == pytest.approx(half.mean())
    assert curve.risk[3] == pytest.approx(1 - outcomes.correct[half].mean())


# --- catalog and edges ----------------------------------------------------------------------------


def test_measure_leaves_out_what_it_cannot_know():
    whole, top = random_outcomes(0), binary([0.5, 0.7], [1, 0])
    assert list(measure(whole)) == list(METRICS)
    assert not {"sce", "brier", "nll", "angle"} & set(measure(top))
    assert measure(top, ["accuracy", "sce"]) == {"accuracy": 0.5}
    with pytest.raises(DataError, match="all classes"):
        sce(top)


def test_an_unknown_metric_is_named():
    with pytest.raises(UnknownName, match="adaptive_ece"):
        measure(random_outcomes(0), ["adaptiv_ece"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (([0, 1], [0], [0.5, 0.5]), "predictions has shape"),
        (([0, 1], [0, 1], [0.5]), "confidence has shape"),
        (([0, 1], [0, 1], [0.5, 1.5]), "runs from"),
        (([0, 1], [0, 1], [0.5, np.nan]), "runs from"),
        (([0, 1], [0, 1], [0.5, 0.5], [[0.5, 0.5]]), "probs has shape"),
        (([0, 1], [0, 1], [0.5, 0.5], [[7.0, -3.0], [1.0, 2.0]]), "probs runs from"),
        (([0, 2], [0, 1], [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]), "labels run from 0 to 2"),
        (([0, 1], [0, 1], [0.5, 0.5], None, [0.1]), "angle has shape"),
        (([], [], []), "no outcomes"),
    ],
)
def test_outcomes_that_do_not_fit_together_are_refused(fields, message):
    columns = [None if f is None else np.array(f) for f in fields]
    with pytest.raises(DataError, match=message):
        Outcomes(*columns)


def test_one_image_has_every_metric():
    one = Outcomes.from_probs(np.array([[0.25, 0.75]]), np.array([0]), np.array([0.5]))
    found = measure(one)
    assert found["ece"] == found["adaptive_ece"] == 0.75
    assert found["aurc"] == 1


# --- temperature ----------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", [0.02, 0.3, 1.0, 2.5, 40.0])
def test_a_planted_temperature_is_found(planted):
    random = np.random.default_rng(0)
    logits = random.normal(size=(20_000, 6)) * 3
    labels = (softmax(logits, axis=1).cumsum(1) > random.random((len(logits), 1))).argmax(1)
    assert fit_temperature(logits * planted, labels) == pytest.approx(planted, rel=0.03)


def test_the_fitted_temperature_is_a_minimum():
    random = np.random.default_rng(1)
    logits, labels = random.normal(size=(300, 4)), random.integers(4, size=300)
    logits[np.arange(300), labels] += 1

    def surprise(t):
        return -log_softmax(logits / t, axis=1)[np.arange(300), labels].mean()

    best = fit_temperature(logits, labels)
    assert surprise(best) <= min(surprise(best * 1.02), surprise(best / 1.02))


@given(seeds, st.floats(0.3, 0.95))
@settings(max_examples=25)
def test_a_temperature_matches_the_mean_confidence(seed, target):
    logits = np.random.default_rng(seed).normal(size=(50, 5))
    temperature = match_confidence_temperature(logits, target)
    reached = softmax(logits / temperature, axis=1).max(axis=1).mean()
    assert reached == pytest.approx(target, abs=1e-6)


def test_a_temperature_needs_a_label_for_every_image():
    with pytest.raises(DataError, match="labels has shape"):
        fit_temperature(np.zeros((3, 2)), np.array([0, 1]))


def test_a_confidence_below_chance_is_out_of_reach():
    with pytest.raises(DataError, match=r"these logits reach 0\.2"):
        match_confidence_temperature(np.random.default_rng(0).normal(size=(50, 5)), 0.1)
