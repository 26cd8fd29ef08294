"""How long a report on 100 MB of samples takes, and how much memory.

python benchmarks/report_speed.py [--megabytes 100] [--tokens 600]

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


def write_run(folder: Path, megabytes: float, mean_tokens: int, seed: int) -> int:
    """Writes samples of the given volume, eight a problem, and returns their number."""
    rng = random.Random(seed)
    folder.mkdir()
    samples = 0
    with open(folder / "samples.jsonl", "w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1e6:
            problem, sample = divmod(samples, 8)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100, help="Volume of both runs together.")
    parser.add_argument("--tokens", type=int, default=600, help="Mean length of an answer.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: Path(folder) / name for name in ("one", "two")}
        half = args.megabytes / 2
        samples = sum(write_run(path, half, args.tokens, seed) for seed, path in enumerate(runs.values()))
        report = Path(__file__).parents[1] / "recipes" / "report.py"
        command = [sys.executable, str(report), *(f"{name}={path}" for name, path in runs.items())]
        subprocess.run([*command, "--out", f"{folder}/report"], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{args.megabytes:g} MB, {samples:,} samples: {used.ru_utime + used.ru_stime:.0f} s of one core, "
        f"{used.ru_maxrss / 1024:.0f} MiB at most"
    )


if __name__ == "__main__":
    main()
