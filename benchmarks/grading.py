r"""
Grading speed: `coda_trl.rewards.accuracy_reward` against TRL's, on the same completions, in the same run.

    python benchmarks/grading.py [--out runs/benchmarks]

One training step of the paper: 128 prompts with 16 completions each, 20 to 70 KB of reasoning, an answer in a box at
the end, six of ten right. The solutions are boxed, because TRL reads many bare ones as unparseable and then skips the
completion. The second part grades the same step with 16 answers that computer algebra does not finish in time.
"""

import argparse
import json
import logging
import platform
import random
import time
from importlib.metadata import version
from pathlib import Path

from trl.rewards import accuracy_reward as trl_accuracy_reward

from coda_trl.grading import GradingPool, default_pool
from coda_trl.rewards import accuracy_reward

PROMPTS, GENERATIONS = 128, 16
# right answer, the same in another form, two wrong ones
ANSWERS = [
    ("{n}", "{n}", "{m}", "-{n}"),
    ("{n}", r"{n}\text{{ miles}}", "{m}", r"\frac{{{n}}}{{2}}"),
    (r"\frac{{{n}}}{{7}}", r"\dfrac{{{n}}}{{7}}", r"\frac{{7}}{{{n}}}", r"\frac{{{m}}}{{7}}"),
    (r"{n}\sqrt{{3}}", r"\sqrt{{3}}\cdot {n}", r"{m}\sqrt{{3}}", r"{n}\sqrt{{2}}"),
    (r"\frac{{{n}}}{{\sqrt{{3}}}}", r"\frac{{{n}\sqrt{{3}}}}{{3}}", r"\frac{{{n}\sqrt{{3}}}}{{2}}", r"{n}\sqrt{{3}}"),
    (r"\frac{{\sqrt{{{n}}}}}{{2}}", r"\sqrt{{\frac{{{n}}}{{4}}}}", r"\frac{{\sqrt{{{n}}}}}{{3}}", r"\sqrt{{{n}}}"),
    (r"({n}, {m})", r"\left({n},{m}\right)", r"({m}, {n})", r"({n}, {n})"),
    (r"(-\infty, {n}]", r"x \le {n}", r"(-\infty, {n})", r"[{n}, \infty)"),
    (r"x^2 + {n}x + {m}", r"{m} + {n}x + x^2", r"x^2 - {n}x + {m}", r"x^2 + {m}x + {n}"),
    (r"{n} \sin 2x", r"{n} \cdot 2 \sin x \cos x", r"{m} \sin 2x", r"{n} \cos 2x"),
    (r"{n}\pi", r"\pi \cdot {n}", r"{m}\pi", r"{n}"),
    (r"{n} + {m}i", r"{m}i + {n}", r"{n} - {m}i", r"{m} + {n}i"),
    (r"y = {n}x + {m}", r"y = {m} + {n}x", r"y = {m}x + {n}", r"y = -{n}x + {m}"),
    (r"{n}\%", r"{n}", r"{m}\%", r"0.{n}\%"),
]
SENTENCES = [
    "Wait, let me check that again, because the second case seems to be missing. ",
    "So $x^2 - 5x + 6 = 0$ gives $x = 2$ or $x = 3$, and only one of them is in the range. ",
    "Let me set up the equation: the sum of both parts is 45, and the ratio is 3:2, hence 27 and 18. ",
    r"We have \(\frac{a}{b} = \frac{14}{3}\), so that a = 14k and b = 3k for some integer k. ",
    "Hmm, that does not look right. Alternatively, consider the triangle with sides 13, 14 and 15. ",
    "\n\nStep by step: first factor the polynomial, then compare coefficients (there are three of them). ",
]


def make_step(seed: int) -> tuple[list[list[dict]], list[str]]:
    """Completions and solutions of one training step."""
    rng = random.Random(seed)
    completions, solutions = [], []
    for prompt in range(PROMPTS):
        forms = ANSWERS[prompt % len(ANSWERS)]
        n, m = rng.sample(range(11, 999), 2)
        right, same, *wrong = (form.format(n=n, m=m) for form in forms)
        for _ in range(GENERATIONS):
            answer = rng.choice([right, same]) if rng.random() < 0.6 else rng.choice(wrong)
            completions.append(
                [{"role": "assistant", "content": _reasoning(rng) + f"The answer is $\\boxed{{{answer}}}$."}]
            )
            solutions.append(f"\\boxed{{{right}}}")
    return completions, solutions


def _reasoning(rng: random.Random) -> str:
    length, text = rng.randint(20_000, 70_000), []
    while length > 0:
        text.append(rng.choice(SENTENCES))
        length -= len(text[-1])
    return "<think>\n" + "".join(text) + "\n</think>\n\n"


def with_hang_makers(completions: list[list[dict]], solutions: list[str]) -> tuple[list[str], list[str]]:
    """The step with 16 different answers spread over it that run into the time limit."""
    texts = [completion[0]["content"] for completion in completions]
    solutions = list(solutions)
    for index in range(16):
        texts[index * 128 + 7] = rf"\boxed{{\int \frac{{\sin({index + 2} x)\log(x)}}{{1+x^7}} dx}}"
        solutions[index * 128 + 7] = r"\int \frac{\cos(x)\log(x)}{1+x^7} dx"
    return texts, solutions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), help="Folder for the results.")
    options = parser.parse_args()
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    start = time.perf_counter()
    warm_up = make_step(seed=1)
    accuracy_reward(*warm_up)
    first_seconds = time.perf_counter() - start
    print(f"workers: {default_pool().workers}; first call, which starts them: {first_seconds:.1f} s")
    trl_accuracy_reward(*(part[::GENERATIONS] for part in warm_up))

    completions, solutions = make_step(seed=0)
    size = sum(len(completion[0]["content"]) for completion in completions) / len(completions)
    start = time.perf_counter()
    ours = accuracy_reward(completions, solutions)
    seconds = time.perf_counter() - start
    print(f"{len(completions)} completions of {size / 1000:.0f} KB on average")
    print(f"coda_trl: {len(ours) / seconds:8.1f} completions/s ({seconds:.2f} s)")
    start = time.perf_counter()
    trl = trl_accuracy_reward(completions, solutions)
    trl_seconds = time.perf_counter() - start
    print(f"trl:      {len(trl) / trl_seconds:8.1f} completions/s ({trl_seconds:.2f} s)")
    agreement = sum(one == other for one, other in zip(ours, trl, strict=True)) / len(ours)
    print(f"ratio {trl_seconds / seconds:.1f}, verdicts agree on {agreement:.1%}")
    differing = {
        (solution, completion[0]["content"][-60:], one, other)
        for completion, solution, one, other in zip(completions, solutions, ours, trl, strict=True)
        if one != other
    }
    for solution, ending, one, other in sorted(differing, key=str)[:8]:
        print(f"  solution {solution}, completion ends {ending!r}: coda_trl {one}, trl {other}")

    with GradingPool() as pool:
        pool.grade([r"\boxed{\sqrt{12}}"], [r"2\sqrt{3}"])
        step = with_hang_makers(completions, solutions)
        start = time.perf_counter()
        grades = pool.grade(*step)
        hang_seconds = time.perf_counter() - start
        bound = pool.timeout * 16 / pool.workers + 2
        stopped = sum(grade.stopped for grade in grades)
    print(f"the same with 16 answers that hang: {hang_seconds:.1f} s (bound {bound:.1f} s), {stopped} stopped")
    about = {
        "hardware": "CPU",
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **{package: version(package) for package in ("trl", "math-verify")},
        "workers": default_pool().workers,
        "completions": len(completions),
        "characters": round(size),
    }
    numbers = {
        "first_call_seconds": first_seconds,
        "seconds": {"coda_trl": seconds, "trl": trl_seconds},
        "agreement": agreement,
        "hanging": {"seconds": hang_seconds, "bound": bound, "stopped": stopped},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "grading-cpu.json").write_text(json.dumps({"about": about} | numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
