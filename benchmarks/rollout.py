r"""
Rollout speed of the engines that TRL offers inside the training process: transformers' `generate`, its continuous
batching, and vLLM in colocate mode.

    python benchmarks/rollout.py [--tiny] [--engines generate continuous vllm] [--out runs/benchmarks]

What is timed is the trainer's own generation step, from prompts to completion tokens. The model has the shape of
Qwen3-0.6B and random weights, so that it says any token as likely as another; so many of them count as end of text
that a completion is about a quarter of the longest (lengths follow a geometric distribution). `--tiny` rehearses on a
CPU, where continuous batching is slow. Every engine runs in a process of its own, once to warm up and then `--rounds`
times, or until its share of `--seconds` is used up; if that is the warm-up already, its time is shown, and marked. An
engine that is not installed, or fails, is left out. Results are written after every engine.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

PROMPT_LENGTH = 128
GENERATIONS = 8
ENGINES = {
    "generate": {},
    "continuous": {"use_transformers_continuous_batching": True},
    "vllm": {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4},
}


def save_model(folder: str, tiny: bool, longest: int) -> None:
    """Random model and tokenizer; the first tokens of the vocabulary end a text."""
    sizes = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "vocab_size": 151_936}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
    if tiny:
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 512}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}  # vLLM's least on a CPU
    ends = list(range(1, 1 + max(1, 4 * sizes["vocab_size"] // longest)))
    words = {"<pad>": 0, "<eos>": 1} | {f"w{index}": index for index in range(2, sizes["vocab_size"])}
    backend = Tokenizer(models.WordLevel(words, unk_token="w2"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)

    config = Qwen3Config(**sizes, **heads, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1)
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16 if torch.cuda.is_available() else torch.float32)
    model.generation_config.eos_token_id = ends
    model.save_pretrained(folder)


def run_engine(engine: str, folder: str, longest: int, rollouts: int, rounds: int, deadline: float) -> list[dict]:
    cuda = torch.cuda.is_available()
    trainer = CodaGRPOTrainer(
        folder,
        lambda completions, **kwargs: [0.0] * len(completions),
        CodaGRPOConfig(
            "runs/rollout",
            per_device_train_batch_size=rollouts,
            num_generations=GENERATIONS,
            max_completion_length=longest,
            vllm_max_model_length=PROMPT_LENGTH + longest,
            model_init_kwargs={"dtype": "bfloat16" if cuda else "float32"},
            bf16=cuda,
            use_cpu=not cuda,
            report_to="none",
            **ENGINES[engine],
        ),
        Dataset.from_dict({"prompt": ["w2"] * rollouts}),
    )
    generator = torch.Generator().manual_seed(0)
    questions = torch.randint(3, 500, (rollouts // GENERATIONS, PROMPT_LENGTH), generator=generator).tolist()
    prompts = [" ".join(f"w{word}" for word in question) for question in questions for _ in range(GENERATIONS)]
    results = []
    for number in tqdm(range(1 + rounds), desc=engine, unit="rollout"):
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        completion_ids = trainer._generate(prompts)[1]
        seconds = time.perf_counter() - start
        results.append(
            {
                "engine": engine,
                "warm_up": number == 0,
                "seconds": seconds,
                "tokens": sum(map(len, completion_ids)),
                "longest": max(map(len, completion_ids)),
                "peak_memory": torch.cuda.max_memory_allocated() if cuda else None,  # of this process, vLLM's included
            }
        )
        if time.perf_counter() + seconds > deadline:
            break
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="A tiny model and short completions.")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="Engines to run.")
    parser.add_argument("--rollouts", type=int, default=256, help="Completions a step, a multiple of 8.")
    parser.add_argument("--longest", type=int, default=1024, help="Longest completion in tokens.")
    parser.add_argument("--rounds", type=int, default=3, help="Timed steps of each engine.")
    parser.add_argument("--seconds", type=float, default=600, help="Time of all engines, in equal shares.")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), help="Folder for the results.")
    parser.add_argument("--run", nargs=2, metavar=("FOLDER", "RESULTS"), help=argparse.SUPPRESS)  # one engine
    args = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # with more cards in sight, Trainer wants to be launched
    if args.tiny:
        args.rollouts, args.longest = 32, 64
    if args.run:
        folder, results = args.run
        deadline = time.perf_counter() + args.seconds
        rows = run_engine(args.engines[0], folder, args.longest, args.rollouts, args.rounds, deadline)
        Path(results).write_text(json.dumps(rows))
        return

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    about = {
        "hardware": name,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
        "trl": trl.__version__,
        "python": platform.python_version(),
        "model": "random tiny Qwen3" if args.tiny else "random Qwen3-0.6B",
        "settings": {"rollouts": args.rollouts, "longest": args.longest, "prompt_length": PROMPT_LENGTH},
    }
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"rollout-{'tiny-' if args.tiny else ''}{name.lower().replace(' ', '-')}.json"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, args.tiny, args.longest)
        options = ["--rollouts", str(args.rollouts), "--longest", str(args.longest), "--rounds", str(args.rounds)]
        options += ["--seconds", str(args.seconds / len(args.engines))] + (["--tiny"] if args.tiny else [])
        for engine in args.engines:
            if engine == "vllm":
                if importlib.util.find_spec("vllm") is None:
                    print("vllm is not installed: left out")
                    continue
                package = importlib.metadata.packages_distributions()["vllm"][0]  # its build for CPUs has another name
                about["vllm"] = importlib.metadata.version(package)
            results = Path(folder) / f"{engine}.json"
            command = [sys.executable, __file__, *options, "--engines", engine, "--run", folder, str(results)]
            if subprocess.run(command).returncode:
                print(f"{engine} failed, see above: left out")
                continue
            rows += json.loads(results.read_text())
            path.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")

    for engine in dict.fromkeys(row["engine"] for row in rows):
        of_engine = [row for row in rows if row["engine"] == engine]
        warm = [row for row in of_engine if not row["warm_up"]]
        speeds = [row["tokens"] / row["seconds"] for row in warm or of_engine]
        print(
            f"{engine:<11} {statistics.median(speeds):>8.0f} tokens/s ({min(speeds):.0f} to {max(speeds):.0f})"
            f"{'' if warm else ', warming up'}"
        )


if __name__ == "__main__":
    main()
