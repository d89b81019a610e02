"""The Python front: scikit-learn's conventions, any kind of image, the specification's answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch.nn.functional import normalize

from tammes import METHODS, Backbone, Method, Prompt, tune
from tammes.classifier import ZeroShotClassifier, build_prompt
from tammes.errors import DataError, ImageError, PromptError, TammesError, UnknownName
from tammes.images import content_id
from tammes.views import ViewSettings, views_of

NAMES = ["tabby cat", "dog", "sea_bird"]


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    """Five pictures of different sizes."""
    noise = np.random.default_rng(0)
    shapes = [(40 + 7 * i, 60 - 5 * i, 3) for i in range(5)]
    return [Image.fromarray(noise.integers(0, 255, s, dtype=np.uint8)) for s in shapes]


@pytest.fixture
def paths(pictures: list[Image.Image], tmp_path: Path) -> list[str]:
    """The pictures as files."""
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / f"{number}.png")
    return [str(tmp_path / f"{number}.png") for number in range(len(pictures))]


@pytest.fixture(scope="module")
def classifier(tiny: Backbone) -> ZeroShotClassifier:
    """A-TPT on the tiny model, fitted."""
    return ZeroShotClassifier(tiny, views=8).fit(NAMES)


def test_probabilities_are_those_of_the_specification(
    classifier: ZeroShotClassifier, tiny: Backbone, pictures: Sequence[Image.Image]
) -> None:
    prompt = Prompt.from_template(tiny, NAMES)
    for picture, probs in zip(pictures, classifier.predict_proba(pictures), strict=True):
        views = views_of(picture, content_id(picture), ViewSettings(8), tiny.preprocessing)
        features = normalize(tiny.encode_image(views), dim=-1)
        expected = tune(tiny, prompt, METHODS["a-tpt"], features).probs
        assert torch.allclose(torch.from_numpy(probs), expected, atol=1e-4)


def test_conventions_of_scikit_learn(tiny: Backbone) -> None:
    made = ZeroShotClassifier(tiny, method=Method(steps=2), views=3, seed=7)
    assert made.get_params()["model"] is tiny
    copy = clone(made)
    assert copy.get_params() == made.get_params()
    assert copy.set_params(views=5).views == 5
    with pytest.raises(NotFittedError):
        copy.predict(["photo.jpg"])
    assert copy.fit(NAMES) is copy
    assert copy.classes_.tolist() == NAMES
    assert copy.fit(name for name in NAMES).classes_.tolist() == NAMES
    assert clone(copy).get_params() == copy.get_params()


def test_shapes_and_types(classifier: ZeroShotClassifier, pictures: list[Image.Image]) -> None:
    probs = classifier.predict_proba(pictures)
    assert probs.shape == (5, 3)
    assert probs.dtype == np.float32
    assert np.allclose(probs.sum(axis=1), 1, atol=1e-5)
    assert classifier.predict(pictures).tolist() == [NAMES[i] for i in probs.argmax(axis=1)]
    assert classifier.predict_proba([]).shape == (0, 3)
    assert classifier.predict([]).shape == (0,)


def test_answers_say_how_sure_they_are(
    classifier: ZeroShotClassifier, pictures: list[Image.Image]
) -> None:
    probs = classifier.predict_proba(pictures)
    for answer, row in zip(classifier.answers(pictures), probs, strict=True):
        assert answer.error is None
        assert answer.confidence == row.max()
        assert answer.prediction == NAMES[row.argmax()]
        assert 0 < answer.angle < np.pi


@given(order=st.permutations(range(5)), batch=st.integers(1, 64), workers=st.integers(1, 3))
def test_neither_order_nor_batch_changes_an_answer(
    classifier: ZeroShotClassifier,
    pictures: list[Image.Image],
    order: list[int],
    batch: int,
    workers: int,
) -> None:
    other = clone(classifier).set_params(batch_size=batch, workers=workers).fit(NAMES)
    shuffled = other.predict_proba([pictures[i] for i in order])
    assert np.allclose(shuffled, classifier.predict_proba(pictures)[order], atol=1e-4)


def test_an_image_is_what_it_shows_not_what_it_is_called(
    classifier: ZeroShotClassifier, paths: list[str], tmp_path: Path
) -> None:
    (tmp_path / "other.png").write_bytes(Path(paths[0]).read_bytes())
    one, other = classifier.predict_proba([paths[0], tmp_path / "other.png"])
    assert np.allclose(one, other, atol=1e-6)


def test_every_kind_of_image(
    classifier: ZeroShotClassifier, pictures: list[Image.Image], paths: list[str]
) -> None:
    array = np.asarray(pictures[0])
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    mixed = [pictures[0], array, tensor, array / 255.0]
    rows = classifier.predict_proba(mixed)
    assert np.allclose(rows, rows[0], atol=1e-5)
    files = classifier.predict_proba([paths[0], Path(paths[0]), Path(paths[0]).read_bytes()])
    assert np.allclose(files, files[0], atol=1e-5)


def test_a_single_image_is_a_list_of_one(
    classifier: ZeroShotClassifier, pictures: list[Image.Image], paths: list[str]
) -> None:
    array = np.asarray(pictures[0])
    for single in (paths[0], Path(paths[0]), pictures[0], array, torch.from_numpy(array.copy())):
        assert classifier.predict_proba(single).shape == (1, 3)


def test_batches_are_taken_apart(classifier: ZeroShotClassifier, paths: list[str]) -> None:
    stack = np.random.default_rng(1).integers(0, 255, (4, 20, 30, 3), dtype=np.uint8)
    assert classifier.predict_proba(stack).shape == (4, 3)
    assert classifier.predict_proba(torch.from_numpy(stack).permute(0, 3, 1, 2)).shape == (4, 3)
    assert classifier.predict_proba(np.array(paths)).shape == (5, 3)
    assert classifier.predict_proba(path for path in paths).shape == (5, 3)


def test_seeds_and_augmix_draw_other_views(
    classifier: ZeroShotClassifier, pictures: list[Image.Image]
) -> None:
    plain = classifier.predict_proba(pictures)
    for change in ({"seed": 1}, {"augmix": True}):
        other = clone(classifier).set_params(**change).fit(NAMES).predict_proba(pictures)
        assert not np.allclose(other, plain, atol=1e-6)


@pytest.mark.parametrize("method", ["zero-shot", "static-a-tpt"])
def test_views_that_nobody_looks_at_are_not_made(
    tiny: Backbone, pictures: list[Image.Image], method: str
) -> None:
    many, one = (ZeroShotClassifier(tiny, method, views=v).fit(NAMES) for v in (64, 1))
    assert many.views_.count == 1
    assert np.allclose(many.predict_proba(pictures), one.predict_proba(pictures), atol=1e-6)


def test_one_class_is_certain(tiny: Backbone, pictures: list[Image.Image]) -> None:
    alone = ZeroShotClassifier(tiny, views=4).fit(["cat"])
    assert alone.predict_proba(pictures).tolist() == [[1.0]] * 5


def test_temperature_divides_the_logits(tiny: Backbone, pictures: list[Image.Image]) -> None:
    cold = ZeroShotClassifier(tiny, "zero-shot").fit(NAMES).predict_proba(pictures)
    warm = ZeroShotClassifier(tiny, Method(steps=0, temperature=2.0), temperature=5.0).fit(NAMES)
    expected = torch.from_numpy(cold).log().div(10).softmax(dim=-1)
    assert torch.allclose(torch.from_numpy(warm.predict_proba(pictures)), expected, atol=1e-5)


def test_presets_weigh_the_terms(tiny: Backbone) -> None:
    shift = ZeroShotClassifier(tiny, "a-tpt", preset="shift").fit(NAMES)
    assert [weight for weight, _ in shift.method_.terms] == [10.0]


def test_the_bar_is_for_people(
    classifier: ZeroShotClassifier,
    pictures: list[Image.Image],
    capsys: pytest.CaptureFixture[str],
) -> None:
    classifier.predict(pictures)
    assert capsys.readouterr() == ("", "")  # no terminal, nobody to look
    clone(classifier).set_params(progress=True).fit(NAMES).predict(pictures)
    out, err = capsys.readouterr()
    assert out == ""
    assert "classify" in err
    assert "5/5" in err


# --- images that cannot be read -----------------------------------------------------------------


def test_a_bad_image_raises_its_name(classifier: ZeroShotClassifier, paths: list[str]) -> None:
    with pytest.raises(ImageError, match=r"gone\.jpg: no such file"):
        classifier.predict_proba([paths[0], "gone.jpg"])


def test_a_bad_image_is_nan_on_request(
    classifier: ZeroShotClassifier, paths: list[str], tmp_path: Path
) -> None:
    (tmp_path / "cut.png").write_bytes(Path(paths[0]).read_bytes()[:200])
    patient = clone(classifier).set_params(on_error="nan").fit(NAMES)
    batch = ["gone.jpg", paths[0], tmp_path / "cut.png", paths[1]]
    probs = patient.predict_proba(batch)
    assert np.isnan(probs).all(axis=1).tolist() == [True, False, True, False]
    names = patient.predict(batch)
    assert [name is None for name in names] == [True, False, True, False]
    right = ["dog", names[1], "dog", names[3]]
    assert patient.score(batch, right) == 1.0
    errors = [answer.error for answer in patient.answers(batch)]
    assert "no such file" in str(errors[0])
    assert "cut.png" in str(errors[2])
    assert errors[1] is errors[3] is None


def test_nothing_but_bad_images(classifier: ZeroShotClassifier) -> None:
    patient = clone(classifier).set_params(on_error="nan").fit(NAMES)
    assert np.isnan(patient.predict_proba(["gone.jpg"])).all()
    with pytest.raises(DataError, match="no image to score"):
        patient.score(["gone.jpg"], ["dog"])


@pytest.mark.parametrize("odd", [3, None])
def test_what_is_no_image_at_all(classifier: ZeroShotClassifier, odd: object) -> None:
    with pytest.raises(ImageError, match="paths"):
        classifier.predict_proba(odd)  # type: ignore[arg-type]


# --- labels -------------------------------------------------------------------------------------


def test_score_is_the_share_of_right_answers(
    classifier: ZeroShotClassifier, pictures: list[Image.Image]
) -> None:
    labels = classifier.predict(pictures).tolist()
    assert classifier.score(pictures, labels) == 1.0
    labels[0] = next(name for name in NAMES if name != labels[0])
    assert classifier.score(pictures, labels) == pytest.approx(0.8)
    assert classifier.score(pictures, labels, sample_weight=[4, 1, 1, 1, 1]) == pytest.approx(0.5)


def test_labels_must_be_known_and_as_many_as_images(
    classifier: ZeroShotClassifier, pictures: list[Image.Image]
) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'dog'"):
        classifier.score(pictures, ["dgo"] * 5)
    with pytest.raises(DataError, match="5 images, but 2 labels"):
        classifier.score(pictures, ["dog"] * 2)


def test_model_selection_of_scikit_learn(tiny: Backbone, pictures: list[Image.Image]) -> None:
    labels = ["dog", "cat", "dog", "cat", "cat"]
    plain = ZeroShotClassifier(tiny, "zero-shot")
    assert cross_val_score(plain, pictures, labels, cv=2, error_score="raise").shape == (2,)
    grid = {"temperature": [1.0, 50.0]}
    search = GridSearchCV(plain, grid, scoring="neg_log_loss", cv=2, error_score="raise")
    assert search.fit(pictures, labels).best_params_["temperature"] == 50.0  # noise: be unsure
    assert search.best_estimator_.classes_.tolist() == ["cat", "dog"]


def test_labels_to_fit_from_are_names(tiny: Backbone, pictures: list[Image.Image]) -> None:
    with pytest.raises(PromptError, match="1 is a int"):
        ZeroShotClassifier(tiny).fit(pictures, [1, 0, 1, 0, 0])  # type: ignore[list-item]


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["cat", "dog", "cat"], "'cat' comes 2 times"),
        (["sea bird", "sea_bird"], "'sea bird' comes 2 times"),
        (["cat", " "], r"positions \[1\]"),
        ([], "empty"),
        ("cat", "list of names"),
        (["cat", "x " * 90], "77 tokens"),
    ],
)
def test_class_names_that_are_refused(tiny: Backbone, names: list[str], message: str) -> None:
    with pytest.raises(PromptError, match=message):
        ZeroShotClassifier(tiny).fit(names)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "a-ptt"}, "Did you mean 'a-tpt'"),
        ({"method": "all"}, "no method 'all'"),
        ({"preset": "shft"}, "Did you mean 'shift'"),
        ({"template": "imagenet-81"}, "Did you mean 'imagenet-80'"),
        ({"template": "imagenet-80"}, "ensemble of 80"),
        ({"on_error": "ignore"}, "no on_error 'ignore'"),
        ({"temperature": 0}, "must be above 0"),
        ({"views": 0}, "count ≥ 1"),
        ({"model": "pockt"}, "Did you mean 'pocket'"),
    ],
)
def test_settings_that_are_refused(tiny: Backbone, settings: dict, message: str) -> None:
    with pytest.raises(TammesError, match=message):
        ZeroShotClassifier(**{"model": tiny, **settings}).fit(NAMES)


def test_templates_come_by_name_and_from_checkpoints(tiny: Backbone, tmp_path: Path) -> None:
    assert len(build_prompt(tiny, NAMES, "imagenet-80").others) == 79
    assert build_prompt(tiny, NAMES, ["a {}.", "the {}."]).template == "a {}. | the {}."
    context = torch.randn(3, tiny.width)
    torch.save({"state_dict": {"ctx": context}}, tmp_path / "coop.pt")
    prompt = build_prompt(tiny, NAMES, f"coop:{tmp_path / 'coop.pt'}")
    assert torch.equal(prompt.context, context)
