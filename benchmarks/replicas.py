r"""
Tokens a second of vLLM on one card, by the number of replicas that share it.

    python benchmarks/replicas.py --model FOLDER [--replicas 1 2 4 6] [--out runs/benchmarks]

Every replica is a process with its own engine, as `--data_parallel_size` of an evaluation starts them. All are started
once; then one, two, and so on answer at the same time, each `--answers` prompts with exactly `--tokens` tokens
(T = 0.6, top-p 0.95, a seed an answer, as an evaluation samples). Results are written after every number.
"""

import argparse
import json
import multiprocessing
import platform
import time
from importlib.metadata import version
from pathlib import Path

PROMPT_LENGTH = 128


def serve(rank: int, args: argparse.Namespace, barrier, times) -> None:
    """One replica: answers whenever its turn comes, and sends begin and end."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=args.model,
        dtype="bfloat16",
        max_model_len=args.max_model_len,
        gpu_memory_utilization=0.1,
        kv_cache_memory_bytes=args.kv_cache_memory_bytes,
    )

    def answer(tokens: int) -> None:
        params = [
            SamplingParams(
                temperature=0.6, top_p=0.95, max_tokens=tokens, ignore_eos=True, seed=seed, detokenize=False
            )
            for seed in range(args.answers)
        ]
        prompts = [
            {"prompt_token_ids": [1000 + (rank + seed + place) % 5000 for place in range(PROMPT_LENGTH)]}
            for seed in range(args.answers)
        ]
        llm.generate(prompts, params, use_tqdm=False)

    answer(8)
    for number in args.replicas:
        barrier.wait(args.timeout)
        if rank < number:
            begin = time.time()
            answer(args.tokens)
            times.put((begin, time.time()))
        barrier.wait(args.timeout)
    llm.llm_engine.engine_core.shutdown()  # else leaving would wait for vLLM's own process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4, 6])
    parser.add_argument("--answers", type=int, default=1024, help="Of a replica, at the same time.")
    parser.add_argument("--tokens", type=int, default=256, help="Of an answer.")
    parser.add_argument("--max_model_len", type=int, default=3072)
    parser.add_argument("--kv_cache_memory_bytes", type=int, default=14 * 2**30)
    parser.add_argument("--timeout", type=float, default=240, help="Seconds to wait for replicas.")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"))
    args = parser.parse_args()
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    about = {
        "hardware": name,
        "cores": multiprocessing.cpu_count(),
        "python": platform.python_version(),
        "vllm": version("vllm"),
        "model": Path(args.model).name,
        "settings": {"answers": args.answers, "tokens": args.tokens, "prompt_length": PROMPT_LENGTH},
    }
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"replicas-{name.lower().replace(' ', '-')}.json"
    context = multiprocessing.get_context("spawn")
    barrier, times = context.Barrier(max(args.replicas) + 1), context.Queue()
    start = time.time()
    processes = [
        context.Process(target=serve, args=(rank, args, barrier, times)) for rank in range(max(args.replicas))
    ]
    for process in processes:
        process.start()
    rows = []
    for number in args.replicas:
        barrier.wait(args.timeout)
        if not rows:
            about["startup_seconds"] = round(time.time() - start, 1)
        found = [times.get(timeout=args.timeout) for _ in range(number)]
        seconds = max(end for _, end in found) - min(begin for begin, _ in found)
        rows.append({"replicas": number, "seconds": seconds, "tokens": number * args.answers * args.tokens})
        rows[-1]["tokens_per_second"] = rows[-1]["tokens"] / seconds
        path.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
        print(f"{number} replicas: {rows[-1]['tokens_per_second']:,.0f} tokens/s", flush=True)
        barrier.wait(args.timeout)
    for process in processes:
        process.join(30)
        process.kill()


if __name__ == "__main__":
    main()
