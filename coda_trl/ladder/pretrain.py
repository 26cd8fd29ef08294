"""Trains the shipped checkpoint: a small Qwen3, trained from scratch on demonstrations in four styles.

python -m coda_trl.ladder.pretrain --out DIR [--steps N] [--seed S]
"""

import argparse
import math
import random
import time

import torch
from tqdm.auto import tqdm
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from .problems import sample_problem
from .styles import STYLE_SHARES, demonstrate
from .tokenizer import build_tokenizer

# Share of each rung in the demonstrations.
RUNG_SHARES = {1: 0.10, 2: 0.10, 3: 0.15, 4: 0.20, 5: 0.20, 6: 0.25}
# A direct answer is one token among the many of longer styles; without a weight it would hardly be learned.
DIRECT_ANSWER_WEIGHT = 5
# Share of the demonstrations that ask for a length, and its range relative to their own: the model has read such
# sentences, like language models, but was not trained to obey them.
BUDGET_SHARE = 0.2
BUDGET_RANGE = (0.5, 1.5)
# Tokens of the longest demonstration, with its prompt.
MAX_LENGTH = 68
CHUNK = 20_000  # demonstrations that share a random generator


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A freshly initialised ladder model of about half a million parameters."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    return Qwen3ForCausalLM(config)


def make_demonstrations(
    count: int, seed: int, tokenizer: PreTrainedTokenizerFast
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (int16) of demonstrations and their weights in the loss (uint8), shape `(count, MAX_LENGTH)`."""
    ids_of = tokenizer.get_vocab()
    input_ids = torch.full((count, MAX_LENGTH), tokenizer.pad_token_id, dtype=torch.int16)
    weights = torch.zeros((count, MAX_LENGTH), dtype=torch.uint8)
    for start in range(0, count, CHUNK):
        rng = random.Random(f"demonstrations-{seed}-{start // CHUNK}")
        rungs = rng.choices(list(RUNG_SHARES), list(RUNG_SHARES.values()), k=min(CHUNK, count - start))
        for i, rung in enumerate(rungs, start):
            problem = sample_problem(rung, rng)
            style = rng.choices(list(STYLE_SHARES[rung]), list(STYLE_SHARES[rung].values()))[0]
            prompt = problem.question.split()
            words = [*demonstrate(problem, style), tokenizer.eos_token]
            if rng.random() < BUDGET_SHARE:
                budget = max(1, round(len(words) * rng.uniform(*BUDGET_RANGE)))
                prompt += ["Think", "for", str(budget), "tokens."]
            weight = [0] * len(prompt) + [1] * len(words)
            if style == "direct":
                weight[-2] = DIRECT_ANSWER_WEIGHT
            input_ids[i, : len(weight)] = torch.tensor([ids_of[word] for word in prompt + words])
            weights[i, : len(weight)] = torch.tensor(weight)
    return input_ids, weights


def pretrain(
    out: str,
    steps: int = 4_000,
    batch_size: int = 256,
    demonstrations: int = 400_000,
    learning_rate: float = 2e-3,
    seed: int = 0,
    device: str = "cuda" if torch.cuda.is_available() else "cpu",
) -> None:
    """
    Trains the ladder model on batches drawn from `demonstrations` of them, and saves it with its tokenizer in bfloat16
    in the folder `out`. The rate of AdamW peaks after 200 steps, then falls as a cosine to zero.
    """
    start = time.perf_counter()
    torch.manual_seed(seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / 200, 0.5 * (1 + math.cos(math.pi * step / steps)))
    )
    input_ids, weights = (tensor.to(device) for tensor in make_demonstrations(demonstrations, seed, tokenizer))

    for step in (progress := tqdm(range(steps), unit="step", mininterval=2)):
        rows = torch.randint(demonstrations, (batch_size,)).to(device)
        batch, weight = input_ids[rows].long(), weights[rows].float()
        width = int((batch != tokenizer.pad_token_id).any(dim=0).sum())
        batch, weight = batch[:, :width], weight[:, :width]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device != "cpu"):
            logits = model(input_ids=batch[:, :-1]).logits
        losses = torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), batch[:, 1:].flatten(), reduction="none"
        )
        # Divided by a constant: in a mean over tokens, the weight of a style would depend on the lengths in its batch.
        loss = (losses * weight[:, 1:].flatten()).sum() / (16 * batch_size)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            progress.set_postfix(loss=f"{loss.item():.4f}")

    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    print(f"{steps} steps in {time.perf_counter() - start:.0f} s on {device}; saved to {out}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coda_trl.ladder.pretrain", description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    pretrain(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
