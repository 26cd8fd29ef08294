r"""
Time of `coda_trl.shaping.shape_rewards` against loops over groups that do the same, in the same run.

    python benchmarks/shaping.py [--rounds 20] [--out runs/benchmarks]

Two batches: 128 prompts with 16 rollouts (one step of the paper) and 4,096 with 64, on one core. Two loops: one in
plain Python numbers, which takes checked lists and returns a list, and one with a few tensor operations a group, as
reward code is often written. All sides must agree before anything is timed. Times are those of the processor, so that
other work on the machine counts for little.

On some virtual machines glibc's habit of handing freed tensors back to the system costs more than the computation.
`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8589934592` turns it off; the results say how they were set.
"""

import math
import os
import statistics
import time

import torch
from timing import in_turns, machine, parser_of, write

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


def shape_by_tensor_loop(rewards: torch.Tensor, lengths: torch.Tensor, group_size: int) -> torch.Tensor:
    """CODA, group by group, with tensors."""
    shaped = []
    for group, length in zip(rewards.split(group_size), lengths.split(group_size), strict=True):
        rate = group.mean()
        easy = ((rate - TAU_EASY) / (1 - TAU_EASY)).clamp(min=0)
        hard = ((TAU_HARD - rate) / TAU_HARD).clamp(min=0)
        relative = torch.sigmoid((length - length.mean()) / (length.std() + 1e-6))
        shaped.append(group * (1 + (BETA * hard - ALPHA * easy) * relative))
    return torch.cat(shaped)


def measure(prompts: int, group_size: int, rounds: int) -> dict:
    generator = torch.Generator().manual_seed(0)
    rates = torch.rand(prompts, 1, generator=generator).expand(prompts, group_size)
    rewards = torch.bernoulli(rates, generator=generator).flatten()
    lengths = (1 + 8191 * torch.rand(len(rewards), generator=generator)).round()
    reward_list, length_list = rewards.tolist(), lengths.tolist()

    sides = {
        "python_loop": lambda: shape_by_loop(reward_list, length_list, group_size),
        "tensor_loop": lambda: shape_by_tensor_loop(rewards, lengths, group_size),
        "shape_rewards": lambda: shape_rewards(rewards, lengths, group_size).rewards,
    }
    results = [torch.as_tensor(side()) for side in sides.values()]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-5, atol=1e-6)
    seconds = in_turns(sides, rounds, time.process_time, shape_rewards=5)
    return {"prompts": prompts, "group_size": group_size, "seconds": seconds}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="Calls of each loop; five times as many of ours.")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(prompts, group_size, args.rounds) for prompts, group_size in BATCHES]
    allocator = {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")}
    about = machine() | {"hardware": "CPU", "allocator": allocator}
    write(args.out, "shaping-cpu", {"about": about, "rows": rows})
    for row in rows:
        ours = statistics.median(row["seconds"]["shape_rewards"])
        for name, times in row["seconds"].items():
            low, middle, high = (1e3 * quartile for quartile in statistics.quantiles(times, n=4))
            print(
                f"{row['prompts']:>4} x {row['group_size']:<2}  {name:<13} {middle:>7.2f} ms  "
                f"{low:.2f}-{high:.2f} ms, {middle / 1e3 / ours:.0f} times ours"
            )


if __name__ == "__main__":
    main()
