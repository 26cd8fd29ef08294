"""What generation needs of a model: adapter, tokenizer, stop tokens and context length."""

import hashlib
import json
import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PretrainedConfig, PreTrainedTokenizerBase
from transformers.utils.peft_utils import find_adapter_config_file

from ..data import PromptFormat, find_stop_tokens
from ..data.stopping import load_generation_config

logger = logging.getLogger(__name__)

# Number and bytes of the blocks of a weight file that the checksum reads: training changes weights everywhere.
_BLOCKS, _BLOCK = 256, 4096


@dataclass(frozen=True)
class ModelFiles:
    """
    Path or hub id of a model, with its revision and whether its own code may run, and of an adapter with its rank.
    """

    model: str
    adapter: str | None = None
    adapter_rank: int | None = None
    revision: str | None = None
    trust_remote_code: bool = False

    def config(self) -> PretrainedConfig:
        """Configuration of the model."""
        return AutoConfig.from_pretrained(self.model, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments for `from_pretrained` of the model."""
        return {"revision": self.revision, "trust_remote_code": self.trust_remote_code}


def locate(
    model_name_or_path: str,
    base_model_name_or_path: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> ModelFiles:
    """
    Tells models from adapters, and finds the base model of an adapter: `base_model_name_or_path`, or the model that
    its configuration names. `revision` is that of `model_name_or_path`. Raises a `ValueError` if a folder lacks files
    or holds damaged ones.
    """
    _check_folder(model_name_or_path)
    adapter_config = find_adapter_config_file(model_name_or_path, revision=revision)
    if adapter_config is None:
        if base_model_name_or_path is not None:
            raise ValueError(
                f"base_model_name_or_path={base_model_name_or_path!r} is given, but {model_name_or_path!r} is no "
                "adapter (it holds no adapter_config.json): leave the base model out"
            )
        files = ModelFiles(model_name_or_path, revision=revision, trust_remote_code=trust_remote_code)
        _check_config(files, f"{model_name_or_path!r} is no folder here, and the hub did not give it: check the name")
        return files
    with open(adapter_config, encoding="utf-8") as file:
        settings = json.load(file)
    adapter, model = model_name_or_path, base_model_name_or_path or settings["base_model_name_or_path"]
    _check_folder(model)
    if revision is not None and not Path(adapter).is_dir():
        adapter = snapshot_download(adapter, revision=revision)  # vLLM takes no revision of an adapter
    base_revision = None if base_model_name_or_path else settings.get("revision")
    files = ModelFiles(model, adapter, settings.get("r", 1), base_revision, trust_remote_code)
    _check_config(  # the base model may be a path from the folder that the adapter was trained in
        files,
        f"{model_name_or_path} is an adapter of {model!r}, which is no folder here, and the hub did not give it: "
        "say where it is by base_model_name_or_path",
    )
    return files


def _check_config(files: ModelFiles, complaint: str) -> None:
    """Asks the hub for a model's configuration. Raises a `ValueError` with the complaint if it has none."""
    if not Path(files.model).is_dir():
        try:
            files.config()
        except OSError as error:
            raise ValueError(complaint) from error


def _check_folder(place: str) -> None:
    """Checks the files of a folder, with shorter messages than those of libraries. Other places may be hub ids."""
    folder = Path(place)
    if not folder.is_dir():
        if place.startswith((".", "~", "/")) or place.count("/") > 1:  # no hub id
            raise ValueError(f"there is no model folder {place}: check the path")
        return
    if not any((folder / name).exists() for name in ("config.json", "adapter_config.json")):
        checkpoints = ", ".join(sorted(path.name for path in folder.glob("checkpoint-*")))
        within = f", but {checkpoints}: name one of them" if checkpoints else ": name one that a model is in"
        raise ValueError(f"{folder} holds neither config.json (a model) nor adapter_config.json (an adapter){within}")
    for path in folder.glob("*.safetensors"):
        try:
            safe_open(path, framework="np")  # reads the header, and compares it with the size
        except SafetensorError as error:
            raise ValueError(f"{path} is truncated or damaged ({error}): save or copy the model again") from error


def fingerprint(files: ModelFiles) -> str:
    """Checksum of names, sizes and parts of the weights, which changes with training; empty for models on the hub."""
    digest = hashlib.blake2b(digest_size=8)
    places = [Path(place) for place in (files.model, files.adapter) if place is not None]
    paths = [path for place in places for path in sorted(place.glob("*.safetensors"))]
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with open(path, "rb") as file:
            for start in range(0, size, max(_BLOCK, size // _BLOCKS)):
                file.seek(start)
                digest.update(file.read(_BLOCK))
    return digest.hexdigest() if paths else ""


def load_tokenizer(files: ModelFiles) -> PreTrainedTokenizerBase:
    """Tokenizer of the adapter, if it has one (training may have changed the chat template), else of the model."""
    if files.adapter is not None:
        with suppress(ImportError, OSError, ValueError):  # none was saved there
            return AutoTokenizer.from_pretrained(files.adapter, trust_remote_code=files.trust_remote_code)
    return AutoTokenizer.from_pretrained(files.model, **files.options)


def stop_token_ids(
    files: ModelFiles, tokenizer: PreTrainedTokenizerBase, prompt_format: PromptFormat = "chat"
) -> tuple[int, ...]:
    """Tokens that end an answer, see [`~data.find_stop_tokens`]."""
    generation_config = load_generation_config(files.model, files.revision)
    if generation_config is None:
        generation_config = GenerationConfig.from_model_config(files.config())
    stop_tokens = find_stop_tokens(tokenizer, generation_config, prompt_format)
    if stop_tokens.warning is not None:
        logger.warning(stop_tokens.warning)
    return stop_tokens.ids


def _context(files: ModelFiles) -> float:
    """Most tokens that the model takes."""
    try:
        return files.config().get_text_config().max_position_embeddings
    except AttributeError:  # Bloom, Mamba and others declare no limit
        return math.inf


def model_length(files: ModelFiles, tokens: int) -> int:
    """
    Length to set vLLM up for: `tokens` rounded up to a multiple of 1,024, as far as the context permits. vLLM compiles
    a model anew for every other length, which takes it longer than loading what it compiled for another benchmark.
    """
    return int(min(-(-tokens // 1024) * 1024, _context(files)))


def check_context(files: ModelFiles, longest_prompt: int, max_tokens: int) -> None:
    """Raises a `ValueError` if a prompt and its answer do not fit into the model."""
    context = _context(files)
    room = context - longest_prompt
    if max_tokens > room:
        raise ValueError(
            f"max_tokens={max_tokens} and the longest prompt ({longest_prompt} tokens) exceed the context of "
            f"{files.model} ({context} tokens): "
            + (f"set max_tokens to {room} or less" if room > 0 else "leave such prompts out")
        )
