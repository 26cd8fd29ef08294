"""`vllm serve` on cards of its own, beside a training."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from processes import Command
from training import last_error


def serve_command(model: str, port: int, max_model_length: int, tensor_parallel: int = 1) -> list[str]:
    """
    `vllm serve` as in `recipes/slurm/one_node_server.slurm`.

    Args:
        model (`str`):
            Folder.
        port (`int`):
            Where it listens.
        max_model_length (`int`):
            Longest prompt and completion together, in tokens.
        tensor_parallel (`int`, *optional*, defaults to `1`):
            Cards that share the model.
    """
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--port", str(port)]
    command += ["--max-model-len", str(max_model_length), "--tensor-parallel-size", str(tensor_parallel)]
    # What TRL needs: weights come in over NCCL, log-probabilities go out.
    command += ["--weight-transfer-config", '{"backend": "nccl"}', "--logprobs-mode", "processed_logprobs"]
    return [*command, "--max-logprobs", "-1"]


class Server(Command):
    """
    A server that is running.

    Args:
        command (`list[str]`):
            From [`serve_command`].
        log (`Path`):
            File for its output.
        cards (`Sequence[int]`):
            Its GPUs; none on a CPU.
    """

    def __init__(self, command: list[str], log: Path, cards: Sequence[int]):
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, cards))} if cards else {}
        super().__init__(command, log, {"VLLM_SERVER_DEV_MODE": "1"} | visible)

    def watch(self) -> str | None:
        """What is wrong if it has ended, for the training's [`Command.wait`]."""
        return None if self.poll() is None else f"the server ended: {last_error(self.log)}"


class MeasuredServer(Server):
    """A server, and the most memory that its cards had in use, in bytes, each time that it was watched."""

    def __init__(self, command: list[str], log: Path, cards: Sequence[int]):
        super().__init__(command, log, cards)
        self.cards, self.peaks = cards, [0] * len(cards)

    def watch(self) -> str | None:
        self.peaks = list(map(max, self.peaks, used_memory(self.cards)))
        return super().watch()


def used_memory(cards: Sequence[int]) -> list[int]:
    """Bytes in use on each card, by all processes."""
    if not cards:
        return []
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    output = subprocess.run([*query, "-i", ",".join(map(str, cards))], capture_output=True, text=True, check=True)
    return [int(line) * 2**20 for line in output.stdout.splitlines()]
