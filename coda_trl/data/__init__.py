"""
Training and evaluation data, each row with a `prompt`, the gold as `solution`, and its `source`. A name loads a data
set from the hub, `NAME=LOCATION` from a file or another hub id; `sources.py` has the table. If anything is missing,
damaged or renamed, [`DataError`] says what was found.
"""

from .arguments import DataArguments
from .contamination import Overlap, find_overlap
from .filtering import drop_long_prompts
from .loading import PromptFormat, load_evaluation_set, load_source, load_training_set
from .prompts import INSTRUCTION, add_length_budget, choice_prompt, math_prompt, to_plain_text
from .reading import DataError, DatasetUnavailableError
from .sources import BENCHMARKS, SOURCES, TRAINING_SETS
from .stopping import StopTokens, find_stop_tokens

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
    "load_source",
    "load_training_set",
    "math_prompt",
    "to_plain_text",
]
