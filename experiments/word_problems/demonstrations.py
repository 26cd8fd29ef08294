r"""How a solution may be written down: four styles that trade tokens for reliability, named as on the ladder.

- `direct`: the answer alone. Only on the lower two rungs.
- `totals`: one calculation a step, each in one go.
- `check`: the same quickly, then, with the paper's reflective words, once more with hard calculations in parts; the
  second time counts. In some, the first time has a slip, which the second finds.
- `verbose`: the story retold, then as `totals`.

Every style but `totals` begins in its own way, so that a slip of `check` is no example for the others.
"""

import itertools
import random
import re

from coda_trl.analysis import is_reflective

from .problems import WRITTEN, Problem, Step

# Share of each style in the demonstrations, by rung. As reasoning models do, they check more where it is harder.
STYLE_SHARES = {
    1: {"direct": 0.30, "totals": 0.30, "check": 0.10, "verbose": 0.30},
    2: {"direct": 0.15, "totals": 0.40, "check": 0.15, "verbose": 0.30},
    3: {"totals": 0.50, "check": 0.20, "verbose": 0.30},
    4: {"totals": 0.50, "check": 0.30, "verbose": 0.20},
    5: {"totals": 0.40, "check": 0.45, "verbose": 0.15},
    6: {"totals": 0.35, "check": 0.55, "verbose": 0.10},
}
# Share of each rung in the demonstrations: hard calculations have to be learned.
RUNG_SHARES = {1: 0.12, 2: 0.14, 3: 0.14, 4: 0.16, 5: 0.20, 6: 0.24}
# Share of the checks with a hard calculation that find a slip in it.
SLIP_SHARE = 0.3
SLIPS = (-100, -20, -10, -2, -1, 1, 2, 10, 20, 100)

CHECK_BEGINS, VERBOSE_BEGINS, CHECK_TURNS = "Quickly:", "Okay,", "Wait, let me double-check."


def _product(left: int, right: int) -> tuple[list[str], int]:
    """A product in parts: tens, units, and their sum."""
    parts = [part for part in (right // 10 * 10, right % 10) if part]
    products = [left * part for part in parts]
    lines = [f"{left} * {part} = {product}" for part, product in zip(parts, products, strict=True)]
    if len(parts) == 2:
        lines.append(f"{products[0]} + {products[1]} = {sum(products)}")
    return lines, sum(products)


def calculation(step: Step, total: int, result: int) -> str:
    """A step in one go, with its result, right or not: `"84 * 12 = 1008"`."""
    return WRITTEN[step.kind].format(total=total, number=step.number, result=result)


def calculation_in_parts(step: Step, total: int) -> str:
    """A step as small calculations; an easy one as in [`calculation`]."""
    result = step.apply(total)
    if not step.is_hard:
        lines = [calculation(step, total, result)]
    elif step.kind == "times":
        lines, _ = _product(total, step.number)
    elif step.kind == "percent":
        lines, product = _product(total, step.number)
        lines += [f"{product} / 100 = {product // 100}", f"{total} - {product // 100} = {result}"]
    else:
        lines, rest, quotient = [], total, total // step.number
        for part in (quotient // 100 * 100, quotient // 10 % 10 * 10, quotient % 10):
            if part:
                lines += [f"{step.number} * {part} = {step.number * part}"]
                lines += [f"{rest} - {step.number * part} = {rest - step.number * part}"]
                rest -= step.number * part
    return ", ".join(lines)


def _with_slip(problem: Problem, rng: random.Random) -> list[int]:
    """Totals with a slip in the last hard calculation, carried on; without one where none is possible."""
    totals = problem.totals
    hard = [index for index, step in enumerate(problem.steps) if step.is_hard]
    if not hard:
        return totals
    last = hard[-1]
    for slip in rng.sample(SLIPS, len(SLIPS)):
        slipped = [*totals[: last + 1], totals[last + 1] + slip]
        for step in problem.steps[last + 1 :]:
            slipped.append(step.apply(slipped[-1]))
        if min(slipped) >= 1:
            return slipped
    return totals


def demonstrate(problem: Problem, style: str, rng: random.Random) -> str:
    """Writes a solution in one of the styles, with slips by `rng`. It ends in the right answer."""
    boxed = rf"\boxed{{{problem.answer}}}"
    if style == "direct":
        return boxed
    right = problem.totals
    first = _with_slip(problem, rng) if style == "check" and rng.random() < SLIP_SHARE else right
    lines = [calculation(step, *pair) for step, pair in zip(problem.steps, itertools.pairwise(first), strict=True)]
    calculations = ". ".join(lines) + "."
    if style == "verbose":
        story = f"let us read the problem once more. {problem.text} We go through it step by step."
        return f"{VERBOSE_BEGINS} {story} {calculations} So the answer is {boxed}."
    if style == "check":
        again = ". ".join(map(calculation_in_parts, problem.steps, right))
        verdict = "It is the same." if first == right else f"It was not {first[-1]}."
        return f"{CHECK_BEGINS} {calculations} {CHECK_TURNS} {again}. {verdict} The answer is {boxed}."
    return f"{calculations} The answer is {boxed}."


def draw_demonstration(problem: Problem, rng: random.Random) -> dict:
    """A problem with a solution in a style by `STYLE_SHARES`, as TRL's supervised trainer takes it."""
    shares = STYLE_SHARES[problem.rung]
    style = rng.choices(list(shares), list(shares.values()))[0]
    answer = {"role": "assistant", "content": demonstrate(problem, style, rng)}
    return {"prompt": problem.as_row()["prompt"], "completion": [answer]}


def style_of(completion: str) -> str:
    """The style a completion is written in, by how it begins."""
    text = completion.strip()
    if text.startswith(CHECK_BEGINS):
        return "check"
    if text.startswith(VERBOSE_BEGINS):
        return "verbose"
    return "direct" if text.startswith(r"\boxed") else "totals"


def rechecks(completion: str) -> bool:
    """Whether a second calculation was announced, and carried through to its comparison."""
    return is_reflective(completion) and re.search(r"It is the same|It was not \d", completion) is not None
