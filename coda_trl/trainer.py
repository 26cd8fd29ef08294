"""`CodaGRPOTrainer`: TRL's GRPO whose rewards are shaped by length before advantages are taken."""

import math
import textwrap
import time
import warnings

import torch
from accelerate.utils import gather
from datasets import Dataset
from trl.trainer.utils import get_config_model_id

from .config import CodaGRPOConfig
from .length_grouping import LengthGroupedGRPOTrainer
from .metrics import published_metrics, regime_metrics
from .shaping import NEED_BUDGET, shape_rewards

_BATCHES_TO_WARN = 3


def length_shaping(completions, **kwargs):
    """Column for the shaping term, which [`CodaGRPOTrainer`] fills in once the rewards of whole groups are known."""
    return [None] * len(completions)


class CodaGRPOTrainer(LengthGroupedGRPOTrainer):
    """
    Trainer for Compute Allocation by Difficulty Awareness (CODA), and the length penalties it is compared with.

    [CODA](https://huggingface.co/papers/2603.08659) is GRPO with a shaped reward: the success rate of a prompt's
    rollouts opens an easy-side gate (long correct answers earn a little less) or a hard-side gate (long correct
    answers earn a little more).

    The changes with regard to [`~trl.GRPOTrainer`] are `_generate`, which notes how many tokens the model itself wrote
    in each rollout (results of tools are not its doing), and `_calculate_rewards`, which shapes the correctness reward
    where the rewards of all processes have been gathered, so that groups are whole. The shaping term is a reward
    column of its own, the last entry of `reward_funcs`, called `length_shaping`: TRL logs correctness, term and sum
    side by side. Evaluation is not shaped. With `length_shaping="none"` there is no such column, and rewards are what
    they are in TRL. `log` turns means over nothing into 0. How rollouts share micro-batches is the parent's,
    [`~length_grouping.LengthGroupedGRPOTrainer`].

    Args:
        model, reward_funcs, args, train_dataset, eval_dataset, ...:
            As in [`~trl.GRPOTrainer`], with `args` a [`CodaGRPOConfig`].

    Raises:
        TypeError: If `args` is not a [`CodaGRPOConfig`].
        ValueError: If `args.correctness_reward` is none of the reward functions or several, if one of them is called
            `length_shaping`, if the dataset lacks the column `n_gold` that L1 needs or holds anything but positive
            numbers there, or, while training, if a reward is infinite or the shaped one is not 0, 1 or `None`.

    Example:

    ```python
    from coda_trl import CodaGRPOConfig, CodaGRPOTrainer
    from coda_trl.rewards import accuracy_reward

    trainer = CodaGRPOTrainer(
        model="Qwen/Qwen3-0.6B",
        reward_funcs=accuracy_reward,
        args=CodaGRPOConfig(output_dir="qwen3-0.6b-coda", num_generations=16, gradient_accumulation_steps=16),
        train_dataset=dataset,  # columns `prompt` and `solution`
    )
    trainer.train()
    ```
    """

    _tag_names = ["trl", "coda"]
    _name = "CODA"
    _paper = {
        "title": "CODA: Difficulty-Aware Compute Allocation for Adaptive Reasoning",
        "id": "2603.08659",
        # docstyle-ignore
        "citation": textwrap.dedent("""\
            @article{wu2026coda,
                title        = {{CODA: Difficulty-Aware Compute Allocation for Adaptive Reasoning}},
                author       = {Siye Wu and Jian Xie and Yikai Zhang and Yanghua Xiao},
                year         = 2026,
                eprint       = {arXiv:2603.08659},
            }"""),
    }

    def __init__(self, model, reward_funcs=None, args=None, train_dataset=None, *others, **kwargs):
        if args is None:
            model_name = model if isinstance(model, str) else get_config_model_id(model.config)
            args = CodaGRPOConfig(f"{model_name.split('/')[-1]}-CODA")
        if not isinstance(args, CodaGRPOConfig):
            raise TypeError(
                f"`args` is a {type(args).__name__}, but CodaGRPOTrainer takes a CodaGRPOConfig. It has every field "
                "of GRPOConfig: put it in its place."
            )

        if args.length_shaping != "none" and args.scale_rewards != "none" and args.process_index == 0:
            warnings.warn(
                f"`scale_rewards` is {args.scale_rewards!r}, which divides by the deviation of the rewards. In a "
                "group of correct answers that deviation is the shaping term's alone, so the term is blown up to full "
                "size. Set it to 'none'.",
                stacklevel=2,
            )
        if isinstance(train_dataset, Dataset) and args.length_shaping in NEED_BUDGET:  # before any weights
            self._check_budgets(args, train_dataset.column_names)
            self._budgets(train_dataset["n_gold"])

        super().__init__(model, reward_funcs, args, train_dataset, *others, **kwargs)

        name = self.reward_func_names[0] if args.correctness_reward is None else args.correctness_reward
        names = ", ".join(self.reward_func_names)
        if name not in self.reward_func_names:
            raise ValueError(f"`correctness_reward` is {name!r}, but the reward functions are {names}.")
        if args.correctness_reward is not None and self.reward_func_names.count(name) > 1:
            raise ValueError(
                f"`correctness_reward` is {name!r}, but several of the reward functions ({names}) are called so. Give "
                "each a name of its own (`def`, or `__name__`)."
            )
        self._base_column = self.reward_func_names.index(name)
        self._batches_without_right = 0
        if args.length_shaping == "none":
            return
        if "length_shaping" in self.reward_func_names:
            raise ValueError(
                "A reward function is called 'length_shaping', as the column of the shaping term is. Rename it."
            )
        self.reward_funcs = [*self.reward_funcs, length_shaping]  # a copy: the caller's list stays as it was
        self.reward_func_names = [*self.reward_func_names, "length_shaping"]
        self.reward_processing_classes = [*self.reward_processing_classes, None]
        self.reward_weights = torch.cat([self.reward_weights, self.reward_weights[self._base_column].unsqueeze(0)])

    @staticmethod
    def _check_budgets(args, columns):
        if "n_gold" not in columns:
            raise ValueError(
                f"`length_shaping` is {args.length_shaping!r}, but the dataset has no column 'n_gold' (its columns: "
                f"{', '.join(columns)}). Add the token budget that each prompt asks for."
            )

    @staticmethod
    def _budgets(values):
        for row, value in enumerate(values):
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise ValueError(f"`n_gold` is {value!r} in row {row}, but must be a positive number of tokens.")
        return torch.tensor(values, dtype=torch.float32)

    def _warn_if_nothing_is_right(self, base):
        if self._batches_without_right is None:  # there has been a right one
            return
        if (base == 1).any():
            self._batches_without_right = None
            return
        self._batches_without_right += 1
        if self._batches_without_right == _BATCHES_TO_WARN and self.accelerator.is_main_process:
            name = self.reward_func_names[self._base_column]
            warnings.warn(
                f"Not one completion was right in the first {_BATCHES_TO_WARN} batches, so there was nothing to "
                f"learn. Does the reward function {name!r} read what the model writes (`accuracy_reward` wants a "
                "`\\boxed{}`)? `log_completions=True` shows both.",
                stacklevel=2,
            )

    def _generate(self, prompts):
        output = super()._generate(prompts)
        _, completion_ids, tool_mask, *_ = output
        if tool_mask is None:
            self._completion_lengths = [len(ids) for ids in completion_ids]
        else:  # 1 where the model wrote the token, 0 where a tool or an environment did
            self._completion_lengths = [sum(mask) for mask in tool_mask]
        return output

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        mode = "train" if self.model.training else "eval"
        num_generations = self.num_generations if mode == "train" else self.num_generations_eval
        device = self.accelerator.device

        start = time.perf_counter()
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._metrics[mode]["coda/reward_seconds"].append(time.perf_counter() - start)
        for name, infinite in zip(self.reward_func_names, rewards_per_func.isinf().any(dim=0), strict=True):
            if infinite:  # one is enough to make advantages, and then every parameter, infinite or NaN
                raise ValueError(
                    f"The reward function {name!r} returned an infinite reward. Return a finite one, or None for a "
                    "completion that cannot be judged."
                )

        base = rewards_per_func[:, self._base_column]
        graded = base[~((base == 0) | (base == 1) | base.isnan())]
        if graded.numel() and self.args.length_shaping != "none":
            raise ValueError(
                f"The reward function {self.reward_func_names[self._base_column]!r} returned {graded[0].item()!r}, "
                "but length shaping needs a correctness reward: 0, 1, or None for a completion that cannot be judged. "
                f"Name another one in `correctness_reward` (there are {', '.join(self.reward_func_names[:-1])}), or "
                "set `length_shaping` to 'none'."
            )

        self._log_completion_extra("coda/length", self._completion_lengths)
        if graded.numel():  # plain GRPO takes any reward, but then no group has a success rate to report
            for column in ("success_rate", "w_easy", "w_hard"):
                self._log_completion_extra(f"coda/{column}", [None] * len(prompts))
            return rewards_per_func

        if mode == "train":
            self._warn_if_nothing_is_right(base)
        parameters = self.args.shaping_parameters()
        if mode == "eval":
            parameters["method"] = "none"
        elif parameters["method"] in NEED_BUDGET:
            self._check_budgets(self.args, inputs[0])  # a stream shows its columns with its first batch
            parameters["n_gold"] = gather(self._budgets([example["n_gold"] for example in inputs]).to(device))
        lengths = gather(torch.tensor(self._completion_lengths, device=device))
        shaped = shape_rewards(base, lengths, num_generations, **parameters)
        if self.args.length_shaping != "none":
            rewards_per_func[:, -1] = shaped.delta

        eos_and_pad = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        ended = [not eos_and_pad.isdisjoint(ids[-1:]) for ids in completion_ids_list]  # some may be empty
        truncated = gather(~torch.tensor(ended, device=device))
        thresholds = {"tau_easy": self.args.coda_tau_easy, "tau_hard": self.args.coda_tau_hard}
        metrics = published_metrics(base, lengths, shaped, **thresholds)
        metrics |= regime_metrics(base, lengths, truncated, shaped, **thresholds)
        for key, value in metrics.items():
            self._metrics[mode][key].append(value)

        start = self.accelerator.process_index * len(prompts)  # the completions table gathers local columns itself
        columns = {"success_rate": shaped.success_rate, "w_easy": shaped.w_easy, "w_hard": shaped.w_hard}
        for column, values in columns.items():
            values = values.repeat_interleave(num_generations)[start : start + len(prompts)]
            self._log_completion_extra(f"coda/{column}", values.tolist())
        return rewards_per_func

    def log(self, logs, start_time=None):
        mode = "train" if self.model.training else "eval"
        for key, values in self._metrics[mode].items():  # one value a batch; TRL averages those that are not NaN
            if key.startswith("coda/") and all(map(math.isnan, values)):
                values[:] = [0.0]
        super().log(logs, start_time)
