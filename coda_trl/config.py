"""Options of the trainers: TRL's, how rewards are shaped by length, and how micro-batches are cut."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from trl import GRPOConfig

from .help_texts import help_from_docstring
from .setting_types import check_types
from .shaping_checks import PARAMETERS, LengthStats, Method, check_parameters

# Fields below by what `shape_rewards` calls them, where that differs.
_FIELDS = {
    "method": "length_shaping",
    "alpha": "coda_alpha",
    "beta": "coda_beta",
    "tau_easy": "coda_tau_easy",
    "tau_hard": "coda_tau_hard",
    "gamma": "vlp_gamma",
    "tau": "asrr_tau",
    "zeta": "asrr_zeta",
    "window": "asrr_window",
    "eta": "l1_eta",
}


@help_from_docstring
@dataclass
class LengthGroupedGRPOConfig(GRPOConfig):
    """
    Configuration class for the [`LengthGroupedGRPOTrainer`].

    [`LengthGroupedGRPOConfig`] inherits every parameter from [`~trl.GRPOConfig`], with TRL's defaults.

    Parameters:
        length_grouping (`bool`, *optional*, defaults to `True`):
            Whether rollouts of similar length share a micro-batch, only as wide as the longest of them. Gradients stay
            the same (exceptions: `docs/performance.md`). A micro-batch of short rollouts has more rows than TRL's, up
            to the tokens, and so the memory, of `per_device_train_batch_size` rollouts of `max_completion_length`.
        skip_zero_advantages (`bool`, *optional*, defaults to `True`):
            Whether rollouts whose advantage is exactly 0, as in all-wrong groups, are left out of the update, which
            does not change gradients. Acts only where `length_grouping` regroups, and without a KL term.
    """

    length_grouping: bool = True
    skip_zero_advantages: bool = True

    def __post_init__(self):
        check_types({name: value for name, value in vars(self).items() if value is not None}, type(self))
        if self.num_generations is None:  # TRL divides by it before it looks
            raise ValueError("`num_generations` is None, but must be at least 2.")
        super().__post_init__()


@help_from_docstring
@dataclass
class CodaGRPOConfig(LengthGroupedGRPOConfig):
    r"""
    Configuration class for the [`CodaGRPOTrainer`].

    [`CodaGRPOConfig`] adds the parameters of the length shaping to those of [`LengthGroupedGRPOConfig`] and
    [`~trl.GRPOConfig`]. The objective is that of the [CODA paper](https://huggingface.co/papers/2603.08659):
    `scale_rewards` is `"none"` by default (dividing by the standard deviation of an all-correct group would blow the
    shaping term up to full size), `loss_type` is `"dapo"`, as in TRL (the mean over the tokens of the batch; in the
    paper, of a group). `beta` stays TRL's KL coefficient.

    Parameters:
        scale_rewards (`str`, *optional*, defaults to `"none"`):
            As in [`~trl.GRPOConfig`]: `"none"`, `"group"` or `"batch"`.
        loss_type (`str`, *optional*, defaults to `"dapo"`):
            As in [`~trl.GRPOConfig`].
        length_shaping (`str`, *optional*, defaults to `"coda"`):
            How the correctness reward is shaped by length: a method of [`shaping.shape_rewards`], which has the
            formulas. `"none"` is plain GRPO. Those of L1 need a column `n_gold` in the dataset: the token budget that
            the prompt asks for.
        coda_alpha (`float`, *optional*, defaults to `0.2`):
            Strength of the penalty on long correct rollouts of easy prompts, in [0, 1] so that none earns less than 0.
        coda_beta (`float`, *optional*, defaults to `0.2`):
            Strength of the bonus on long correct rollouts of hard prompts, at least 0.
        coda_tau_easy (`float`, *optional*, defaults to `0.75`):
            Group success rate above which a prompt counts as easy, in [0, 1]. At 1 there is no penalty.
        coda_tau_hard (`float`, *optional*, defaults to `0.25`):
            Group success rate below which a prompt counts as hard, in [0, `coda_tau_easy`]. At 0 there is no bonus.
        length_stats (`str`, *optional*, defaults to `"group"`):
            Rollouts whose mean and deviation normalise lengths in `"coda"` and `"vlp"`: `"group"`, all of the group
            that can be scored (the paper's text), or `"correct"`, the correct ones (the published code).
        bonus_on_incorrect (`bool`, *optional*, defaults to `False`):
            Whether wrong rollouts get the hard-side bonus too. For the paper's ablation only: lengths run away.
        vlp_gamma (`float`, *optional*, defaults to `0.1`):
            Strength of the penalty of `"vlp"`, in [0, 1].
        asrr_tau (`float`, *optional*, defaults to `0.75`):
            Group success rate above which `"asrr"` penalises length, in [0, 1).
        asrr_zeta (`float`, *optional*, defaults to `0.5`):
            Strength of the penalty of `"asrr"`, at least 0.
        asrr_window (`int`, *optional*, defaults to `2048`):
            Tokens beyond the shortest correct rollout at which the penalty of `"asrr"` is full.
        l1_eta (`float`, *optional*, defaults to `3e-4`):
            Reward per token of distance from the budget in `"l1_exact"` and `"l1_max"`, at least 0.
        linear_weight (`float`, *optional*, defaults to `0.25`):
            What the longest rollout of an all-correct group loses in `"linear"`, prime-rl's pass-rate penalty; at
            least 0.
        alp_beta (`float`, *optional*, defaults to `1e-7`):
            Reward per token that `"alp"` takes where all rollouts are correct, at least 0. The default is the paper's,
            which is next to nothing with `scale_rewards="none"`: take about `0.3 / max_completion_length`.
        gr3_alpha (`float`, *optional*, defaults to `0.33`):
            Strength of the rescaling of `"gr3"`, at least 0: a correct rollout of the group's mean length earns
            `1 / (1 + gr3_alpha)`.
        correctness_reward (`str`, *optional*):
            Name of the reward function that is shaped. It must return 0, 1 or `None`. Defaults to the only one that is
            known to do so (such as `accuracy_reward`), else to the only one with `accura` or `correct` in its name,
            else to the first one, reward models aside; without any function, to the rewards of all environments. Rows
            for which it returns `None` are not shaped, so if each kind of task has its own function, wrap them in one.

    Raises:
        ValueError: If a parameter is out of range, or contradicts the shaping.
    """

    scale_rewards: str = "none"
    loss_type: str = "dapo"

    length_shaping: str = field(default="coda", metadata={"choices": list(get_args(Method))})
    coda_alpha: float = 0.2
    coda_beta: float = 0.2
    coda_tau_easy: float = 0.75
    coda_tau_hard: float = 0.25
    length_stats: str = field(default="group", metadata={"choices": list(get_args(LengthStats))})
    bonus_on_incorrect: bool = False
    vlp_gamma: float = 0.1
    asrr_tau: float = 0.75
    asrr_zeta: float = 0.5
    asrr_window: int = 2048
    l1_eta: float = 3e-4
    linear_weight: float = 0.25
    alp_beta: float = 1e-7
    gr3_alpha: float = 0.33
    correctness_reward: str | None = None

    def __post_init__(self):
        super().__post_init__()
        check_parameters(**self.shaping_parameters(), names=_FIELDS)
        if self.length_shaping != "none" and self.multi_objective_aggregation != "sum_then_normalize":
            raise ValueError(
                f"`multi_objective_aggregation` is {self.multi_objective_aggregation!r}, which would normalise the "
                "shaping term on its own and lose its size relative to correctness. Set it to 'sum_then_normalize', "
                "or `length_shaping` to 'none'."
            )

    def shaping_parameters(self) -> dict[str, Any]:
        """Keyword arguments for [`shaping.shape_rewards`]."""
        names = ("method", "length_stats", *PARAMETERS)
        return {name: self.__dict__[_FIELDS.get(name, name)] for name in names}

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings that work against the method: the name of each, what is wrong with it, and what to change."""
        if self.length_shaping != "none" and self.scale_rewards != "none":
            yield (
                "scale_rewards",
                f"{self.scale_rewards!r} divides by the deviation of the rewards. In a group of correct answers that "
                "deviation is the shaping term's alone, so the term is blown up to full size. Set it to 'none'.",
            )
        if self.length_shaping == "coda" and self.coda_beta and self.num_generations * self.coda_tau_hard <= 1:
            yield (
                "num_generations",
                f"With {self.num_generations}, one right answer is a success rate of {1 / self.num_generations:.2g}. "
                f"That is not below `coda_tau_hard` ({self.coda_tau_hard:g}), so the bonus on hard prompts never "
                "acts. Set it to 8 or more (the paper uses 16), or raise `coda_tau_hard`.",
            )
        if self.length_shaping == "coda" and self.beta >= 0.1:  # the paper's β is 0.2
            yield (
                "beta",
                f"{self.beta!r} is a large weight of the KL term (the authors' is 0.001). For CODA's β, set "
                "`coda_beta` instead.",
            )
        limit = self.max_completion_length
        if self.length_shaping == "alp" and self.scale_rewards == "none" and limit and self.alp_beta * limit < 0.01:
            yield (
                "alp_beta",
                f"With {self.alp_beta!r}, even a completion of {limit} tokens loses only {self.alp_beta * limit:.1g} "
                "of its reward, which has no effect unless rewards are divided by their deviation. Set it to about "
                f"{0.3 / limit:.0e}.",
            )
        if self.loss_type != "dapo":
            yield (
                "loss_type",
                f"{self.loss_type!r} is not the paper's loss. Set it to 'dapo', the nearest in TRL.",
            )
        mode = self.vllm_importance_sampling_mode
        if self.use_vllm and self.vllm_importance_sampling_correction and mode.startswith("sequence"):
            yield (
                "vllm_importance_sampling_correction",
                f"Mode {mode!r} weighs a rollout by a product over its tokens, so long rollouts count less. Set it "
                "to false (as the authors), or set "
                "`vllm_importance_sampling_mode` to 'token_truncate'.",
            )
        if self.mask_truncated_completions:
            yield (
                "mask_truncated_completions",
                "Takes truncated rollouts out of the loss, though they count as wrong in a success rate. Set it to "
                "false.",
            )
