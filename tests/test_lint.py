"""Class names that will trouble a model."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tammes import Backbone, Prompt
from tammes.errors import PromptError
from tammes.lint import CLOSE, Finding, lint
from tammes.tuner import class_features

CLEAN = ["zebra", "violin", "harbor", "cactus", "sunset"]


def find(backbone: Backbone, names: list[str], kind: str) -> list[Finding]:
    """Lint, and keep one kind."""
    return [finding for finding in lint(backbone, names) if finding.kind == kind]


def test_distinct_short_names_pass(tiny: Backbone) -> None:
    assert lint(tiny, CLEAN) == []


@pytest.mark.parametrize("names", [["zebra"], ["zebra", "violin"]])
def test_few_names_have_no_usual_angle(tiny: Backbone, names: list[str]) -> None:
    assert lint(tiny, names) == []


def test_empty_names_are_located(tiny: Backbone) -> None:
    (finding,) = lint(tiny, ["", "zebra", " ", "violin", "_"])
    assert finding.kind == "empty"
    assert "position 0, 2, 4" in finding.what


def test_repeated_names_are_counted_once(tiny: Backbone) -> None:
    (finding,) = lint(tiny, ["grand_piano", *CLEAN, "grand piano", "grand piano "])
    assert (finding.kind, finding.names) == ("duplicate", ("grand piano",))
    assert "3 times" in finding.what


def test_names_that_do_not_fit_are_left_out_of_the_rest(tiny: Backbone) -> None:
    long = " ".join(["very"] * 80)
    (finding,) = lint(tiny, [*CLEAN, long])
    assert (finding.kind, finding.names) == ("overflow", (long,))
    assert "77 tokens" in finding.what


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (["cat", "Cat"], True),
        (["sea bird", "sea-bird"], True),
        (["cat", "cats"], True),
        (["bus", "buses"], True),
        (["rose", "roses"], True),
        (["berry", "berries"], True),
        (["sea bird", "Sea Birds"], True),
        (["pin", "pine"], False),
        (["glas", "glass"], True),  # a plural as far as spelling goes
        (["bus", "bush"], False),
        (["bird sea", "sea bird"], False),
    ],
)
def test_spellings_of_one_name(tiny: Backbone, names: list[str], alike: bool) -> None:
    found = [finding.names for finding in find(tiny, names, "variant")]
    assert found == ([tuple(names)] if alike else [])


def test_names_are_too_close_by_the_measure_of_the_list(tiny: Backbone) -> None:
    near = ["boeing 737-300", "boeing 737-400"]
    found = find(tiny, [*near, "zebra", "violin", "harbor", "sunset"], "close")
    assert [finding.names for finding in found] == [tuple(near)]
    assert find(tiny, near, "close") == []  # nothing to compare with


def test_close_means_what_it_says(tiny: Backbone) -> None:
    names = [f"boeing 7{tens}7-{variant}00" for tens in range(4) for variant in range(1, 6)]
    prompt = Prompt.from_template(tiny, names)
    text = class_features(tiny, prompt, prompt.context)
    angles = (text @ text.T).clamp(-1, 1).acos()
    apart = ~torch.eye(len(names), dtype=torch.bool)
    limit = CLOSE * angles[apart].median()
    named = {name for finding in find(tiny, names, "close") for name in finding.names}
    nearest = angles.masked_fill(~apart, 9).min(dim=1)
    below = {names[i] for i in range(len(names)) if nearest.values[i] < limit}
    partners = {names[j] for i, j in enumerate(nearest.indices.tolist()) if names[i] in below}
    assert below
    assert named == below | partners


@given(st.permutations(["cat", "Cat", "cats", "dog", "dog", "zebra", ""]))
def test_findings_do_not_depend_on_the_order(tiny: Backbone, names: list[str]) -> None:
    kinds = sorted(finding.kind for finding in lint(tiny, names) if finding.kind != "close")
    assert kinds == ["duplicate", "empty", "variant"]


def test_every_finding_says_what_to_do(tiny: Backbone) -> None:
    for finding in lint(tiny, ["cat", "cat", "Cat", "", "x " * 90]):
        assert finding.what
        assert finding.advice


def test_what_cannot_be_linted(tiny: Backbone) -> None:
    with pytest.raises(PromptError, match="empty"):
        lint(tiny, [])
    with pytest.raises(PromptError, match="exactly once"):
        lint(tiny, CLEAN, "a photo")
