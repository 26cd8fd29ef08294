"""Evaluates one trained run on the ladder and writes its summary. Started by `reproduce.py`.

python benchmarks/ladder/evaluate_run.py --name coda --seed 0 --model runs/x/model --work runs/x --out results
"""

import argparse
import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml
from matrix import RUNS
from summaries import summarise_samples, summary_path, thin_log, write_summary

from coda_trl import __version__
from coda_trl.analysis.dynamics import find_trainer_state, read_log_history
from coda_trl.evaluation import EvaluationConfig, read_samples
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.evaluation.runner import evaluate
from coda_trl.evaluation.samples import SAMPLES_FILE
from coda_trl.ladder import CHECKPOINT
from coda_trl.ladder.evaluate import MAX_COMPLETION_LENGTH

SAMPLES = 8
ROOT = Path(__file__).resolve().parent.parent.parent


def evaluate_budget(model: str, folder: Path, seed: int, budget: int | None, n: int, limit: int | None) -> dict:
    """Samples answers with one token budget (or none) and sums them up, see [`summarise_samples`]."""
    config = EvaluationConfig(
        model_name_or_path=model,
        output_dir=str(folder),
        engine="transformers",
        n=n,
        max_tokens=MAX_COMPLETION_LENGTH,
        seed=seed,
        token_budget=budget,
        batch_size=400,
        dtype="float32",
    )
    done = evaluate(config, [load_benchmark("ladder", budget, limit=limit)])
    seconds = round(done["wall_seconds"], 1)
    return {"budget": budget, "seconds": seconds, **summarise_samples(read_samples(folder / SAMPLES_FILE))}


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    packages = ("torch", "transformers", "trl", "accelerate")
    return {"coda_trl": __version__, "python": platform.python_version()} | {name: version(name) for name in packages}


def shared_settings(recipe: str | None, log_history: list[dict]) -> dict[str, Any]:
    """What the runs of one table must have in common: the checkpoint, and how it was trained."""
    checkpoint = hashlib.sha256((Path(CHECKPOINT) / "model.safetensors").read_bytes()).hexdigest()[:12]
    if recipe is None:
        return {"checkpoint": checkpoint}
    settings = yaml.safe_load((ROOT / f"recipes/ladder/{recipe}.yaml").read_text())
    names = ("learning_rate", "lr_scheduler_type", "max_completion_length")
    steps = max(entry["step"] for entry in log_history)
    return {"checkpoint": checkpoint, "steps": steps} | {name: settings[name] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True, choices=RUNS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True, help="Folder of the run, with `model` and `train.json`.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, default=SAMPLES, help="Samples of a problem (default: %(default)s).")
    parser.add_argument("--limit", type=int, help="Only the first so many problems.")
    args = parser.parse_args()

    run, model = RUNS[args.name], args.work / "model"
    history: list[dict] = []
    seconds = 0.0
    if run.recipe is not None:
        history = read_log_history(find_trainer_state(model))
        seconds = json.loads((args.work / "train.json").read_text())["seconds"]
    evaluations = [
        evaluate_budget(
            CHECKPOINT if run.recipe is None else str(model),
            args.work / ("eval" if budget is None else f"eval-{budget}"),
            args.seed,
            budget,
            args.n,
            args.limit,
        )
        for budget in run.budgets
    ]
    content = {
        "name": args.name,
        "seed": args.seed,
        "recipe": run.recipe,
        "overlays": run.overlays,
        "overrides": run.overrides,
        "shared": shared_settings(run.recipe, history),
        "train_seconds": seconds,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "versions": versions(),
        "evaluations": evaluations,
        "log": thin_log(history) if history else {},
    }
    write_summary(summary_path(args.out, args.name, args.seed), content)


if __name__ == "__main__":
    main()
