"""
Training and evaluation data, each row with a `prompt`, the gold as `solution`, and its `source`. A data set is named,
and found on the hub under that name, or taken from a file (or another hub id) by `NAME=LOCATION`. `sources.py` holds
the table. Whatever is missing, damaged or renamed raises [`DataError`] with what was found.
"""

from .arguments import DataArguments
from .contamination import Overlap, find_overlap
from .filtering import drop_long_prompts
from .loading import PromptFormat, load_evaluation_set, load_source, load_training_set, published_rows
from .prompts import INSTRUCTION, add_length_budget, choice_prompt, math_prompt, to_plain_text
from .reading import DataError, DatasetUnavailableError
from .sources import BENCHMARKS, SOURCES, TRAINING_SETS
from .stopping import StopTokens, find_stop_tokens, load_generation_config

__all__ = [
    "BENCHMARKS",
    "INSTRUCTION",
    "SOURCES",
    "TRAINING_SETS",
    "DataArguments",
    "DataError",
    "DatasetUnavailableError",
    "Overlap",
    "PromptFormat",
    "StopTokens",
    "add_length_budget",
    "choice_prompt",
    "drop_long_prompts",
    "find_overlap",
    "find_stop_tokens",
    "load_evaluation_set",
    "load_generation_config",
    "load_source",
    "load_training_set",
    "math_prompt",
    "published_rows",
    "to_plain_text",
]
