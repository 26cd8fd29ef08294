"""Settings of an evaluation."""

import json
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from ..help_texts import help_from_docstring
from ..setting_types import check_types
from .generation import SamplingSettings

CHOICES = {
    "engine": ("vllm", "transformers"),
    "prompt_format": ("chat", "plain"),
    "dtype": ("auto", "bfloat16", "float16", "float32"),
}


@help_from_docstring
@dataclass
class EvaluationConfig:
    """
    What to evaluate, and how.

    Args:
        model_name_or_path (`str`):
            Path or hub id of a model, or of an adapter.
        output_dir (`str`):
            Folder for `samples.jsonl` and `summary.json`. An unfinished evaluation in it is resumed.
        base_model_name_or_path (`str`, *optional*):
            Model under the adapter. Defaults to the one that the adapter names.
        model_revision (`str`, *optional*):
            Branch, tag or commit of `model_name_or_path` on the hub.
        trust_remote_code (`bool`, *optional*, defaults to `False`):
            Whether code that comes with the model may run.
        engine (`str`, *optional*, defaults to `"vllm"`):
            `"vllm"`, or `"transformers"` for CPUs and small models.
        n (`int`, *optional*, defaults to `8`):
            Samples of each problem.
        temperature (`float`, *optional*, defaults to `0.6`):
            Sampling temperature; 0 decodes greedily and needs `n=1`.
        top_p (`float`, *optional*, defaults to `0.95`):
            Probability that nucleus sampling keeps.
        max_tokens (`int`, *optional*, defaults to `16384`):
            Limit on generated tokens.
        seed (`int`, *optional*, defaults to `0`):
            Seed that the seeds of the samples derive from.
        prompt_format (`str`, *optional*, defaults to `"chat"`):
            `"chat"` applies the chat template; `"plain"` gives the bare text to a base model without one.
        chat_template_kwargs (`dict[str, Any]` or `str`, *optional*):
            Settings of the chat template, as in training; `{"enable_thinking": false}` turns the thinking of hybrid
            models off. JSON on the command line.
        token_budget (`int`, *optional*):
            Tokens that prompts ask for (`Think for N tokens.`), for L1. In Python, `load_benchmark` adds the sentence.
        dtype (`str`, *optional*, defaults to `"auto"`):
            Number format of the weights: `"bfloat16"`, `"float16"` or `"float32"`; `"auto"` takes the checkpoint's.
        batch_size (`int`, *optional*, defaults to `64`):
            Answers that the transformers engine generates at a time.
        tensor_parallel_size (`int`, *optional*, defaults to `1`):
            GPUs that vLLM spreads one replica over.
        data_parallel_size (`int`, *optional*, defaults to `1`):
            Replicas that vLLM runs. Several share a GPU if `kv_cache_memory_bytes` is set.
        gpu_memory_utilization (`float`, *optional*, defaults to `0.9`):
            Share of GPU memory that vLLM takes.
        kv_cache_memory_bytes (`int`, *optional*):
            Bytes for the keys and values of a vLLM replica. Defaults to the rest of its share, but then vLLM may fail
            to start if other processes take or free memory meanwhile.

    Raises:
        ValueError: If a value is out of range.
        ImportError: If `engine` is `"vllm"` and vLLM is not installed.
    """

    model_name_or_path: str
    output_dir: str
    base_model_name_or_path: str | None = None
    model_revision: str | None = None
    trust_remote_code: bool = False
    engine: str = "vllm"
    n: int = 8
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 16384
    seed: int = 0
    prompt_format: str = "chat"
    chat_template_kwargs: dict | str | None = None
    token_budget: int | None = None
    dtype: str = "auto"
    batch_size: int = 64
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None

    def __post_init__(self):
        check_types(vars(self), EvaluationConfig)
        for name, choices in CHOICES.items():
            if vars(self)[name] not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {vars(self)[name]!r}")
        if isinstance(self.chat_template_kwargs, str):
            self.chat_template_kwargs = json.loads(self.chat_template_kwargs)
        if self.chat_template_kwargs and self.prompt_format == "plain":
            raise ValueError("chat_template_kwargs need prompt_format='chat': plain prompts have no template")
        for name in ("n", "max_tokens", "batch_size", "tensor_parallel_size", "data_parallel_size"):
            if vars(self)[name] < 1:
                raise ValueError(f"{name} must be at least 1, got {vars(self)[name]}")
        if not 0 <= self.temperature < float("inf"):  # nor NaN
            raise ValueError(f"temperature must be at least 0 and finite, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")
        if self.temperature == 0 and self.n > 1:
            raise ValueError(f"temperature=0 gives n={self.n} identical samples: set n=1, or raise the temperature")
        if self.engine == "vllm" and find_spec("vllm") is None:  # before data and model are fetched
            raise ImportError(
                "engine='vllm', the default, but vLLM is not installed: `pip install 'vllm>=0.22,<0.32'`, or set "
                "engine='transformers' (`--engine transformers`): slower"
            )

    @property
    def place(self) -> tuple[str, str | None, str | None, bool]:
        """Where the model is, for [`~models.locate`]."""
        return self.model_name_or_path, self.base_model_name_or_path, self.model_revision, self.trust_remote_code

    @property
    def sampling(self) -> SamplingSettings:
        """The part that engines sample by."""
        return SamplingSettings(self.temperature, self.top_p, self.max_tokens)

    def identity(self) -> dict[str, Any]:
        """Settings that all sessions of an evaluation share. (`n` may grow, and the hardware may change.)"""
        names = (
            "model_name_or_path base_model_name_or_path model_revision engine seed prompt_format chat_template_kwargs "
            "token_budget dtype"
        )
        return {name: vars(self)[name] for name in names.split()} | asdict(self.sampling)
