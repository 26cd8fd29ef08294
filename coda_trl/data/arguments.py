"""Command-line arguments that say what to train on."""

from dataclasses import dataclass, field


@dataclass
class DataArguments:
    """
    What to train on, for [`~trl.TrlParser`].

    Args:
        dataset (`list[str]`, *optional*, defaults to `["mixed"]`):
            Training data: `mixed`, `easy`, `hard`, or names as in [`load_source`] (`NAME` or `NAME=LOCATION`);
            `custom=LOCATION` is your own file or hub id.
        prompt_column (`str`, *optional*, defaults to `"prompt"`), solution_column (`str`, *optional*, defaults to `"solution"`):
            Columns of the `custom` data set that hold the prompt (text or messages) and the gold answer.
        eval_dataset (`list[str]`, *optional*):
            What to evaluate on while training, named in the same way; `eval_strategy` and `eval_steps` say when.
        prompt_format (`str`, *optional*, defaults to `"chat"`):
            `"chat"`: prompts go through the chat template. `"plain"`: as they are, for base models without one.
        max_prompt_length (`int`, *optional*, defaults to `1024`):
            Longest prompt in tokens; longer ones are dropped, and counted.
        length_budget (`list[int]`, *optional*):
            Lowest and highest number of tokens to ask for in the prompt. Needed by `l1_exact` and `l1_max`.
    """  # noqa: E501

    dataset: list[str] = field(
        default_factory=lambda: ["mixed"],
        metadata={"help": "Training data: 'mixed', 'easy', 'hard', or any of the sources as NAME or NAME=LOCATION."},
    )
    prompt_column: str = field(default="prompt", metadata={"help": "Column of a custom data set with the prompt."})
    solution_column: str = field(default="solution", metadata={"help": "Column of a custom data set with the gold."})
    eval_dataset: list[str] | None = field(
        default=None,
        metadata={"help": "What to evaluate on while training, named as in `dataset`; `eval_strategy` says when."},
    )
    prompt_format: str = field(
        default="chat",
        metadata={
            "help": "'chat': prompts go through the chat template. 'plain': as they are, for base models without one.",
            "choices": ["chat", "plain"],
        },
    )
    max_prompt_length: int = field(
        default=1024, metadata={"help": "Longest prompt in tokens. Longer ones are dropped, and counted."}
    )
    length_budget: list[int] | None = field(
        default=None,
        metadata={"help": "Lowest and highest number of tokens to ask for in the prompt (L1), for example 128 10000."},
    )

    def __post_init__(self):
        if self.length_budget is not None and len(self.length_budget) != 2:
            raise ValueError(f"`length_budget` is {self.length_budget}, but must be two numbers: lowest and highest.")
        if self.max_prompt_length < 1:
            raise ValueError(f"`max_prompt_length` is {self.max_prompt_length}, but must be at least 1.")
