"""Length grouping as pure functions of tensors.

TRL cuts a generation batch into micro-batches in random order, all as wide as its longest prompt plus its longest
completion. The functions here plan other cuts (few long rows or many short ones together), regroup batches
accordingly, and lay rows out without padding before or between their tokens. `trainer` decides when that does not
change the gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

WIDTH_MULTIPLE = 64  # widths are rounded up to it: shapes that recur need no new memory and suit tensor cores
# Fixed time of a forward and backward pass (launching kernels, gathering weights), in tokens: 3,400 and 5,700 for
# Qwen3-0.6B on two H200, up to 19,500 on an H100 (benchmarks/pass_cost.py).
PASS_COST = 8192


def width_multiple(longest: int | None) -> int:
    """
    The multiple that widths are rounded up to: `WIDTH_MULTIPLE`, or for short completions a power of two, of at least
    8 and at most an eighth of the longest.

    ```python
    >>> from coda_trl.length_grouping.microbatch import width_multiple

    >>> [width_multiple(longest) for longest in (48, 256, 512, 16_384, None)]
    [8, 32, 64, 64, 64]

    ```
    """
    if longest is None or longest >= 8 * WIDTH_MULTIPLE:
        return WIDTH_MULTIPLE
    return max(8, 2 ** ((longest // 8).bit_length() - 1))


def cheapest_fill(
    widths: Sequence[int], budget: int, most: int | None = None, pass_cost: int = PASS_COST
) -> list[int]:
    """
    Rows of each micro-batch, filled in order, such that tokens (padding included) and passes together cost least (by
    dynamic programming over the start of the last micro-batch).

    `widths` are the tokens of each row, descending. A micro-batch has at most `budget` tokens, padding included,
    unless it is a single wider row. The cost of a pass, in tokens, is doubled until there are at most `most`
    micro-batches, which must suffice for the budget.

    ```python
    >>> from coda_trl.length_grouping.microbatch import cheapest_fill

    >>> cheapest_fill([1000, 500, 500, 100, 100, 100, 100, 100], budget=1500, pass_cost=100)
    [1, 2, 5]
    >>> cheapest_fill([1000, 500, 500, 100, 100, 100, 100, 100], budget=5000, pass_cost=1000)
    [3, 5]

    ```
    """
    costs, starts = [0], [0]  # the least cost of the first rows, and the start of their last micro-batch
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
    """Masks all of the `rows`, a mask `(B,)`, but their last prompt token, the least that a forward pass takes."""
    prompt_mask = batch["prompt_mask"].clone()
    prompt_mask[rows, :-1] = 0
    return batch | {
        "prompt_mask": prompt_mask,
        "completion_mask": batch["completion_mask"].masked_fill(rows.unsqueeze(1), 0),
    }


def regroup(batches: Sequence[dict[str, torch.Tensor]], plan: Sequence[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """
    Makes new batches of the rows of batches with the same keys. `plan` has the indices of the rows of each new batch,
    counted over all batches. A tensor without dimensions belongs to all rows.
    """
    merged = {
        key: value if value.ndim == 0 else torch.cat([batch[key] for batch in batches])
        for key, value in batches[0].items()
    }
    return [{key: value if value.ndim == 0 else value[rows] for key, value in merged.items()} for rows in plan]


def trim(batch: dict[str, torch.Tensor], multiple: int) -> dict[str, torch.Tensor]:
    """
    Cuts off the columns after the longest completion of a batch, whose `completion_mask` is 1 for tokens, 0 after
    them: at full width, the loss of hundreds of short rows would take more memory than that of a few long ones. Up to
    twice `multiple` more columns stay, for rows to be rounded up.
    """
    width = int(padded_widths(batch["completion_mask"], multiple).max()) + multiple
    return {
        key: value if key.startswith("prompt_") or value.ndim < 2 else value[:, :width] for key, value in batch.items()
    }


def padded_widths(attention_mask: torch.Tensor, multiple: int) -> torch.Tensor:
    """Width, shape `(B,)`, that each row of a mask `(B, T)` needs: its tokens, rounded up, but at most `T`."""
    lengths = attention_mask.sum(dim=1)
    return (-(-lengths // multiple) * multiple).clamp(min=multiple, max=attention_mask.size(1))


@dataclass(frozen=True)
class LeftAligned:
    """
    Rows of prompt and completion, cut to the longest, with all padding after the last token. Under causal attention
    such rows need no mask, and without one attention can use its fastest kernels.
    """

    input_ids: torch.Tensor  # `(B, W)`. What follows a row's last token means nothing
    attention_mask: torch.Tensor  # `(B, W)`: 1 for tokens, 0 after them
    # `(B, W)`: original column of each token, its position in TRL. Rotary embeddings depend on distances alone, but
    # their rounding does not: counted from elsewhere, float32 gradients can differ by more than 1e-5.
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
        Lays out rows `(B, P+C)` of left-padded prompts and right-padded completions, these of width `logits_to_keep`.
        The new width is rounded up to a multiple of `multiple`.
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
        """Values `(B, logits_to_keep)` of the last columns, in the original columns `(B, C)`; 0 without a token."""
        return values.gather(1, self.columns).masked_fill(self.padding, 0)
