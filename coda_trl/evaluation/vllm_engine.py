"""Generation with vLLM: one process and engine per data-parallel replica.

vLLM refuses data parallelism inside one engine for dense models, and its server would have to be fed, watched and
ended over HTTP; replicas that share one queue of requests balance themselves. Requests are fed and collected one by
one (`LLM.generate` waits for the longest answer of a batch), so the GPU does not idle behind a 16K-token straggler,
and every finished problem reaches the disk at once.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from .generation import Generation, Request, SamplingSettings

if TYPE_CHECKING:  # the processes that run vLLM import this module
    from multiprocessing.process import BaseProcess

    from transformers import PreTrainedTokenizerBase

# Sequences in an engine at a time: more than it schedules together, so that it never waits for the next.
_SEQUENCES_IN_FLIGHT = 2048

_GRACE = 30.0  # seconds for a replica to shut its engine down


class VLLMEngine:
    """
    Samples with vLLM's offline `LLM`, one request with `n` samples per problem. `llm_arguments` (`model` among them)
    go to `vllm.LLM`, `adapter` is the folder of a LoRA adapter. Answers are decoded with `tokenizer`, as by the
    transformers engine. Replicas share GPUs if these are fewer and `llm_arguments` has `kv_cache_memory_bytes`.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        settings: SamplingSettings,
        stop_token_ids: Sequence[int],
        llm_arguments: dict[str, Any],
        adapter: str | None = None,
        tensor_parallel_size: int = 1,
        data_parallel_size: int = 1,
    ):
        self.tokenizer = tokenizer
        self.sampling_arguments = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_tokens": settings.max_tokens,
            "stop_token_ids": sorted(stop_token_ids),
            "detokenize": False,
        }
        self.llm_arguments = llm_arguments | {"tensor_parallel_size": tensor_parallel_size}
        self.adapter = adapter
        share = llm_arguments.get("kv_cache_memory_bytes") is not None  # else each would take what is free
        self.devices = _assign_devices(tensor_parallel_size, data_parallel_size, share)

    def generate(self, requests: Sequence[Request]) -> Iterator[list[Generation]]:
        """Answers requests in their order. Raises a `RuntimeError` with the traceback of a replica that fails."""
        context = multiprocessing.get_context("spawn")  # a forked child could not use CUDA
        tasks = context.Queue()
        tasks.cancel_join_thread()  # do not wait at exit for a failed replica to fetch its requests
        for task in enumerate(requests):
            tasks.put(task)
        for _ in self.devices:
            tasks.put(None)
        replicas: dict[Connection, _Replica] = {}
        try:
            for devices in self.devices:
                reader, writer = context.Pipe(duplex=False)
                arguments = tasks, writer, devices, self.llm_arguments, self.sampling_arguments, self.adapter
                worker = context.Process(target=_serve, args=arguments)
                worker.start()
                writer.close()  # the replica has the other copy, so answers end when it ends
                replicas[reader] = _Replica(worker)
            for _ in requests:
                index, answers = _receive(replicas)
                yield [
                    Generation(
                        requests[index],
                        requests[index].first_sample + offset,
                        self.tokenizer.decode(token_ids, skip_special_tokens=True),
                        len(token_ids),
                        finish_reason,
                    )
                    for offset, (token_ids, finish_reason) in enumerate(answers)
                ]
        except BaseException:  # also if the consumer stops early
            for replica in replicas.values():
                replica.process.terminate()
            raise
        finally:
            for replica in replicas.values():
                replica.end()


class _Replica:
    """
    The process of a replica. When it ends, the rest of its process group is killed: vLLM's own processes would keep
    the GPU's memory, and the replica's end of the pipe, so that the parent would wait.
    """

    def __init__(self, process: "BaseProcess"):
        self.process = process
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)  # its number stays taken until it is joined
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()

    def end(self) -> int:
        """Waits for the process, kills it if that takes too long, and returns its exit code."""
        self._watcher.join(_GRACE)
        self.process.kill()
        self._watcher.join()
        return self.process.exitcode


def _assign_devices(tensor_parallel_size: int, data_parallel_size: int, share: bool) -> list[str | None]:
    """GPUs of every replica. Replicas that may share GPUs are dealt to them in turn."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    devices = visible.split(",") if visible else [str(index) for index in range(torch.cuda.device_count())]
    if not devices and data_parallel_size == 1:
        return [None]  # a build of vLLM for CPUs
    groups = [
        ",".join(devices[start : start + tensor_parallel_size])
        for start in range(0, len(devices) - tensor_parallel_size + 1, tensor_parallel_size)
    ]
    if not groups or (len(groups) < data_parallel_size and not share):
        raise ValueError(
            f"data_parallel_size={data_parallel_size} replicas of tensor_parallel_size={tensor_parallel_size} need "
            f"{tensor_parallel_size * data_parallel_size} GPUs, but {len(devices)} are visible: lower one of the two, "
            "or set kv_cache_memory_bytes, with which replicas share GPUs"
        )
    return [groups[replica % len(groups)] for replica in range(data_parallel_size)]


def _receive(replicas: dict[Connection, _Replica]) -> tuple[int, list]:
    """The next answers, and the number of their request. Replicas that have ended are removed."""
    again = "The samples written so far are kept: run the same command again to resume."
    while replicas:
        reader = connection.wait(list(replicas))[0]
        try:
            index, answers = reader.recv()
        except (EOFError, OSError):  # between two messages, or within one
            exit_code = replicas[reader].end()
            del replicas[reader]
            if exit_code != 0:
                raise RuntimeError(
                    f"a vLLM replica ended with exit code {exit_code}; its own output says why. {again}"
                ) from None
            continue
        if index is None:
            raise RuntimeError(f"a vLLM replica failed:\n{answers}")
        return index, answers
    raise RuntimeError(f"the vLLM replicas ended before everything was answered. {again}")


def _serve(tasks: multiprocessing.Queue, writer: Connection, devices: str | None, *arguments: Any) -> None:
    """Runs one replica until the queue of tasks is empty or the parent process is gone."""
    os.setpgrp()  # with vLLM's own processes, so that they can be ended together
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception, so that the engine is shut down
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if devices is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
    answers: queue.SimpleQueue = queue.SimpleQueue()
    sender = threading.Thread(target=_send, args=(answers, writer), daemon=True)
    sender.start()
    try:
        _answer(tasks, answers, *arguments)
    except Exception:
        answers.put((None, traceback.format_exc()))
    answers.put(None)
    sender.join()


def _end_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os.killpg(0, signal.SIGKILL)


def _send(answers: queue.SimpleQueue, writer: Connection) -> None:
    """Sends answers from a thread of its own, so that the engine continues while the parent grades."""
    with contextlib.suppress(BrokenPipeError):  # the parent is gone
        for message in iter(answers.get, None):
            writer.send(message)


def _answer(
    tasks: multiprocessing.Queue,
    answers: queue.SimpleQueue,
    llm_arguments: dict[str, Any],
    sampling_arguments: dict[str, Any],
    adapter: str | None,
) -> None:
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest
    from vllm.sampling_params import RequestOutputKind

    engine = LLM(**llm_arguments).llm_engine
    lora = None if adapter is None else LoRARequest("adapter", 1, adapter)
    in_flight: dict[str, int] = {}  # samples by request
    waiting = iter(tasks.get, None)
    try:
        while True:
            while sum(in_flight.values()) < _SEQUENCES_IN_FLIGHT and (task := next(waiting, None)):
                index, request = task
                in_flight[str(index)] = request.num_samples
                params = SamplingParams(
                    n=request.num_samples,
                    # vLLM adds the number of the sample in the request.
                    seed=request.seed + request.first_sample,
                    output_kind=RequestOutputKind.FINAL_ONLY,
                    **sampling_arguments,
                )
                prompt = {"prompt_token_ids": list(request.prompt_ids)}
                engine.add_request(str(index), prompt, params, lora_request=lora)
            if not in_flight:
                break
            for output in engine.step():
                if output.finished:
                    del in_flight[output.request_id]
                    found = [(list(answer.token_ids), answer.finish_reason) for answer in output.outputs]
                    answers.put((int(output.request_id), found))
    finally:
        # vLLM's own process is no daemon: otherwise the replica would wait for it, or leave it with its memory.
        engine.engine_core.shutdown()
