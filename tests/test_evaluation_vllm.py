"""The vLLM engine: its processes and requests against a stand-in (`tests/with_vllm` has vLLM itself)."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import has_ended, wait_until

from coda_trl.evaluation.generation import Request, SamplingSettings
from coda_trl.evaluation.vllm_engine import VLLMEngine

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]

# Answers with what it was asked, so that a test can see it: seed of each sample, prompt, and the replica's GPUs.
STAND_IN = """
import os
import time
from types import SimpleNamespace as N

class SamplingParams:
    def __init__(self, n, seed, output_kind, **rest):
        assert output_kind == "final"
        asked = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 9, "stop_token_ids": [2, 7], "detokenize": False}
        assert rest == asked, rest
        self.n, self.seed = n, seed

class Engine:
    def __init__(self, arguments):
        self.arguments, self.waiting = arguments, []
        self.engine_core = N(shutdown=self.shutdown)
    def shutdown(self):
        print("shut down", flush=True)
        if self.arguments["model"] in ("hanging", "stuck"):
            time.sleep(1000)
    def add_request(self, request_id, prompt, params, lora_request=None):
        self.waiting.append((request_id, prompt, params, lora_request))
    def step(self):
        if self.arguments["model"] == "talkative":
            request_id, _, params, _ = self.waiting.pop(0)
            answers = [N(token_ids=[1] * 100_000, finish_reason="stop")] * params.n
            return [N(finished=True, request_id=request_id, outputs=answers)]
        if self.arguments["model"] == "quitting":
            raise SystemExit(0)
        if self.arguments["model"] in ("endless", "stuck"):
            print(os.getpid(), flush=True)
            time.sleep(0.1)
            return []
        request_id, prompt, params, lora = self.waiting.pop(0)
        gpus = int(os.environ["CUDA_VISIBLE_DEVICES"].replace(",", ""))
        adapted = lora is not None and lora.path == "folder"
        answers = [
            N(
                token_ids=[params.seed + i, gpus, adapted, *prompt["prompt_token_ids"]],
                finish_reason="length" if i else "stop",
            )
            for i in range(params.n)
        ]
        return [N(finished=False), N(finished=True, request_id=request_id, outputs=answers)]

class LLM:
    def __init__(self, **arguments):
        assert arguments["tensor_parallel_size"] in (1, 2)
        if arguments["model"] == "unstarted":
            raise RuntimeError("no memory to start")
        if arguments["model"] == "crashing":
            os._exit(9)
        if arguments["model"] == "talkative":
            pid = os.fork()  # as vLLM's own processes, which hold all that the replica has open
            if pid == 0:
                time.sleep(600)
            print(pid, flush=True)
        self.llm_engine = Engine(arguments)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    package = tmp_path / "vllm"
    (package / "lora").mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    (package / "sampling_params.py").write_text("class RequestOutputKind:\n    FINAL_ONLY = 'final'\n")
    (package / "lora" / "__init__.py").write_text("")
    request = "class LoRARequest:\n    def __init__(self, name, number, path):\n        self.path = path\n"
    (package / "lora" / "request.py").write_text(request)
    monkeypatch.syspath_prepend(str(tmp_path))  # which the engine's processes inherit
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")


class Digits:
    """A tokenizer that shows the token ids."""

    def decode(self, token_ids, skip_special_tokens):
        assert skip_special_tokens
        return " ".join(str(int(token)) for token in token_ids)


def engine(model="m", **arguments):
    return VLLMEngine(Digits(), SamplingSettings(0.6, 0.95, 9), [7, 2], {"model": model}, **arguments)


def requests(count):
    return [
        Request("b", str(i), (i,) * (i + 1), first_sample=i % 3, num_samples=2, seed=100 * i) for i in range(count)
    ]


def test_replicas_share_the_requests_and_every_sample_has_its_seed(stand_in):
    asked = requests(12)
    groups = engine(tensor_parallel_size=2, data_parallel_size=2).generate(asked)
    answers = [answer for group in groups for answer in group]
    assert len(answers) == 24
    assert {(a.request.problem_id, a.sample) for a in answers} == {
        (r.problem_id, r.first_sample + i) for r in asked for i in (0, 1)
    }
    for answer in answers:
        seed, gpus, adapter, *prompt = map(int, answer.text.split())
        assert seed == answer.request.seed + answer.sample
        assert tuple(prompt) == answer.request.prompt_ids
        assert gpus in (45, 67)
        assert adapter == 0
        assert answer.tokens == 3 + len(prompt)
        assert answer.finish_reason == ("stop" if answer.sample == answer.request.first_sample else "length")


def test_an_adapter_goes_with_every_request(stand_in):
    answers = [answer for group in engine(adapter="folder").generate(requests(2)) for answer in group]
    assert all(answer.text.split()[2] == "1" for answer in answers)


SCRIPT = """
import sys
import time

import psutil

from coda_trl.evaluation import vllm_engine
from coda_trl.evaluation.generation import Request, SamplingSettings

class Length:
    def decode(self, token_ids, skip_special_tokens):
        return str(len(token_ids))

vllm_engine._GRACE = 3.0  # in replicas, too

if __name__ == "__main__":
    model, count, prompt_length, consumer = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    engine = vllm_engine.VLLMEngine(Length(), SamplingSettings(0.6, 0.95, 9), [7, 2], {"model": model})
    for group in engine.generate([Request("b", str(i), (1,) * prompt_length, 0, 2, 0) for i in range(count)]):
        if consumer == "stops":
            break
        if consumer == "kills":
            time.sleep(1)  # the replica is within an answer that does not fit into the pipe
            for process in psutil.Process().children():
                process.kill()
"""


def start(tmp_path, *arguments, **options):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    return subprocess.Popen([sys.executable, script, *arguments], text=True, env=environment, **options)


@pytest.mark.parametrize(
    ("model", "consumer", "returncode", "message"),
    [
        ("unstarted", "reads", 1, "no memory to start"),  # more requests than a pipe holds, and nobody to fetch them
        ("crashing", "reads", 1, "ended with exit code 9"),
        ("quitting", "reads", 1, "ended before everything was answered"),
        ("talkative", "stops", 0, ""),
        ("talkative", "kills", 1, "ended with exit code -9"),
        ("hanging", "reads", 0, ""),
    ],
)
def test_a_run_ends_whatever_becomes_of_its_replica(stand_in, tmp_path, model, consumer, returncode, message):
    run = start(tmp_path, model, "600", "1000", consumer, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = run.communicate(timeout=300)
    finally:
        run.kill()
    if model == "talkative":
        assert wait_until(lambda: has_ended(int(output.split()[0]))), "vLLM's own processes end as well"
    assert message in errors
    assert run.returncode == returncode


@pytest.mark.parametrize(
    ("model", "end"), [("endless", signal.SIGKILL), ("endless", signal.SIGINT), ("stuck", signal.SIGKILL)]
)
def test_a_run_that_is_ended_leaves_no_replica_behind(stand_in, tmp_path, model, end):
    run = start(
        tmp_path,
        *(model, "1", "1", "reads"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Shells start background jobs with SIGINT ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    replica = int(run.stdout.readline())
    run.send_signal(end)
    run.wait()
    assert wait_until(lambda: has_ended(replica))
    assert run.stdout.read().endswith("shut down\n")


def test_more_replicas_than_gpus_are_refused(stand_in):
    with pytest.raises(ValueError, match="need 6 GPUs, but 4 are visible: lower one of the two"):
        engine(tensor_parallel_size=2, data_parallel_size=3)


def test_without_a_choice_all_gpus_are_taken_or_none_on_a_cpu(stand_in, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert engine(data_parallel_size=3).devices == ["0", "1", "2"]
    assert engine(tensor_parallel_size=2).devices == ["0,1"]
    for sizes in ({"tensor_parallel_size": 2, "data_parallel_size": 2}, {"tensor_parallel_size": 4}):
        with pytest.raises(ValueError, match="need 4 GPUs, but 3 are visible"):
            engine(**sizes)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert engine().devices == [None]
    with pytest.raises(ValueError, match="need 2 GPUs, but 0 are visible"):
        engine(data_parallel_size=2)


def test_replicas_share_gpus_where_memory_is_set(stand_in):
    arguments = {"model": "m", "kv_cache_memory_bytes": 1}
    made = VLLMEngine(Digits(), SamplingSettings(0.6, 0.95, 9), [7], arguments, None, 2, 3)
    assert made.devices == ["4,5", "6,7", "4,5"]
    with pytest.raises(ValueError, match="need 8 GPUs, but 4 are visible"):
        VLLMEngine(Digits(), SamplingSettings(0.6, 0.95, 9), [7], arguments, None, 8)
