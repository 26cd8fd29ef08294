"""Micro-batches as long as they need to be, as pure functions of tensors.

TRL cuts a generation batch into micro-batches in random order, all as wide as its longest prompt plus its longest
completion. The functions here plan other cuts (few long rows or many short ones together), regroup batches
accordingly, and lay rows out without padding between or before their tokens. `trainer` decides when that
leaves the gradient as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

WIDTH_MULTIPLE = 64  # widths are rounded up to it: shapes that recur need no new memory and suit tensor cores
# Time that a forward and backward pass takes whatever its length (launching kernels, gathering weights), in tokens:
# 3,400 and 5,700 for Qwen3-0.6B on two H200, up to 19,500 on an H100 (benchmarks/pass_cost.py).
PASS_COST = 8192


def width_multiple(longest: int | None) -> int:
    """
    What to round widths up to: `WIDTH_MULTIPLE`, or a power of two of at most an eighth of the longest completion.

    ```python
    >>> from coda_trl.length_grouping.microbatch import width_multiple

    >>> [width_multiple(longest) for longest in (48, 256, 512, 16_384)]
    [8, 32, 64, 64]

    ```
    """
    if longest is None or longest >= 8 * WIDTH_MULTIPLE:
        return WIDTH_MULTIPLE
    return max(8, 2 ** ((longest // 8).bit_length() - 1))


def cheapest_fill(
    widths: Sequence[int], budget: int, most: int | None = None, pass_cost: int = PASS_COST
) -> list[int]:
    """
    Rows of each micro-batch, filled in order so that the tokens of all, padding included, and the passes cost as
    little as possible together (by dynamic programming over where the last micro-batch begins).

    `widths` are the tokens of each row, descending; none but a wider row alone makes a micro-batch of more than
    `budget` tokens, padding included. The cost of a pass, in tokens, is doubled until there are no more micro-batches
    than `most`, which has to suffice for the budget.

    ```python
    >>> from coda_trl.length_grouping.microbatch import cheapest_fill

    >>> cheapest_fill([1000, 500, 500, 100, 100, 100, 100, 100], budget=1500, pass_cost=100)
    [1, 2, 5]
    >>> cheapest_fill([1000, 500, 500, 100, 100, 100, 100, 100], budget=5000, pass_cost=1000)
    [3, 5]

    ```
    """
    costs, starts = [0], [0]  # of the cheapest micro-batches of the first rows, and where their last one begins
    for end in range(1, len(widths) + 1):
        options = [(costs[end - 1] + widths[end - 1] + pass_cost, end - 1)]
        for start in range(end - 2, -1, -1):
            tokens = widths[start] * (end - start)
            if tokens > budget:
                break
            options.append((costs[start] + tokens + pass_cost, start))
        cost, start = min(options)
        costs.append(cost)
        starts.append(start)
    counts, end = [], len(widths)
    while end > 0:
        counts.insert(0, end - starts[end])
        end = starts[end]
    if most is not None and len(counts) > most:
        return cheapest_fill(widths, budget, most, 2 * pass_cost)
    return counts


def blank(batch: dict[str, torch.Tensor], rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """
    Masks all of some rows but the last token of their prompts, the least that a forward pass can take. `rows` is
    `True` for these rows, shape `(B,)`.
    """
    prompt_mask = batch["prompt_mask"].clone()
    prompt_mask[rows, :-1] = 0
    return batch | {
        "prompt_mask": prompt_mask,
        "completion_mask": batch["completion_mask"].masked_fill(rows.unsqueeze(1), 0),
    }


def regroup(batches: Sequence[dict[str, torch.Tensor]], plan: Sequence[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """
    Makes new batches of the rows of batches that have the same keys. `plan` holds indices, among the rows of all
    batches, for each new batch. A tensor without dimensions belongs to all rows.
    """
    merged = {
        key: value if value.ndim == 0 else torch.cat([batch[key] for batch in batches])
        for key, value in batches[0].items()
    }
    return [{key: value if value.ndim == 0 else value[rows] for key, value in merged.items()} for rows in plan]


def trim(batch: dict[str, torch.Tensor], multiple: int) -> dict[str, torch.Tensor]:
    """
    Cuts off the columns after the longest completion of a batch, whose `completion_mask` is 1 for tokens, 0 after
    them. The loss of hundreds of short rows, as wide as the longest completion of all batches, would take more memory
    than that of a few long rows ever does. Up to twice `multiple` columns more stay, for rows to be rounded up.
    """
    width = int(padded_widths(batch["completion_mask"], multiple).max()) + multiple
    return {
        key: value if key.startswith("prompt_") or value.ndim < 2 else value[:, :width] for key, value in batch.items()
    }


def padded_widths(attention_mask: torch.Tensor, multiple: int) -> torch.Tensor:
    """Width that each row of a mask `(B, T)` needs: its tokens, rounded up, but at most `T`. Shape `(B,)`."""
    lengths = attention_mask.sum(dim=1)
    return (-(-lengths // multiple) * multiple).clamp(min=multiple, max=attention_mask.size(1))


@dataclass(frozen=True)
class LeftAligned:
    """
    Rows of prompt and completion with all padding moved after the last token, and cut to the longest row.

    Under causal attention no token sees what comes after it, so such rows need no attention mask. Without one,
    attention can use its fastest kernels.
    """

    input_ids: torch.Tensor  # `(B, W)`. What follows a row's last token means nothing
    attention_mask: torch.Tensor  # `(B, W)`: 1 for tokens, 0 after them
    # `(B, W)`: column of each token before, its position in TRL. To rotary embeddings only distances matter, but not
    # to their rounding: counted from elsewhere, float32 gradients can differ by more than 1e-5.
    position_ids: torch.Tensor
    completion_mask: torch.Tensor  # `(B, W)`: 1 for the tokens of the completion
    logits_to_keep: int  # number of last columns that hold all completions
    columns: torch.Tensor  # `(B, C)`: where, among these last columns, each original completion column went
    padding: torch.Tensor  # `(B, C)`: `True` in the original completion columns that hold no token

    @classmethod
    def of(
        cls, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, multiple: int
    ) -> "LeftAligned":
        """
        Lays out rows `(B, P+C)` again: prompts padded on the left, completions, of width `logits_to_keep`, on the
        right. The new width is rounded up to a multiple of `multiple`.
        """
        device = input_ids.device
        prompt_width = input_ids.size(1) - logits_to_keep
        prompt_lengths = attention_mask[:, :prompt_width].sum(dim=1, keepdim=True)
        lengths = attention_mask.sum(dim=1, keepdim=True)
        width = int(padded_widths(attention_mask, multiple).max())
        position = torch.arange(width, device=device)

        position_ids = prompt_width - prompt_lengths + position
        new_mask = (position < lengths).to(attention_mask.dtype)
        kept = max(1, width - int(prompt_lengths.min()))
        columns = prompt_lengths - (width - kept) + torch.arange(logits_to_keep, device=device)
        return cls(
            input_ids=input_ids.gather(1, position_ids.clamp(max=input_ids.size(1) - 1)),
            attention_mask=new_mask,
            position_ids=position_ids,
            completion_mask=new_mask * (position >= prompt_lengths),
            logits_to_keep=kept,
            columns=columns.clamp(max=kept - 1),
            padding=attention_mask[:, prompt_width:] == 0,
        )

    def restore(self, values: torch.Tensor) -> torch.Tensor:
        """Values `(B, logits_to_keep)` of the last columns in the original columns `(B, C)`, 0 without a token."""
        return values.gather(1, self.columns).masked_fill(self.padding, 0)
