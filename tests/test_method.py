"""Methods are values; the published ones are a table."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tammes import METHODS, Method, select_methods
from tammes.errors import TammesError, UnknownName
from tammes.objectives import entropy, mean_entropy, most_confident


def test_the_table():
    assert list(METHODS) == [
        *("zero-shot", "tpt", "c-tpt", "o-tpt", "a-tpt"),
        *("c-tpt+a-tpt", "a-tpt-released", "static-a-tpt"),
    ]
    assert not METHODS["zero-shot"].tunes
    assert not METHODS["static-a-tpt"].looks_at_views
    assert METHODS["a-tpt"].looks_at_views
    weights = {name: [weight for weight, _ in m.terms] for name, m in METHODS.items()}
    assert weights["c-tpt+a-tpt"] == [50, 80]
    assert weights["a-tpt-released"] == [-80]


def test_presets_change_weights_only():
    shift = select_methods("all", preset="shift")
    assert [w for w, _ in shift["o-tpt"].terms] == [2]
    assert [w for w, _ in shift["c-tpt+a-tpt"].terms] == [20, 10]
    assert list(shift) == list(METHODS)
    assert select_methods("tpt, a-tpt", temperature=1.2)["a-tpt"].temperature == 1.2


@pytest.mark.parametrize("bad", [{"steps": -1}, {"keep": 0}, {"keep": 1.5}, {"temperature": 0}])
def test_impossible_methods_are_refused(bad):
    with pytest.raises(TammesError, match="needs steps"):
        Method(**bad)


def test_unknown_names_come_with_a_suggestion():
    with pytest.raises(UnknownName, match=r"no method 'a-ptt'\. Did you mean 'a-tpt'"):
        select_methods("a-ptt")
    with pytest.raises(UnknownName, match="Known: fine-grained, shift"):
        select_methods("tpt", preset="shfit")


@given(st.integers(1, 70), st.floats(0.01, 1))
def test_the_kept_views_are_the_surest(views, keep):
    logits = 5 * torch.randn(views, 9, generator=torch.manual_seed(views))
    kept = most_confident(logits, keep)
    values = entropy(logits)
    assert len(kept) == max(1, int(views * keep))
    assert values[kept].max() <= values.sort().values[len(kept) - 1]
    assert values[kept].tolist() == sorted(values[kept].tolist())


def test_six_of_sixty_four_views_are_kept():
    assert most_confident(torch.randn(64, 5), 0.1).shape == (6,)


def test_mean_entropy_is_the_entropy_of_the_mean():
    logits = torch.randn(6, 11, generator=torch.manual_seed(0))
    mean = logits.softmax(-1).mean(0)
    assert mean_entropy(logits) == pytest.approx(float(-(mean * mean.log()).sum()), abs=1e-6)
    assert mean_entropy(torch.zeros(3, 8)) == pytest.approx(math.log(8), abs=1e-6)
