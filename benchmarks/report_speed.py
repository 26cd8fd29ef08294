"""How long a report takes, and how much memory: on 100 MB of samples, or on a number of problems.

python benchmarks/report_speed.py [--megabytes 100] [--tokens 600] [--samples 8]
python benchmarks/report_speed.py --problems 90000 --samples 1 --tokens 100

Writes two runs of made-up answers of the given mean length (short ones make more samples of the same volume), builds
their report in a process of its own, and prints its time and its peak memory.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SENTENCES = (
    "Let us think about the problem step by step.",
    "Wait, let me check this again.",
    "So the sum of the two numbers is forty-two.",
    "First, I need to understand what the problem is asking.",
    "Therefore the answer must be positive.",
)


def write_run(folder: Path, size: float, problems: int | None, per_problem: int, mean_tokens: int, seed: int) -> int:
    """Writes samples of so many problems, or else of so many bytes, and returns their number."""
    rng = random.Random(seed)
    folder.mkdir()
    samples = 0
    with open(folder / "samples.jsonl", "w", encoding="utf-8") as file:
        while file.tell() < size if problems is None else samples < problems * per_problem:
            problem, sample = divmod(samples, per_problem)
            tokens = max(1, int(rng.expovariate(1 / mean_tokens)))
            text = " ".join(rng.choice(SENTENCES) for _ in range(1 + tokens // 11))
            question = f"How many more wrappers than bottle caps did Danny find at the park on day {problem}?"
            record = {
                "benchmark": f"benchmark{problem % 8}",
                "problem_id": str(problem),
                "sample": sample,
                "prompt": question,
                "completion": f"{question} {text}",
                "tokens": tokens,
                "finish_reason": "stop",
                "correct": rng.random() < (problem % 11) / 10,
            }
            file.write(json.dumps(record) + "\n")
            samples += 1
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=100, help="Volume of both runs together.")
    parser.add_argument("--problems", type=int, help="Number of problems of a run, in place of the volume.")
    parser.add_argument("--samples", type=int, default=8, help="Samples of a problem.")
    parser.add_argument("--tokens", type=int, default=600, help="Mean length of an answer.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: Path(folder) / name for name in ("one", "two")}
        size = args.megabytes * 1e6 / 2, args.problems, args.samples, args.tokens
        samples = sum(write_run(path, *size, seed) for seed, path in enumerate(runs.values()))
        volume = sum((path / "samples.jsonl").stat().st_size for path in runs.values()) / 1e6
        report = Path(__file__).parents[1] / "recipes" / "report.py"
        command = [sys.executable, str(report), *(f"{name}={path}" for name, path in runs.items())]
        subprocess.run([*command, "--out", f"{folder}/report"], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{volume:.0f} MB, {samples:,} samples: {used.ru_utime + used.ru_stime:.0f} s of one core, "
        f"{used.ru_maxrss / 1024:.0f} MiB at most"
    )


if __name__ == "__main__":
    main()
