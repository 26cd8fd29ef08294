r"""
Tokens per second of vLLM on one GPU, by the number of replicas that share it.

    python benchmarks/replicas.py --model FOLDER [--replicas 1 2 4 6] [--out runs/benchmarks]

Every replica is a process with its own engine, as `--data_parallel_size` of an evaluation starts them. All are started
once; then one, two, and so on answer at the same time, each `--answers` prompts with exactly `--tokens` tokens
(T = 0.6, top-p 0.95, a seed an answer, as an evaluation samples). Results are written after every number.
"""

import argparse
import multiprocessing
import time
from pathlib import Path

from timing import machine, parser_of, write

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

    seeds = range(args.answers)
    sampling = {"temperature": 0.6, "top_p": 0.95, "ignore_eos": True, "detokenize": False}
    places = range(rank, rank + PROMPT_LENGTH)
    prompts = [{"prompt_token_ids": [1000 + (seed + place) % 5000 for place in places]} for seed in seeds]

    def answer(tokens: int) -> None:
        params = [SamplingParams(max_tokens=tokens, seed=seed, **sampling) for seed in seeds]
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
    parser = parser_of(__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4, 6])
    parser.add_argument("--answers", type=int, default=1024, help="Of a replica, at the same time.")
    parser.add_argument("--tokens", type=int, default=256, help="Of an answer.")
    parser.add_argument("--max_model_len", type=int, default=3072)
    parser.add_argument("--kv_cache_memory_bytes", type=int, default=14 * 2**30)
    parser.add_argument("--timeout", type=float, default=240, help="Seconds to wait for replicas.")
    args = parser.parse_args()
    about = machine() | {"cores": multiprocessing.cpu_count(), "model": Path(args.model).name}
    about["settings"] = {"answers": args.answers, "tokens": args.tokens, "prompt_length": PROMPT_LENGTH}
    context, most = multiprocessing.get_context("spawn"), max(args.replicas)
    barrier, times = context.Barrier(most + 1), context.Queue()
    start, rows = time.time(), []
    processes = [context.Process(target=serve, args=(rank, args, barrier, times)) for rank in range(most)]
    for process in processes:
        process.start()
    for number in args.replicas:
        barrier.wait(args.timeout)
        about.setdefault("startup_seconds", round(time.time() - start, 1))
        begins, ends = zip(*(times.get(timeout=args.timeout) for _ in range(number)), strict=True)
        seconds, tokens = max(ends) - min(begins), number * args.answers * args.tokens
        rows.append({"replicas": number, "seconds": seconds, "tokens": tokens, "tokens_per_second": tokens / seconds})
        write(args.out, f"replicas-{about['hardware']}", {"about": about, "rows": rows})
        print(f"{number} replicas: {tokens / seconds:,.0f} tokens/s", flush=True)
        barrier.wait(args.timeout)
    for process in processes:
        process.join(30)
        process.kill()


if __name__ == "__main__":
    main()
