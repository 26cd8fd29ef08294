"""Accuracy and tokens of a model on every rung.

python -m coda_trl.ladder.evaluate MODEL [--problems N] [--samples N] [--temperature T]
"""

import argparse
import random
from collections import Counter

import torch
from tqdm.auto import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from . import CHECKPOINT
from .problems import RUNGS, grade, sample_problem

MAX_COMPLETION_LENGTH = 40


def style_of(completion: str) -> str:
    """The style a completion is written in: `"direct"`, `"totals"`, `"check"` or `"verbose"`."""
    words = completion.split()
    if "verify" in words:
        return "check"
    return {"ans": "direct", "okay": "verbose"}.get(words[0] if words else "", "totals")


@torch.inference_mode()
def sample_completions(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: list[str],
    samples: int = 8,
    temperature: float = 0.6,
    top_p: float = 0.95,
    batch_size: int = 512,
) -> list[list[tuple[str, int]]]:
    """
    Samples completions of ladder questions.

    Args:
        questions (`list[str]`):
            Questions, all of about the same length.
        samples (`int`, *optional*, defaults to `8`):
            Completions per question.
        temperature (`float`, *optional*, defaults to `0.6`):
            Sampling temperature; 0 decodes greedily.
        top_p (`float`, *optional*, defaults to `0.95`):
            Nucleus sampling.
        batch_size (`int`, *optional*, defaults to `512`):
            Completions generated at once.

    Returns:
        `list[list[tuple[str, int]]]`: For every question its completions: text, and tokens with the end of sequence.
    """
    sampling = {"do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0}
    if temperature == 0:
        sampling = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    completions = []
    per_batch = max(1, batch_size // samples)
    for start in range(0, len(questions), per_batch):
        texts = [f"{question} " for question in questions[start : start + per_batch]]
        inputs = tokenizer(texts, return_tensors="pt", padding=True).to(model.device)
        output = model.generate(
            **inputs, num_return_sequences=samples, max_new_tokens=MAX_COMPLETION_LENGTH, **sampling
        )[:, inputs.input_ids.shape[1] :]
        lengths = (output != tokenizer.pad_token_id).sum(dim=1).tolist()
        decoded = tokenizer.batch_decode(output, skip_special_tokens=True)
        rows = list(zip(decoded, lengths, strict=True))
        completions += [rows[i : i + samples] for i in range(0, len(rows), samples)]
    return completions


def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    problems: int = 100,
    samples: int = 8,
    temperature: float = 0.6,
    top_p: float = 0.95,
    seed: int = 1,
) -> list[dict]:
    """
    Measures a model on every rung, on problems that depend on `seed` alone.

    Args:
        problems (`int`, *optional*, defaults to `100`):
            Problems per rung.
        samples (`int`, *optional*, defaults to `8`):
            Completions per problem.
        temperature (`float`, *optional*, defaults to `0.6`), top_p (`float`, *optional*, defaults to `0.95`):
            Sampling, the paper's by default. Temperature 0 decodes greedily.
        seed (`int`, *optional*, defaults to `1`):
            Seed of the problems and of the sampling.

    Returns:
        `list[dict]`: Per rung `rung`, `samples` (count), `accuracy`, `tokens` (mean), `hard_share` (share of problems
        with fewer than a quarter of the samples right) and `styles` (share and accuracy of every style).
    """
    torch.manual_seed(seed)
    model.eval()
    rows = []
    for rung in tqdm(RUNGS, desc="evaluate", unit="rung", leave=False):
        rng = random.Random(f"evaluation-{seed}-{rung}")
        drawn = [sample_problem(rung, rng) for _ in range(problems)]
        completions = sample_completions(
            model, tokenizer, [problem.question for problem in drawn], samples, temperature, top_p
        )
        right = [[grade(text, p.answer) for text, _ in group] for p, group in zip(drawn, completions, strict=True)]
        flat = [(style_of(text), ok) for group, oks in zip(completions, right, strict=True)
                for (text, _), ok in zip(group, oks, strict=True)]  # fmt: skip
        count = problems * samples
        used, correct = Counter(style for style, _ in flat), Counter(style for style, ok in flat if ok)
        rows.append(
            {
                "rung": rung,
                "samples": count,
                "accuracy": sum(map(sum, right)) / count,
                "tokens": sum(length for group in completions for _, length in group) / count,
                "hard_share": sum(sum(oks) < samples / 4 for oks in right) / problems,
                "styles": {style: (n / count, correct[style] / n) for style, n in sorted(used.items())},
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coda_trl.ladder.evaluate", description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default=CHECKPOINT)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.6)
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    for row in evaluate(model, tokenizer, args.problems, args.samples, args.temperature):
        styles = "  ".join(f"{style} {share:.0%} ({right:.2f})" for style, (share, right) in row["styles"].items())
        print(
            f"rung {row['rung']}: accuracy {row['accuracy']:.3f}, {row['tokens']:.1f} tokens, "
            f"hard {row['hard_share']:.0%}; {styles}"
        )


if __name__ == "__main__":
    main()
