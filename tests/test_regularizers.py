"""Every term of the catalog keeps the laws of a term."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from tammes.errors import TammesError, UnknownName
from tammes.regularizers import (
    REGULARIZERS,
    AngularDiversity,
    Dispersion,
    Orthogonality,
    mean_cosine,
    mean_nearest_angle,
    parse_term,
)

TERMS = [make() for make in REGULARIZERS.values()]


def unit(rows: torch.Tensor) -> torch.Tensor:
    return normalize(rows, dim=-1)


def crowded(classes: int, dim: int, seed: int = 0) -> torch.Tensor:
    return unit(torch.randn(classes, dim, generator=torch.manual_seed(seed)) + 3 / dim**0.5)


@pytest.mark.parametrize("term", TERMS, ids=repr)
@given(st.integers(3, 40), st.integers(16, 128), st.integers(0, 10**6))
def test_one_step_spreads_the_classes(term, classes, dim, seed):
    text = unit(torch.randn(classes, dim, generator=torch.manual_seed(seed)) + 3)
    text.requires_grad_()
    term(text).backward()
    moved = unit((text - 0.01 * text.grad / text.grad.norm()).detach())
    assert mean_nearest_angle(moved) > mean_nearest_angle(text.detach())


@pytest.mark.parametrize("term", TERMS, ids=repr)
def test_a_batch_is_its_members(term):
    batch = torch.stack([crowded(7, 16, seed) for seed in range(4)])
    torch.testing.assert_close(term(batch), torch.stack([term(one) for one in batch]))


@pytest.mark.parametrize("term", TERMS, ids=repr)
@given(st.permutations(range(6)))
def test_the_order_of_classes_does_not_matter(term, order):
    text = crowded(6, 12)
    torch.testing.assert_close(term(text[order]), term(text), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("term", TERMS[1:], ids=repr)  # angles are fp32 by contract: see below
def test_gradients_are_right(term):
    text = crowded(5, 8).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: term(unit(t)), (text,))


def test_the_angle_gradient_is_that_of_arccos():
    text = crowded(5, 8).requires_grad_()
    (ours,) = torch.autograd.grad(AngularDiversity()(text), text)
    cosine = (text @ text.T) - 2 * torch.eye(5)
    (plain,) = torch.autograd.grad(-cosine.max(dim=1).values.acos().mean(), text)
    torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("term", TERMS, ids=repr)
@pytest.mark.parametrize("rows", [[0], [0, 0], [0, 0, 1], [0, 1]])
def test_lonely_and_repeated_classes_have_finite_gradients(term, rows):
    text = crowded(2, 8)[rows].requires_grad_()
    same = torch.tensor(rows)[:, None] == torch.tensor(rows)[None]
    (slope,) = torch.autograd.grad(term(text, same), text)
    assert slope.isfinite().all()


def test_copies_of_a_class_are_not_its_neighbors():
    text = crowded(3, 8)
    rows = [0, 1, 2, 2]
    same = torch.tensor(rows)[:, None] == torch.tensor(rows)[None]
    angle = mean_nearest_angle(text[rows], same)
    nearest = [min(float((text[i] @ text[j]).acos()) for j in range(3) if j != i) for i in rows]
    assert angle == pytest.approx(sum(nearest) / 4, abs=1e-5)
    assert mean_nearest_angle(text[[0]]) == 0


@given(st.integers(2, 30), st.integers(4, 64), st.integers(0, 10**6))
def test_the_mean_cosine_is_that_of_the_pairs(classes, dim, seed):
    text = crowded(classes, dim, seed)
    pairs = (text @ text.T)[~torch.eye(classes, dtype=torch.bool)]
    torch.testing.assert_close(mean_cosine(text), pairs.mean(), atol=1e-5, rtol=0)


def test_copies_of_a_class_are_no_pair():
    text, rows = crowded(3, 8), [0, 1, 2, 2]
    same = torch.tensor(rows)[:, None] == torch.tensor(rows)[None]
    pairs = (text[rows] @ text[rows].T)[~same]
    torch.testing.assert_close(mean_cosine(text[rows], same), pairs.mean())
    assert mean_cosine(text[[2, 2]], same[2:, 2:]) == 0


def test_angles_stay_fp32_under_autocast():
    text = torch.eye(4)[[0, 0, 1, 2]] * 1.0
    text[1, 1] = 1e-3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        angle = mean_nearest_angle(unit(text))
    assert angle.dtype == torch.float32
    torch.testing.assert_close(angle, mean_nearest_angle(unit(text)))


def test_orthogonality_is_the_householder_loss():
    text = crowded(6, 8).double()
    gram = text @ text.T
    losses = []
    for i in range(6):  # the released form: reflect row i onto its axis, measure what is left
        axis = torch.eye(6, dtype=torch.double)[i]
        v = gram[i] - gram[i].norm() * axis
        v = v / v.norm()
        reflected = gram[i] - 2 * v * (v @ gram[i])
        losses.append((reflected - axis).norm())
    torch.testing.assert_close(Orthogonality()(text), torch.stack(losses).mean())


def test_terms_on_the_command_line():
    assert parse_term("angular:80") == (80.0, AngularDiversity())
    assert parse_term("angular(tau=0.999):-40") == (-40.0, AngularDiversity(tau=0.999))
    assert parse_term("dispersion():2.5") == (2.5, Dispersion())


@pytest.mark.parametrize(
    "text", ["angular", "angular(tau=0.999:40", "angular(rho=1):4", "angular:x", "angular(tau):1"]
)
def test_unreadable_terms_say_how_to_write_one(text):
    with pytest.raises(TammesError, match="cannot read the term"):
        parse_term(text)


def test_unknown_terms_name_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'angular'"):
        parse_term("angulr:3")
