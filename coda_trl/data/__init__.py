"""Training and evaluation data, each row with a `prompt`, the gold as `solution`, and its `source`.

A data set is named, and found on the hub under that name, or taken from a file (or another hub id) by `NAME=LOCATION`:

```python
>>> from coda_trl.data import load_training_set

>>> load_training_set("mixed")  # doctest: +SKIP
>>> load_training_set(["gsm8k_train=copies/gsm8k.jsonl.gz", "math_level1=copies/math.parquet"])  # doctest: +SKIP

```

- [`load_training_set`]: `mixed`, `easy`, `hard`, or any sources joined; chat or plain prompts; token budgets for L1.
- [`load_evaluation_set`]: `svamp`, `gsm8k`, `math500`, `amc23`, `aime24`, `aime25`, `commonsenseqa`, `gpqa`.
- [`drop_long_prompts`]: the prompt-length filter, with a count.
- [`find_overlap`]: evaluation problems in a training set.
- [`find_stop_tokens`]: where generation has to stop.

Whatever is missing, damaged or renamed raises [`DataError`] with what was found. `sources.py` holds the table.
"""

from .arguments import DataArguments
from .contamination import Overlap, find_overlap
from .filtering import PromptLengths, drop_long_prompts
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
    "PromptLengths",
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
