"""Which tokens end a generation."""

from dataclasses import dataclass

from transformers import GenerationConfig, PreTrainedTokenizerBase

_MARK = "coda-trl answer"


@dataclass(frozen=True)
class StopTokens:
    """
    Tokens that end a generation.

    Args:
        ids (`tuple[int, ...]`):
            Ids at which generation should stop.
        added (`tuple[str, ...]`):
            Those that checkpoint and tokenizer do not declare, so that generation must be told.
        warning (`str`, *optional*):
            Set if generation may never stop, with the reason.
    """

    ids: tuple[int, ...]
    added: tuple[str, ...]
    warning: str | None


def find_stop_tokens(
    tokenizer: PreTrainedTokenizerBase, generation_config: GenerationConfig | None, prompt_format: str = "chat"
) -> StopTokens:
    """
    Finds the tokens at which generation has to stop.

    Qwen3's base checkpoints declare only `<|endoftext|>` as end of sequence, while their chat template closes a turn
    with `<|im_end|>`, after which a model would continue to the length limit.

    Args:
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Tokenizer of the model.
        generation_config ([`~transformers.GenerationConfig`], *optional*):
            Generation settings that come with the checkpoint.
        prompt_format (`str`, *optional*, defaults to `"chat"`):
            `"chat"` or `"plain"`.

    Returns:
        [`StopTokens`]
    """
    declared = generation_config.eos_token_id if generation_config is not None else None
    ids = {*(declared if isinstance(declared, list) else [declared]), tokenizer.eos_token_id} - {None}
    added: tuple[str, ...] = ()
    warning = None
    if prompt_format == "plain":
        if not ids:
            warning = "Neither tokenizer nor checkpoint declares an end of sequence: set `eos_token`."
    elif tokenizer.chat_template is None:
        warning = "The tokenizer has no chat template: set `prompt_format: plain`, or use a tokenizer that has one."
    elif end := _end_of_turn(tokenizer):
        end_id = tokenizer.convert_tokens_to_ids(end)
        added = () if end_id in ids else (end,)
        ids.add(end_id)
    elif not ids:
        warning = "No end of sequence is declared, and the chat template closes a turn with no special token."
    return StopTokens(tuple(sorted(ids)), added, warning)


def load_generation_config(model_name_or_path: str, revision: str | None = None) -> GenerationConfig | None:
    """Generation settings that come with a checkpoint, or `None`."""
    try:
        return GenerationConfig.from_pretrained(model_name_or_path, revision=revision)
    except OSError:  # a checkpoint may come without
        return None


def _end_of_turn(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The special token that the chat template puts right after an answer, if any."""
    turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": _MARK}]
    behind = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(_MARK)[2].lstrip()
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return max(filter(behind.startswith, special), key=len, default=None)
