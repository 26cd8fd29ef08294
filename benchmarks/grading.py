r"""
Grading speed: `coda_trl.rewards.accuracy_reward` against TRL's, on the same completions, in the same run.

    python benchmarks/grading.py [--out runs/benchmarks] [--json FILE]

One training step of the paper: 128 prompts with 16 completions each, 20 to 70 KB of reasoning, an answer in a box at
the end, six of ten right. The solutions are boxed, because TRL reads many bare ones as unparseable and then skips the
completion. The second part grades the same step with 16 answers that computer algebra does not finish in time.
"""

import json
import logging
import operator
import random
from pathlib import Path

from timing import in_turns, machine, parser_of, write
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
    parser = parser_of(__doc__)
    parser.add_argument("--json", type=Path, help="File for completions/s of both, their ratio, and the agreement.")
    options = parser.parse_args()
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    warm_up, step = make_step(seed=1), make_step(seed=0)
    first_seconds = in_turns({"coda_trl": lambda: accuracy_reward(*warm_up)}, 1)["coda_trl"][0]
    trl_accuracy_reward(*(part[::GENERATIONS] for part in warm_up))
    rewards = {}
    sides = {
        "coda_trl": lambda: rewards.update(coda_trl=accuracy_reward(*step)),
        "trl": lambda: rewards.update(trl=trl_accuracy_reward(*step)),
    }
    seconds = {name: times[0] for name, times in in_turns(sides, 1).items()}
    agreement = sum(map(operator.eq, *rewards.values())) / len(step[0])
    with GradingPool() as pool:
        pool.grade([r"\boxed{\sqrt{12}}"], [r"2\sqrt{3}"])
        hang_makers, grades = with_hang_makers(*step), []
        hang_seconds = in_turns({"pool": lambda: grades.extend(pool.grade(*hang_makers))}, 1)["pool"][0]
        bound = pool.timeout * 16 / pool.workers + 2
    stopped = sum(grade.stopped for grade in grades)
    size = sum(len(completion[0]["content"]) for completion in step[0]) / len(step[0])
    workers = {"workers": default_pool().workers, "completions": len(step[0]), "characters": round(size)}
    print(f"{workers}, first call, which starts them: {first_seconds:.1f} s")
    rates = {name: len(step[0]) / taken for name, taken in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:<9} {rate:8.1f} completions/s ({seconds[name]:.2f} s)")
    ratio = rates["coda_trl"] / rates["trl"]
    print(f"ratio {ratio:.1f}, verdicts agree on {agreement:.1%}")
    print(f"the same with 16 answers that hang: {hang_seconds:.1f} s (bound {bound:.1f} s), {stopped} stopped")
    about = machine() | {"hardware": "CPU"} | workers
    hanging = {"seconds": hang_seconds, "bound": bound, "stopped": stopped}
    numbers = {"first_call_seconds": first_seconds, "seconds": seconds, "agreement": agreement, "hanging": hanging}
    if options.json is not None:
        short = {"ours": rates["coda_trl"], "trl": rates["trl"], "ratio": ratio, "agreement": agreement}
        options.json.write_text(json.dumps(short) + "\n")
    write(options.out, "grading-cpu", {"about": about} | numbers)


if __name__ == "__main__":
    main()
