"""`CodaGRPOTrainer`: TRL's GRPO with rewards shaped by length."""

import math
import textwrap
import time
import warnings

import torch
from accelerate.utils import gather
from datasets import Dataset
from trl import GRPOTrainer
from trl.trainer.utils import get_callable_name
from typing_extensions import override

from .compatibility import check_overrides, with_signature_of
from .config import CodaGRPOConfig
from .correctness import FirstVerdicts, RewardError, check_correctness, find_correctness_reward, says_right_or_wrong
from .data_checks import check_budget_column, check_data, read_budgets
from .grading import opens_thinking
from .grading.extract import PROMPT_END
from .length_grouping import LengthGroupedGRPOTrainer
from .metrics import published_metrics, regime_metrics
from .rewards import REWARD_FUNCTIONS
from .shaping import shape_rewards
from .shaping_checks import NEED_BUDGET


def length_shaping(completions, **kwargs):
    """Column for the shaping term, which [`CodaGRPOTrainer`] fills in once the groups are complete."""
    return [None] * len(completions)


class CodaGRPOTrainer(LengthGroupedGRPOTrainer):
    """
    Trainer for Compute Allocation by Difficulty Awareness (CODA), and the length penalties it is compared with.

    [CODA](https://huggingface.co/papers/2603.08659) is GRPO with a shaped reward: the success rate of a prompt's
    rollouts opens an easy-side gate (long correct answers earn a little less) or a hard-side gate (long correct
    answers earn a little more).

    It differs from [`~trl.GRPOTrainer`] in `_generate`, which notes how many tokens the model itself wrote in each
    rollout, and in `_calculate_rewards`, which shapes the correctness reward after the rewards of all processes are
    gathered, when groups are complete. The shaping term is a reward column of its own, `length_shaping`, the last
    entry of `reward_funcs`, so that TRL logs correctness, term and sum. With `length_shaping="none"` there is no such
    column. Evaluation is not shaped. Micro-batches are those of the parent,
    [`~length_grouping.LengthGroupedGRPOTrainer`].

    Args:
        model, reward_funcs, args, train_dataset, eval_dataset, ...:
            As in [`~trl.GRPOTrainer`], with `args` a [`CodaGRPOConfig`].

    Raises:
        RuntimeError, TypeError: As [`~length_grouping.LengthGroupedGRPOTrainer`].
        ValueError: If `args.correctness_reward` names no reward function or several, if one is called
            `length_shaping`, if the dataset holds fewer prompts than a batch, or no positive numbers in the column
            `n_gold` that L1 needs, or, while training, if a reward is infinite or the shaped one is not 0, 1 or
            `None`.

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

    _config_class = CodaGRPOConfig
    _tag_names = ["trl", "grpo", "coda"]
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

    @with_signature_of(GRPOTrainer.__init__)
    def __init__(self, model, reward_funcs=None, args=None, train_dataset=None, eval_dataset=None, *others, **options):
        check_overrides(CodaGRPOTrainer)
        args = self._own_config(model, args)
        if args.length_shaping != "coda":  # for the model card
            self._tag_names, self._paper = GRPOTrainer._tag_names, GRPOTrainer._paper
            shaping = "" if args.length_shaping == "none" else f" whose rewards are shaped by {args.length_shaping}"
            self._name = f"GRPO{shaping}"
        environments_judge = not reward_funcs  # each its own rollouts; TRL appends their rewards to the functions
        super().__init__(model, reward_funcs, args, train_dataset, eval_dataset, *others, **options)
        names = list(self.reward_func_names)
        rewards = zip(names, self.reward_funcs, strict=True)
        models = {name for name, reward in rewards if isinstance(reward, torch.nn.Module)}
        column, guess = self._find_base_column(names, args, models)
        self._default_judges, guess = (names, None) if environments_judge else ([names[column]], guess)
        self._first_verdicts = FirstVerdicts(" or ".join(self._judges))
        self._knows_correctness = args.length_shaping != "none" or guess is None
        if args.length_shaping == "none":
            return
        if guess is not None and self.accelerator.is_main_process:
            warnings.warn(guess, stacklevel=2)
        self._add_column_of_the_term()

    def _check_arguments(self, reward_funcs, args, train_dataset, eval_dataset, options):
        super()._check_arguments(reward_funcs, args, train_dataset, eval_dataset, options)
        if isinstance(train_dataset, Dataset) and args.length_shaping in NEED_BUDGET:
            check_budget_column(args.length_shaping, train_dataset.column_names)
            read_budgets(train_dataset["n_gold"])
        rewards = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
        for name in rewards:
            if isinstance(name, str) and name in REWARD_FUNCTIONS:
                raise ValueError(
                    f"`reward_funcs` has the text {name!r}, which is a reward model's hub id to TRL. Pass the "
                    f"function: `from coda_trl.rewards import {name}`."
                )
        functions = [reward for reward in rewards if callable(reward) and not isinstance(reward, torch.nn.Module)]
        if functions and options.get("environment_factory") is None:
            names = list(map(get_callable_name, functions))
            if functions == rewards:  # else TRL finds the names of the models
                self._find_base_column(names, args)
            if options.get("rollout_func") is None:  # which may add columns
                message = check_data(functions, names, train_dataset, eval_dataset)
                if message is not None and args.process_index == 0:
                    warnings.warn(message, stacklevel=4)
        if args.length_shaping != "none" and args.process_index == 0:
            for setting, message in args.contradictions():
                warnings.warn(f"`{setting}`: {message}", stacklevel=4)

    @staticmethod
    def _find_base_column(names, args, models=frozenset()):
        if args.length_shaping != "none" and "length_shaping" in names:
            raise ValueError(
                "A reward function is called 'length_shaping', as the column of the shaping term is. Rename it."
            )
        if args.length_shaping != "none" and args.correctness_reward is None and models.issuperset(names):
            raise ValueError(
                f"The score of a reward model ({', '.join(names)}) does not judge correctness, so it is not "
                "shaped. Add a reward function that does, or set `length_shaping` to 'none'."
            )
        return find_correctness_reward(names, args.correctness_reward, models)

    def _add_column_of_the_term(self):
        self.reward_funcs = [*self.reward_funcs, length_shaping]  # a copy: the caller's list stays as it was
        self.reward_func_names = [*self.reward_func_names, "length_shaping"]
        self.reward_processing_classes = [*self.reward_processing_classes, None]

    @override
    def _generate(self, prompts):
        output = super()._generate(prompts)
        prompt_ids, completion_ids, tool_mask, *_ = output
        ends = [self._tokenizer.decode(ids[-PROMPT_END:]) for ids in prompt_ids]
        self._opens_thinking = list(map(opens_thinking, ends))
        if tool_mask is None:
            self._completion_lengths = [len(ids) for ids in completion_ids]
        else:  # 1 where the model wrote the token, 0 where a tool or an environment did
            self._completion_lengths = [int(sum(mask)) for mask in tool_mask]
        return output

    @override
    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        # A callback may change `args.length_shaping`, and a script evaluate with other functions than it trains with.
        judges, has_term = self._judges, self.args.length_shaping != "none"
        has_base = set(judges).issubset(self.reward_func_names)
        if has_term and self._mode == "train" and not has_base:
            raise RewardError(
                f"The reward functions are now {', '.join(self.reward_func_names)}, so rewards would no longer be "
                f"shaped. Keep {' and '.join(map(repr, judges))} among them, or make a new trainer."
            )
        if has_term and has_base and "length_shaping" not in self.reward_func_names:  # it was "none" before
            self._add_column_of_the_term()
        rewards = self._base_rewards(inputs, prompts, completions, completion_ids_list)
        shaped = self._shape_and_log(rewards, inputs, completion_ids_list, has_term) if has_base else None
        self._log_table(len(prompts), shaped)
        return rewards

    def _shape_and_log(self, rewards, inputs, completion_ids_list, has_term):
        base = rewards[:, self._base_columns].nanmean(dim=1)
        if has_term:
            check_correctness(base, " or ".join(self._judges))
        elif not says_right_or_wrong(base):  # plain GRPO takes any reward, but then no group has a success rate
            return None
        truncated = self._truncated(completion_ids_list)
        self._warn_if_nothing_is_right(base, truncated, inputs)

        lengths = self._gather(self._completion_lengths)
        shaped = self._shape(base, lengths, inputs)
        if has_term:
            self._add_term(rewards, shaped.delta)
        self._log_metrics(base, lengths, shaped, truncated)
        return shaped

    def _add_term(self, rewards, term):
        """Fills in the term, with the weight of the shaped reward: scripts may add columns and change weights."""
        column, weights = self.reward_func_names.index("length_shaping"), self.reward_weights
        rewards[:, column] = term
        if len(weights) < rewards.size(1):  # those of the functions alone, as when the trainer is new
            weights = torch.cat([weights[:column], weights.new_zeros(1), weights[column:]])
        weights[column] = weights[self._base_columns[0]]
        self.reward_weights = weights

    def _base_rewards(self, inputs, prompts, completions, completion_ids_list):
        """TRL's rewards of all processes, one column per function."""
        start = time.perf_counter()
        inputs = [  # reward functions do not see what the chat template opens
            {**example, "prompt_opens_thinking": is_open}
            for example, is_open in zip(inputs, self._opens_thinking, strict=True)
        ]
        try:
            rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        except (TypeError, ValueError) as problem:
            names = ", ".join(name for name in self.reward_func_names if name != "length_shaping")
            problem.add_note(
                f"If no reward function raised this, one of them ({names}) did not return a list of numbers or None, "
                "one for each completion."
            )
            raise
        self._metrics[self._mode]["coda/reward_seconds"].append(time.perf_counter() - start)
        for name, infinite in zip(self.reward_func_names, rewards.isinf().any(dim=0), strict=True):
            if infinite:  # a single one makes advantages, and then every parameter, infinite or NaN
                raise RewardError(
                    f"The reward function {name!r} returned an infinite reward. Return a finite one, or None for a "
                    "completion that cannot be judged."
                )
        return rewards

    def _warn_if_nothing_is_right(self, base, truncated, inputs):
        if self._mode == "train" and self._knows_correctness:
            message = self._first_verdicts.look(base, truncated, inputs[0])
            if message is not None and self.accelerator.is_main_process:
                warnings.warn(message, stacklevel=2)

    def _shape(self, base, lengths, inputs):
        parameters = self.args.shaping_parameters()
        if self._mode == "eval":
            parameters["method"] = "none"
        elif parameters["method"] in NEED_BUDGET:
            check_budget_column(parameters["method"], inputs[0])  # a stream shows its columns with its first batch
            parameters["n_gold"] = self._gather(read_budgets([example["n_gold"] for example in inputs]))
        return shape_rewards(base, lengths, self._group_size, **parameters)

    def _truncated(self, completion_ids_list):
        """Whether the length limit cut a rollout off. An empty one has no last token, and counts as cut off."""
        eos_and_pad = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        return self._gather([eos_and_pad.isdisjoint(map(int, ids[-1:])) for ids in completion_ids_list])

    def _log_metrics(self, base, lengths, shaped, truncated):
        thresholds = {"tau_easy": self.args.coda_tau_easy, "tau_hard": self.args.coda_tau_hard}
        metrics = published_metrics(base, lengths, shaped, **thresholds)
        metrics |= regime_metrics(base, lengths, truncated, shaped, **thresholds)
        for key, value in metrics.items():
            if not math.isnan(value):  # a mean over nothing
                self._metrics[self._mode][key].append(value)

    def _log_table(self, num_rows, shaped):
        """This process's rows of the completions table, which TRL gathers."""
        self._log_completion_extra("coda/length", self._completion_lengths)
        start = self.accelerator.process_index * num_rows
        for column in ("success_rate", "w_easy", "w_hard"):
            values = [None] * num_rows
            if shaped is not None:
                by_row = vars(shaped)[column].repeat_interleave(self._group_size)
                values = by_row[start : start + num_rows].tolist()
            self._log_completion_extra(f"coda/{column}", values)

    def _gather(self, values):
        return gather(torch.as_tensor(values, device=self.accelerator.device))

    @property
    def _judges(self):
        """Names of the rewards that are shaped: one, or those of several environments."""
        chosen = self.args.correctness_reward
        return self._default_judges if chosen is None else [chosen]

    @property
    def _base_columns(self):
        return list(map(self.reward_func_names.index, self._judges))

    @property
    def _mode(self):
        return "train" if self.model.training else "eval"

    @property
    def _group_size(self):
        return self.num_generations if self._mode == "train" else self.num_generations_eval
