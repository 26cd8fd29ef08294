"""Evaluates one run on the word problems and writes its summary. Started by `run_all.py`.

Until it is done, there is a summary of the training alone, in case the machine goes in the meantime.

python benchmarks/word_problems/evaluate_model.py --name coda --seed 0 --model runs/x/model --work runs/x --out results
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import yaml
from demonstrations import rechecks, style_of
from make_data import DATA, TEST

from coda_trl.analysis.dynamics import find_trainer_state, read_log_history
from coda_trl.evaluation import EvaluationConfig, read_samples
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.evaluation.runner import evaluate
from coda_trl.evaluation.samples import SAMPLES_FILE

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE.parent / "ladder"))

from evaluate_run import versions  # noqa: E402
from matrix import RUNS  # noqa: E402
from summaries import summarise_samples, summary_path, thin_log, write_summary  # noqa: E402

SAMPLES = 8
MAX_TOKENS = 384
LOG_EVERY = 4
# Within the results: trainings whose evaluation has not come to its end.
UNEVALUATED = "without_evaluation"
# Bytes, fixed because trainings beside an evaluation come and go: twice what 256 answers of 600 tokens need.
KV_CACHE = 8 * 2**30


def settings_of(model: str, folder: Path, seed: int, tiny: bool) -> EvaluationConfig:
    """The paper's sampling, with vLLM on a small part of a card; a rehearsal runs on the CPU."""
    size: dict[str, Any] = {"n": SAMPLES, "max_tokens": MAX_TOKENS, "engine": "vllm", "dtype": "bfloat16"}
    size |= {"gpu_memory_utilization": 0.12, "kv_cache_memory_bytes": KV_CACHE}
    if tiny:
        size = {"n": 2, "max_tokens": 24, "engine": "transformers", "dtype": "float32"}
    return EvaluationConfig(model_name_or_path=model, output_dir=str(folder), seed=seed, **size)


def shared_settings(start: Path, log_history: list[dict]) -> dict[str, Any]:
    """What the runs of one table must have in common: where they start, and how they are trained."""
    checkpoint = hashlib.sha256((start / "model.safetensors").read_bytes()).hexdigest()[:12]
    if not log_history:
        return {"checkpoint": checkpoint}
    return {"checkpoint": checkpoint, "steps": max(entry["step"] for entry in log_history)}


def trained_with(recipe: str, log_history: list[dict]) -> dict[str, Any]:
    """Further settings of a training: the schedule, and the highest learning rate that was logged."""
    settings = yaml.safe_load((ROOT / f"recipes/word_problems/{recipe}.yaml").read_text())
    rate = max(entry.get("learning_rate", 0.0) for entry in log_history)
    return {"lr_scheduler_type": settings["lr_scheduler_type"], "learning_rate": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True, choices=RUNS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--model", required=True, help="Folder of the model.")
    parser.add_argument("--start", type=Path, required=True, help="Folder of the model that all runs start from.")
    parser.add_argument("--work", type=Path, required=True, help="Scratch of the run, with `train.json`.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--tiny", action="store_true", help="A rehearsal: one problem a rung, two samples, on the CPU."
    )
    args = parser.parse_args()

    history: list[dict] = []
    shared, seconds, run = {}, 0.0, RUNS[args.name]
    if run.recipe is not None:
        history = read_log_history(find_trainer_state(args.work / "model"))
        seconds = json.loads((args.work / "train.json").read_text())["seconds"]
        shared = trained_with(run.recipe, history)
    content = {
        "name": args.name,
        "seed": args.seed,
        "recipe": run.recipe,
        "shared": shared_settings(args.start, history) | shared,
        "train_seconds": seconds,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "versions": versions(),
        "evaluations": [],
        "log": thin_log(history, LOG_EVERY) if history else {},
    }
    of_training = summary_path(args.out / UNEVALUATED, args.name, args.seed)
    if run.recipe is not None:
        write_summary(of_training, content)
    benchmark = load_benchmark(f"custom={DATA / TEST}", limit=6 if args.tiny else None)
    done = evaluate(settings_of(args.model, args.work / "eval", args.seed, args.tiny), [benchmark])
    samples = summarise_samples(read_samples(args.work / "eval" / SAMPLES_FILE), style_of, rechecks)
    content["evaluations"] = [{"budget": None, "seconds": round(done["wall_seconds"], 1), **samples}]
    write_summary(of_training, content)  # and moved: no run is ever in both places
    of_training.replace(summary_path(args.out, args.name, args.seed))


if __name__ == "__main__":
    main()
