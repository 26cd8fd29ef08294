"""The ladder's tokenizer: a word each for numbers and for the words of the styles."""

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from .arithmetic import MAX_TOTAL
from .problems import LARGEST_NUMBER
from .styles import BUDGET_WORDS, WORDS

# A conversation of one user message is the question itself; what follows is the answer.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Word-level tokenizer of the ladder: every number, every `+number` and every word is one token."""
    addends = (f"+{number}" for number in range(1, LARGEST_NUMBER + 1))
    words = ["<pad>", "<eos>", *WORDS, *BUDGET_WORDS, *addends, *map(str, range(MAX_TOTAL + 1))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        padding_side="left",
        model_max_length=128,
        chat_template=CHAT_TEMPLATE,
    )
