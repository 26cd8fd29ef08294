from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from .problems import MAX_TOTAL, RUNGS
from .styles import WORDS

# A conversation of one user message is the question itself; what follows is the answer.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """
    Word-level tokenizer of the ladder: every number, every `+number` and every word is one token.

    Example:

    ```python
    >>> from coda_trl.ladder.tokenizer import build_tokenizer

    >>> tokenizer = build_tokenizer()
    >>> tokenizer.decode(tokenizer("3 +9 =").input_ids)
    '3 +9 ='

    ```
    """
    addends = range(1, max(rung.largest for rung in RUNGS.values()) + 1)
    words = ["<pad>", "<eos>", *WORDS, *(f"+{number}" for number in addends), *map(str, range(MAX_TOTAL + 1))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        padding_side="left",
        model_max_length=256,
        chat_template=CHAT_TEMPLATE,
    )
