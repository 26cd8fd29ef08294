"""Command-line arguments that say what to train on."""

from dataclasses import dataclass, field

from ..help_texts import help_from_docstring


@help_from_docstring
@dataclass
class DataArguments:
    """
    What to train on, for [`~trl.TrlParser`].

    Args:
        dataset (`list[str]`, *optional*, defaults to `["mixed"]`):
            Training data: `mixed`, `easy`, `hard`, or names as in [`load_source`] (`NAME` or `NAME=LOCATION`);
            `custom=LOCATION` is your own file or hub id (`ID:CONFIG:SPLIT`, by default the split `train`).
        prompt_column (`str`, *optional*, defaults to `"prompt"`):
            Column of the `custom` data set that holds the prompt (text or messages).
        solution_column (`str`, *optional*, defaults to `"solution"`):
            Column of the `custom` data set that holds the gold answer.
        eval_dataset (`list[str]`, *optional*):
            What to evaluate on while training, named in the same way (by default the split `test`), each with metrics
            of its own; `eval_strategy` and `eval_steps` say when.
        prompt_format (`str`, *optional*, defaults to `"chat"`):
            `"chat"`: prompts go through the chat template. `"plain"`: as they are, for base models without one.
        max_prompt_length (`int`, *optional*, defaults to `1024`):
            Longest prompt in tokens; longer ones are dropped, and counted.
        length_budget (`list[int]`, *optional*):
            Lowest and highest number of tokens to ask for in the prompt. Needed by `l1_exact` and `l1_max`.
    """

    dataset: list[str] = field(default_factory=lambda: ["mixed"])
    prompt_column: str = "prompt"
    solution_column: str = "solution"
    eval_dataset: list[str] | None = None
    prompt_format: str = field(default="chat", metadata={"choices": ["chat", "plain"]})
    max_prompt_length: int = 1024
    length_budget: list[int] | None = None

    def __post_init__(self):
        if not self.dataset:
            raise ValueError(f"`dataset` is {self.dataset}, but must name a data set.")
        budget = self.length_budget
        if budget is not None and not (len(budget) == 2 and 0 < budget[0] <= budget[1]):
            raise ValueError(f"`length_budget` is {budget}, but must be two positive numbers: lowest and highest.")
        if self.max_prompt_length < 1:
            raise ValueError(f"`max_prompt_length` is {self.max_prompt_length}, but must be at least 1.")
