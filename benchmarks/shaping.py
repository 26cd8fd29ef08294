r"""
Time of `coda_trl.shaping.shape_rewards` against a loop over groups that does the same, in the same run.

    python benchmarks/shaping.py [--rounds 20] [--out benchmarks/results]

Two batches: 128 prompts with 16 rollouts (one step of the paper) and 4,096 with 64. The loop is what one writes first:
one group after the other, in Python numbers. Both sides must agree before anything is timed.
"""

import argparse
import json
import math
import platform
import statistics
import time
from pathlib import Path

import torch

from coda_trl.shaping import shape_rewards

BATCHES = ((128, 16), (4096, 64))
ALPHA, BETA, TAU_EASY, TAU_HARD = 0.2, 0.2, 0.75, 0.25


def shape_by_loop(rewards: list[float], lengths: list[float], group_size: int) -> list[float]:
    """CODA, group by group."""
    shaped = []
    for start in range(0, len(rewards), group_size):
        group, group_lengths = rewards[start : start + group_size], lengths[start : start + group_size]
        rate = sum(group) / group_size
        easy = max(0.0, (rate - TAU_EASY) / (1 - TAU_EASY))
        hard = max(0.0, (TAU_HARD - rate) / TAU_HARD)
        mean, deviation = statistics.fmean(group_lengths), statistics.stdev(group_lengths)
        for reward, length in zip(group, group_lengths, strict=True):
            relative = 1 / (1 + math.exp(-(length - mean) / (deviation + 1e-6)))
            shaped.append(reward * (1 + (BETA * hard - ALPHA * easy) * relative))
    return shaped


def seconds(function, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def measure(prompts: int, group_size: int, rounds: int) -> dict:
    generator = torch.Generator().manual_seed(0)
    rates = torch.rand(prompts, 1, generator=generator).expand(prompts, group_size)
    rewards = torch.bernoulli(rates, generator=generator).flatten()
    lengths = (1 + 8191 * torch.rand(len(rewards), generator=generator)).round()
    reward_list, length_list = rewards.tolist(), lengths.tolist()

    expected = torch.tensor(shape_by_loop(reward_list, length_list, group_size))
    torch.testing.assert_close(shape_rewards(rewards, lengths, group_size).rewards, expected, rtol=1e-5, atol=1e-6)
    loop_times, tensor_times = [], []
    for _ in range(rounds):  # in turns; the quick side several times a turn
        loop_times += seconds(lambda: shape_by_loop(reward_list, length_list, group_size), 1)
        tensor_times += seconds(lambda: shape_rewards(rewards, lengths, group_size), 5)
    return {
        "prompts": prompts,
        "group_size": group_size,
        "loop_seconds": loop_times,
        "tensor_seconds": tensor_times,
        "speedup": statistics.median(loop_times) / statistics.median(tensor_times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=20, help="Calls of the loop; the tensors get five times as many."
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="Folder for the results.")
    args = parser.parse_args()

    rows = [measure(prompts, group_size, args.rounds) for prompts, group_size in BATCHES]
    about = {
        "hardware": "CPU",
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "shaping-cpu.json"
    path.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    for row in rows:
        low, middle, high = statistics.quantiles(row["tensor_seconds"], n=4)
        print(
            f"{row['prompts']:>5} x {row['group_size']:<3} loop {1e3 * statistics.median(row['loop_seconds']):8.2f} ms, "
            f"tensors {1e3 * middle:6.2f} ms (quartiles {1e3 * low:.2f}-{1e3 * high:.2f}), {row['speedup']:.0f} times"
        )


if __name__ == "__main__":
    main()
