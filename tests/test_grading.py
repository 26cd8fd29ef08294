r"""
The rules of grading, on written cases.

`fixtures/grading_cases.jsonl` holds one case a line: answers in many notations, wrong answers that look right, golds
that mean nothing, and hostile text. A long completion is a list of `[text, times]`. `convention` marks verdicts that
rest on a rule of `docs/grading.md` and not on mathematics. `fixtures/grading_variants.jsonl` holds golds with right
and wrong answers, by kind of difficulty; those of the kind `model_answers` were written by hand for golds of the data
set in `set`, as a model would. `fixtures/grading_golds.json` holds golds of public data sets in many notations.
"""

import json
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

from coda_trl.grading import GradingPool, final_answer, grade
from coda_trl.grading.guards import too_heavy
from coda_trl.grading.normalize import normalize
from coda_trl.grading.rules import NeedsAlgebra, NoAlgebra, judge, prepare

FIXTURES = Path(__file__).parent / "fixtures"
VARIANTS = [json.loads(line) for line in (FIXTURES / "grading_variants.jsonl").read_text().splitlines()]
CASES = [json.loads(line) for line in (FIXTURES / "grading_cases.jsonl").read_text().splitlines()]
GOLDS = json.loads((FIXTURES / "grading_golds.json").read_text())


def text_of(completion: str | list) -> str:
    return completion if isinstance(completion, str) else "".join(text * times for text, times in completion)


@pytest.fixture(scope="module")
def pool():
    with GradingPool(timeout=6.0) as pool:  # a busy machine must not turn a right answer into a timeout
        yield pool


@pytest.fixture(scope="module")
def grades(pool):
    """All cases in one batch, as a trainer would grade them."""
    benign = [case for case in CASES if not case["kind"].startswith(("hostile", "adv_"))]
    results = pool.grade([text_of(case["completion"]) for case in benign], [case["gold"] for case in benign])
    return dict(zip([case["id"] for case in benign], results, strict=True))


@pytest.mark.parametrize(
    "kind", sorted({case["kind"] for case in CASES if not case["kind"].startswith(("hostile", "adv"))})
)
def test_cases(kind, grades):
    wrong = {
        case["id"]: (case["gold"], text_of(case["completion"])[-80:], grades[case["id"]].verdict)
        for case in CASES
        if case["kind"] == kind and grades[case["id"]].verdict is not case["expected"]
    }
    assert not wrong


@pytest.mark.parametrize("kind", dict.fromkeys(variant["kind"] for variant in VARIANTS))
def test_variants(kind, pool):
    verdicts = {"right": True, "wrong": False, "unscorable": None}
    cases = [
        (variant["gold"], answer, verdict)
        for variant in VARIANTS
        for name, verdict in verdicts.items()
        for answer in variant.get(name, [])
        if variant["kind"] == kind
    ]
    grades = pool.grade([rf"\boxed{{{answer}}}" for _, answer, _ in cases], [gold for gold, _, _ in cases])
    assert [case for case, grade in zip(cases, grades, strict=True) if grade.verdict is not case[2]] == []


@pytest.mark.parametrize(
    "text",
    [r"2x + 1", r"2\pi ", r"2\sqrt{3}.", "2^2 ", r"2\frac12.", "2!", "2i ", "2{,}000", "2 000", "2.5x ", "2 = x", "2"],
)
def test_the_beginning_of_an_answer_is_none(text):
    assert final_answer(rf"\boxed {text}") is None


@pytest.mark.parametrize(
    "answer",
    [
        r"\sqrt{x^{200}y^{200}}",  # too many digits to write down
        r"\left(" + "7" * 480 + r"^{10}\right)^{0.5}",
        r"17\cdot 10^{307} i",  # too large for a float
        r"\{" * 240 + "28" + r"\}" * 240,  # too deep
        r"(x^{170})^{170}+(y^{170})^{170}",  # 11 s, and more below
        rf"((\frac{{{'1' * 99}}}{{{'3' * 98}}})^{{75}})^{{400}}",
    ],
)
def test_no_answer_ends_a_training_or_keeps_it_waiting(pool, answer):
    """These are decided in the trainer's own process, which no limit stops: once by an error, or after minutes."""

    def at_depth(frames: int) -> list:
        return at_depth(frames - 1) if frames else pool.grade([rf"\boxed{{{answer}}}"], [r"17\cdot 10^{307}"])

    start = time.monotonic()
    assert [grade.verdict for grade in at_depth(300)] == [False]
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_hostile_text_is_wrong_and_bounded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile = [case for case in CASES if case["kind"].startswith(("hostile", "adv_"))]
    with GradingPool(timeout=1.0) as pool:
        pool.grade([r"\boxed{\sqrt{12}}"], [r"2\sqrt{3}"])
        start = time.monotonic()
        results = pool.grade([text_of(case["completion"]) for case in hostile], [case["gold"] for case in hostile])
        seconds = time.monotonic() - start
    assert [case["id"] for case, grade in zip(hostile, results, strict=True) if grade.verdict is not False] == []
    assert seconds < 60
    assert os.listdir() == []  # one of them would have written a file here, had it been executed


def test_hostile_text_costs_the_calling_process_next_to_nothing():
    for case in CASES:
        start = time.process_time()
        prepared = prepare(case["gold"], final_answer(text_of(case["completion"])))
        if prepared is not None:
            try:
                judge(prepared, NoAlgebra(), gold_is_readable=True)
            except NeedsAlgebra:
                pass
        assert time.process_time() - start < 0.25, case["id"]


def test_every_gold_is_right_against_itself_and_wrong_against_its_neighbour(pool):
    itself = pool.grade([f"So it is $\\boxed{{{gold}}}$." for gold in GOLDS], GOLDS)
    assert [gold for gold, grade in zip(GOLDS, itself, strict=True) if grade.verdict is not True] == []
    boxed = pool.grade([f"\\boxed{{{gold}}}" for gold in GOLDS], [f"\\boxed{{{gold}}}" for gold in GOLDS])
    assert all(grade.verdict is True for grade in boxed)
    pairs = list(pairwise(GOLDS))
    crossed = pool.grade([f"\\boxed{{{answer}}}" for answer, _ in pairs], [gold for _, gold in pairs])
    assert [pair for pair, grade in zip(pairs, crossed, strict=True) if grade.verdict is not False] == []


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"<think>\boxed{1}</think>\boxed{2} and \boxed{3}.", "3"),
        (r"\boxed{1} then \boxed{2", None),  # the last box decides, and it is cut off
        (r"\boxed{1 \boxed{2} then", "2"),
        (r"Write \boxed as asked: \boxed{7}, as \boxed should.", "7"),
        (r"\boxed{1", None),
        (r"\boxed{\frac{1}{2}", None),
        (r"<think>\boxed{1}", None),
        (r"<think>\boxed{1}</think>", None),
        (r"no tag opens \boxed{1}</think> so \boxed{2}", "2"),
        (r"\boxed{27}<think>again: \boxed{3}", "27"),
        (r"\boxed{\boxed{27}}", r"\boxed{27}"),
        (r"\boxed{1 + \boxed{2}}", r"1 + \boxed{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a\}b}", r"a\}b"),
        (r"\\boxed{27}", "27"),
        (r"\fbox{27}", "27"),
        (r"\boxed 27$.", "27"),
        (r"\boxed 2", None),  # perhaps the first digit of more
        (r"\boxed{2}" + "}" * 9000 + r"\boxed{3" + "{" * 9000, None),
        ("The answer is 27.", None),
    ],
)
def test_which_box_decides(completion, answer):
    assert final_answer(completion) == answer


@pytest.mark.parametrize(
    "hostile",
    ["\\" * 100_000, "{" * 100_000, r"\boxed{" * 14_000, r"\boxed " * 14_000, r"\boxed{" * 9000 + "}" * 9000],
)
def test_finding_the_box_is_linear(hostile):
    start = time.process_time()
    final_answer(r"\boxed{1}" + hostile)
    assert time.process_time() - start < 1.0


def test_digits_do_not_join_across_a_control_character(pool):
    assert pool.grade(["\\boxed{27\x007}"], ["277"])[0].verdict is False


def test_guards_let_every_real_gold_through():
    harmless = [r"e^{x^{2}} + 2^{2^{3}} + 10! + \binom{20}{10} + x^{100}"]
    assert [gold for gold in GOLDS + harmless if too_heavy(normalize(gold))] == []


@pytest.mark.parametrize(
    "text",
    [
        "1+" * 600,
        "(" * 11 + "x" + ")" * 11,
        "9^{9^{9}}",
        "99999^{99999}",
        "((2^{999})^{999})^{9999}",
        "(1000!)!",
        r"\binom{10^{9}}{5}",
        r"\int_0^1 x^{2} dx",
    ],
)
def test_guards_stop_what_is_too_heavy(text):
    assert too_heavy(text)


@pytest.mark.slow
def test_grade_is_bounded_and_says_none_for_the_gold_only():
    assert grade(r"\boxed{\frac{\sqrt{3}}{3}}", r"\frac{1}{\sqrt{3}}") is True
    assert grade(r"\boxed{1+}", "2") is False
    assert grade(r"\boxed{2}", "1+") is None
    assert grade("", None) is None
