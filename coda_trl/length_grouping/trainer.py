"""GRPO on micro-batches grouped by length: overrides of TRL's trainer, and when its order must stay."""

import math
import warnings
from pathlib import Path

import torch
from accelerate.utils import gather, is_peft_model
from datasets import Dataset
from transformers.utils.generic import is_flash_attention_requested
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import get_config_model_id
from typing_extensions import override

from ..compatibility import check_overrides, scores_by_calling, with_signature_of
from ..config import LengthGroupedGRPOConfig
from ..data_checks import check_number_of_prompts
from .microbatch import LeftAligned, blank, cheapest_fill, padded_widths, regroup, trim, width_multiple
from .padding import values_ignore_padding

# Losses that are means over the rows of a micro-batch, so that it counts by its share of rows, and losses that are
# sums over its tokens, divided by the tokens of all micro-batches. For others, such as a newer TRL's, rows stay in
# place.
_ROW_MEAN_LOSSES = ("grpo", "sapo", "dr_grpo", "luspo")
_TOKEN_SUM_LOSSES = ("dapo", "cispo", "vespo")
# Metrics that TRL averages over the tokens of a micro-batch; the latter over rows if importance sampling is by
# sequence.
_TOKEN_METRICS = ("kl", "entropy")
_CLIP_METRICS = ("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio")


def _loss_mask(batch):
    """1 for tokens in the loss: those that the model wrote itself."""
    return batch["completion_mask"] * batch.get("tool_mask", 1)


# Methods that, where a script has its own, may need TRL's micro-batches or add what cannot be regrouped.
_SEE_MICRO_BATCHES = ("_generate_and_score_completions", "compute_loss", "_compute_loss")


def _what_sees_micro_batches(trainer):
    # If TRL lacks one, `check_overrides` says so when a trainer is made.
    return [getattr(each, name, None) for each in (trainer, GRPOTrainer) for name in _SEE_MICRO_BATCHES]


class LengthGroupedGRPOTrainer(GRPOTrainer):
    """
    GRPO with TRL's gradients and without TRL's padding: micro-batches are only as wide as they need to be.

    TRL pads every micro-batch to the longest prompt and completion of the process's generation batch
    ([trl#7179](https://github.com/huggingface/trl/issues/7179)). If `args.length_grouping` is set, three methods
    differ (`docs/performance.md` has exceptions and consequences):

    - `_prepare_inputs` cuts the rows of each optimizer step into micro-batches of similar length; the remaining ones
      are empty. All processes cut alike, so that their forward passes stay in step: a process with fewer rows to train
      on than another (`args.skip_zero_advantages` leaves some out) adds rows of a single token, as does a step without
      rows.
    - `_get_per_token_logps_and_entropies` lays rows out without padding before or between their tokens, as wide as the
      longest.
    - `_compute_loss` weighs means over a micro-batch, losses and metrics, by the micro-batch's share. For an empty one
      it runs no model, and no backward pass follows.

    Args:
        model, reward_funcs, args, train_dataset, eval_dataset, ...:
            As in [`~trl.GRPOTrainer`], with `args` a [`LengthGroupedGRPOConfig`].

    Raises:
        RuntimeError: If the installed TRL is not one that this trainer knows how to extend.
        TypeError: If `args` is not a [`LengthGroupedGRPOConfig`].
        ValueError: If the dataset holds fewer prompts than a batch.

    Example:

    ```python
    from coda_trl import LengthGroupedGRPOConfig, LengthGroupedGRPOTrainer  # instead of GRPOConfig, GRPOTrainer
    from trl.rewards import accuracy_reward

    trainer = LengthGroupedGRPOTrainer(
        model="Qwen/Qwen3-0.6B",
        reward_funcs=accuracy_reward,
        args=LengthGroupedGRPOConfig(output_dir="qwen3-0.6b-grpo"),
        train_dataset=dataset,
    )
    trainer.train()
    ```
    """

    _config_class = LengthGroupedGRPOConfig

    @with_signature_of(GRPOTrainer.__init__)
    def __init__(self, model, reward_funcs=None, args=None, train_dataset=None, eval_dataset=None, *others, **options):
        check_overrides(LengthGroupedGRPOTrainer)
        args = self._own_config(model, args)
        self._check_arguments(reward_funcs, args, train_dataset, eval_dataset, options)
        super().__init__(model, reward_funcs, args, train_dataset, eval_dataset, *others, **options)
        peft_type = self.model.active_peft_config.peft_type.value if is_peft_model(self.model) else None
        self._model_ignores_padding = values_ignore_padding(self.model.config, peft_type)
        if self.args.length_grouping and not self._model_ignores_padding and self.accelerator.is_main_process:
            what = ", ".join(filter(None, (self.model.config.model_type, peft_type)))
            warnings.warn(
                f"`length_grouping` has no effect: no test has shown that this model ({what}) computes the same "
                "wherever padding is. Set it to False.",
                stacklevel=2,
            )

    def _check_arguments(self, reward_funcs, args, train_dataset, eval_dataset, options):
        """Refuses arguments, or warns of them, before weights are loaded, which may take minutes."""
        if isinstance(train_dataset, Dataset):
            check_number_of_prompts(args, len(train_dataset))

    def _own_config(self, model, args):
        """`args`, or by default, as in TRL's trainers, a configuration named after the model."""
        config = self._config_class
        if args is None:
            model_name = model if isinstance(model, str) else get_config_model_id(model.config)
            return config(f"{model_name.split('/')[-1]}-{self._name}")
        if not isinstance(args, config):
            raise TypeError(
                f"`args` is a {type(args).__name__}, but {type(self).__name__} takes a {config.__name__}, which has "
                "every field of GRPOConfig: put it in its place, or derive your class from it."
            )
        return args

    @override
    def create_model_card(self, *args, **options):
        super().create_model_card(*args, **options)
        card = Path(self.args.output_dir, "README.md")
        if self.is_world_process_zero():  # what is not on the hub is called None
            name = Path(get_config_model_id(self.model.config)).name
            start = f"`{name}`" if name else "a model without a name"
            text = card.read_text(encoding="utf-8").replace("[None](https://huggingface.co/None)", start)
            card.write_text(text.replace('model="None"', f'model="{self.args.output_dir}"'), encoding="utf-8")

    @override
    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        backward = self.accelerator.backward

        # A backward pass without a model does nothing in PyTorch, but DeepSpeed's engine would count it and mistake
        # other gradients for the first of a step.
        def backward_unless_empty(loss, **kwargs):
            if not self._micro_batch_is_empty:
                backward(loss, **kwargs)

        self._micro_batch_is_empty = False
        self.accelerator.backward = backward_unless_empty

    @override
    def _prepare_inputs(self, generation_batch):
        buffered = self._buffered_inputs
        self._old_logps_are_due = False
        inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is buffered or not self._regroups:
            return inputs
        # Optimizer steps begin at multiples of the former, passes over the buffer at multiples of the latter, so
        # blocks of their greatest common divisor never straddle two optimizer steps.
        size = math.gcd(self.args.gradient_accumulation_steps, self.args.steps_per_generation)
        batches = self._buffered_inputs
        self._buffered_inputs = [
            micro_batch
            for start in range(0, len(batches), size)
            for micro_batch in self._group_by_length(batches[start : start + size])
        ]
        if self._old_logps_are_due:
            self._add_old_logps(filter(None, self._buffered_inputs))
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _add_old_logps(self, micro_batches):
        with torch.no_grad(), disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            for batch in micro_batches:
                input_ids, mask = (
                    torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
                    for name in ("ids", "mask")
                )
                batch["old_per_token_logps"], _, _ = self._get_per_token_logps_and_entropies(
                    self.model, input_ids, mask, batch["completion_ids"].size(1)
                )

    @property
    def _moves_padding(self) -> bool:
        # Must be the same on all processes, so it cannot depend on whether a batch has images.
        return (
            self.args.length_grouping
            and self._model_ignores_padding
            and not self._is_vlm
            and scores_by_calling(self.args)
        )

    @property
    def _regroups(self) -> bool:
        return (
            self._moves_padding
            and self.loss_type in _ROW_MEAN_LOSSES + _TOKEN_SUM_LOSSES
            and self.top_entropy_quantile == 1.0
            and not self._entropy_bonus_enabled
            and not self.aux_loss_enabled
            and _what_sees_micro_batches(type(self)) == _UNCHANGED
            and vars(self).keys().isdisjoint(_SEE_MICRO_BATCHES)
        )

    @property
    def _skips(self) -> bool:
        return self.args.skip_zero_advantages and self.beta == 0.0 and self._regroups

    def _group_by_length(self, batches):
        num_rows = sum(len(batch["advantages"]) for batch in batches)
        num_tokens = sum(_loss_mask(batch).sum() for batch in batches)
        if self._skips:
            batches = [blank(batch, batch["advantages"] == 0) for batch in batches]
        attention_mask = torch.cat([torch.cat([b["prompt_mask"], b["completion_mask"]], dim=1) for b in batches])
        widths = padded_widths(attention_mask, self._width_multiple)
        if self._skips:
            widths *= torch.cat([batch["advantages"] for batch in batches]) != 0
        plan = self._plan(widths, self.args.per_device_train_batch_size, most=len(batches))
        micro_batches = [trim(batch, self._width_multiple) for batch in regroup(batches, plan)]

        tokens = torch.stack([num_tokens, *(_loss_mask(batch).sum() for batch in micro_batches)])
        num_tokens, *tokens = self.accelerator.reduce(tokens).tolist()
        if self._skips:
            self._metrics["train"]["coda/skipped_token_ratio"].append(1 - sum(tokens) / max(num_tokens, 1))
        # Shares of all, or of planned, rows and tokens, relative to the mean micro-batch, empty ones included.
        all_rows, all_tokens = num_rows / len(batches), max(num_tokens, 1) / len(batches)
        planned_rows, planned_tokens = sum(map(len, plan)) / len(batches), sum(tokens) / len(batches)
        for micro_batch, rows, num in zip(micro_batches, plan, tokens, strict=True):
            micro_batch["row_share"] = len(rows) / all_rows
            micro_batch["token_share"] = num / all_tokens
            micro_batch["planned_row_share"] = len(rows) / planned_rows
            micro_batch["planned_token_share"] = num / planned_tokens if planned_tokens else math.nan
        # Empty ones come first, as gradients are synchronised after the last.
        empty = [{} for _ in range(len(batches) - len(micro_batches))]
        micro_batches[0]["num_empty"] = len(empty)
        return [*empty, *micro_batches]

    def _plan(self, widths, batch_size, most=None):
        """
        Indices of the rows of each micro-batch, widest first, without rows of width 0, but at least one row. All
        processes plan alike, by the largest width that any of them has at each place.
        """
        order = widths.argsort(descending=True, stable=True)
        widest = gather(widths[order]).view(-1, len(order)).amax(dim=0).tolist()
        widest = [width for width in widest if width] or [self._width_multiple]
        # The tokens of `batch_size` rows of the longest width, or of the longest that there can be.
        budget = batch_size * max(widest[0], self.args.max_completion_length or 0)
        return order[: len(widest)].split(cheapest_fill(widest, budget, most))

    @property
    def _width_multiple(self) -> int:
        return math.lcm(width_multiple(self.args.max_completion_length), self.pad_to_multiple_of or 1)

    @override
    def _get_per_token_logps_and_entropies(
        self,
        model,
        input_ids,
        attention_mask,
        logits_to_keep,
        batch_size=None,
        compute_entropy=False,
        compute_aux_loss=False,
        **images,
    ):
        options = {"compute_entropy": compute_entropy, "compute_aux_loss": compute_aux_loss}
        if not self._moves_padding:
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size=batch_size, **options, **images
            )
        if batch_size is None or compute_entropy or compute_aux_loss:  # a micro-batch
            return self._score(model, input_ids, attention_mask, logits_to_keep, **options)
        # Old log-probabilities can wait until advantages are known, unless TRL needs them to correct for vLLM's.
        if self._skips and not (self.use_vllm and self.vllm_importance_sampling_correction):
            self._old_logps_are_due = True
            return None, None, None

        plan = self._plan(padded_widths(attention_mask, self._width_multiple), batch_size)
        logps = [
            self._score(model, input_ids[rows], attention_mask[rows], logits_to_keep, **options)[0] for rows in plan
        ]
        return torch.cat(logps)[torch.cat(plan).argsort()], None, None

    def _score(self, model, input_ids, attention_mask, logits_to_keep, compute_entropy, compute_aux_loss):
        """One forward pass, as wide as its longest row."""
        rows = LeftAligned.of(input_ids, attention_mask, logits_to_keep, self._width_multiple)
        # Without a mask, SDPA takes its fast kernel. Flash attention skips padding only by a mask, and the router's
        # auxiliary loss must not count padding.
        needs_mask = compute_aux_loss or is_flash_attention_requested(self.model.config)
        padding_mask = rows.attention_mask if needs_mask else None

        def forward(attention_mask, **inputs):
            return model(attention_mask=padding_mask, position_ids=rows.position_ids, **inputs)

        logps, entropies, aux_loss = super()._get_per_token_logps_and_entropies(
            forward,
            rows.input_ids,
            rows.completion_mask,  # TRL scores the tokens that the mask shows
            rows.logits_to_keep,
            compute_entropy=compute_entropy,
            compute_aux_loss=compute_aux_loss,
        )
        return rows.restore(logps), rows.restore(entropies) if compute_entropy else None, aux_loss

    @override
    def _compute_loss(self, model, inputs):
        self._micro_batch_is_empty = not inputs
        if not inputs:
            return torch.zeros((), device=self.accelerator.device)
        metrics = self._metrics["train"]
        before = {name: len(values) for name, values in metrics.items()}
        loss = super()._compute_loss(model, inputs)
        if "row_share" not in inputs:  # in evaluation, and where rows keep TRL's micro-batches
            return loss
        by_sequence = self.importance_sampling_level == "sequence"
        shares = dict.fromkeys(_CLIP_METRICS, inputs["row_share" if by_sequence else "token_share"])
        # Rows that were left out have no such values; their ratios would not have been clipped.
        shares |= dict.fromkeys(_TOKEN_METRICS, inputs["planned_token_share"])
        shares["vespo/phi_seq_mean"] = inputs["planned_row_share"]
        added = [name for name, values in metrics.items() if len(values) > before.get(name, 0)]
        for name in added:
            value = metrics[name].pop() * shares.get(name, 1)
            if not math.isnan(value):
                metrics[name] += [value] + [0.0] * inputs.get("num_empty", 0) * (name in shares)
            elif not metrics[name]:  # no mean over no token
                del metrics[name]
        return loss * inputs["row_share"] if self.loss_type in _ROW_MEAN_LOSSES else loss


_UNCHANGED = _what_sees_micro_batches(LengthGroupedGRPOTrainer)
