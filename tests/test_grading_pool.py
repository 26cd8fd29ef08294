"""The pool: limits that hold whatever happens, verdicts that do not depend on it, and no process left behind."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest
from child_processes import wait_until
from pebble import ProcessExpired

from coda_trl.grading import GradingPool, default_pool, final_answer
from coda_trl.grading import pool as pool_module
from coda_trl.grading import server as server_module
from coda_trl.grading.__main__ import main
from coda_trl.grading.pool import Grade, _Server, default_workers
from coda_trl.grading.rules import Case, prepare

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
# Computer algebra takes minutes to tell these integrals from that of the gold.
HANGS = [rf"\boxed{{\int \frac{{\sin({number} x)\log(x)}}{{1+x^7}} dx}}" for number in range(1, 9)]
HANG_GOLD = r"\int \frac{\cos(x)\log(x)}{1+x^7} dx"


def needs_algebra(count: int) -> tuple[list[str], list[str]]:
    """Right answers that only computer algebra can tell."""
    cases = [(rf"\boxed{{\frac{{{n}\sqrt{{3}}}}{{3}}}}", rf"\frac{{{n}}}{{\sqrt{{3}}}}") for n in range(2, 2 + count)]
    return tuple(map(list, zip(*cases, strict=True)))


def group_of(pool: GradingPool) -> list[psutil.Process]:
    """The server of a pool and its workers."""
    server = psutil.Process(pool._server.pid)
    return [server, *server.children(recursive=True)]


def alive(group: int) -> bool:
    """Whether any process of a process group is left (other than as a zombie)."""
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass
    return False


@pytest.fixture(scope="module")
def pool():
    with GradingPool(workers=2, timeout=10.0) as pool:
        yield pool


def test_easy_cases_start_no_process():
    pool = GradingPool()
    grades = pool.grade(
        [r"\boxed{1/2}", r"\boxed{(B)}", r"\boxed{x+1}", "no box"], [r"\frac{1}{2}", "B", "1 + x", "3"]
    )
    assert [grade.verdict for grade in grades] == [True, True, True, False]
    assert pool._server is None and all(0 < grade.seconds < 5 for grade in grades)


def test_cases_that_hang_are_stopped_and_the_others_are_right():
    completions, golds = needs_algebra(20)
    with GradingPool(workers=2, timeout=1.0) as pool:
        pool.grade(completions[:1], golds[:1])
        before = len(group_of(pool))
        start = time.monotonic()
        grades = pool.grade(HANGS + completions, [HANG_GOLD] * len(HANGS) + golds)
        seconds = time.monotonic() - start
        assert wait_until(lambda: len(group_of(pool)) == before == 3)
        assert not any(grade.verdict for grade in grades[: len(HANGS)])
        assert sum(grade.stopped for grade in grades[: len(HANGS)]) >= 6  # a fast machine may finish one
        assert [grade.verdict for grade in grades[len(HANGS) :] if not grade.stopped].count(False) == 0
        assert seconds < 1.0 * len(HANGS) / 2 + 2 + 4  # the bound of docs/grading.md, and 4 seconds for a busy machine


def test_memory_of_a_worker_is_limited():
    completions, golds = needs_algebra(4)
    with GradingPool(workers=1, memory_mb=64) as pool:
        assert all(grade.verdict for grade in pool.grade(completions, golds))  # so little is enough
        limits = [process.rlimit(psutil.RLIMIT_AS)[0] for process in group_of(pool)[1:]]
        sizes = [process.memory_info().vms for process in group_of(pool)[1:]]
    assert limits and all(size <= limit <= size + 64 * 2**20 for limit, size in zip(limits, sizes, strict=True))


def test_a_worker_ends_at_its_memory_and_whatever_happens_soon_after_its_time(monkeypatch):
    monkeypatch.setattr(server_module, "judge", Mock(side_effect=MemoryError))
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    try:
        with pytest.raises(MemoryError):  # and no verdict
            server_module.grade_case(Case("1", "1"), timeout=2.0)
        assert 2 < resource.getrlimit(resource.RLIMIT_CPU)[0] - time.process_time() < 10
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def test_the_server_ends_with_its_caller_even_if_a_fork_keeps_the_connection(monkeypatch):
    parents, naps = iter([7, 7, 1]), [0.5, 0.5]
    monkeypatch.setattr(server_module, "os", SimpleNamespace(getppid=parents.__next__))
    monkeypatch.setattr(server_module, "time", SimpleNamespace(sleep=naps.remove))
    monkeypatch.setattr(server_module, "_end_group", end := Mock())
    server_module._watch_parent(7)
    assert end.call_count == 1 and naps == []


def test_a_fault_of_computer_algebra_is_no_timeout(pool):
    vector = r"\begin{pmatrix}1\\2\end{pmatrix}"
    grade = pool.grade([rf"\boxed{{{vector}^2}}"], [vector])[0]
    assert (grade.verdict, grade.stopped) == (False, False) and "NonSquareMatrixError" in grade.error


@pytest.mark.parametrize("victim", ["worker", "server"])
def test_a_process_killed_from_outside_costs_no_verdict(pool, victim):
    completions, golds = needs_algebra(80)
    pool.grade(completions[:1], golds[:1])
    processes = group_of(pool)
    killer = threading.Timer(0.05, processes[0 if victim == "server" else 1].kill)
    killer.start()
    grades = pool.grade(completions, golds)
    killer.join()
    assert [grade.verdict for grade in grades] == [True] * 80
    assert not any(grade.stopped for grade in grades)


def test_a_server_killed_while_a_case_hangs_is_noticed_before_the_case_ends():
    """The worker held the server's end of the connection open, so that the caller waited for it in vain."""
    server = _Server(workers=1, memory_mb=256)
    process = psutil.Process(server.pid)

    def kill_at_work():
        wait_until(lambda: any(worker.cpu_times().user > 0.5 for worker in process.children()))
        process.kill()

    killer = threading.Thread(target=kill_at_work)
    killer.start()
    with pytest.raises((EOFError, OSError)):
        list(server.grade([(0, prepare(HANG_GOLD, final_answer(HANGS[0])))], timeout=600.0))
    assert alive(server.pid)  # the group: the worker is still at it
    killer.join()
    server.end()
    assert wait_until(lambda: not alive(server.pid))


@pytest.mark.parametrize(
    ("errors", "sent", "lost"),
    [
        ([ProcessExpired("killed")], [True], 0),
        ([ProcessExpired("killed")] * 2, [True], 0),
        ([ProcessExpired("killed")] * 3, [False], 0),
        ([TimeoutError()], [False], 0),
        ([BrokenProcessPool("All workers expired")], [], 1),
        ([ProcessExpired("killed"), BrokenProcessPool("All workers expired")], [], 1),
    ],
)
def test_a_broken_pool_is_no_verdict(monkeypatch, errors, sent, lost):
    """A worker killed while none works breaks Pebble's pool: 76 waiting cases of 80 were once called wrong."""
    ended, results = [], []
    monkeypatch.setattr(server_module, "_end_group", lambda: ended.append(True))
    server = server_module.Server(SimpleNamespace(send=results.append), workers=1, memory_mb=64)
    outcomes = [*errors, Grade(True, None, 0.1)]

    def schedule(function, args, timeout):
        future, outcome = Future(), outcomes.pop(0)
        future.set_exception(outcome) if isinstance(outcome, Exception) else future.set_result(outcome)
        return future

    monkeypatch.setattr(server.pool, "schedule", schedule)
    server.submit(0, Case("1", "1"), timeout=1.0)
    assert [grade.verdict for _, grade in results] == sent and len(ended) == lost


def test_threads_and_asyncio(pool):
    completions, golds = needs_algebra(8)

    async def grade_all():
        return await asyncio.gather(
            *(asyncio.to_thread(pool.grade, [one], [other]) for one, other in zip(completions, golds, strict=True))
        )

    assert all(grades[0].verdict for grades in asyncio.run(grade_all()))

    async def grade_inside():
        return pool.grade(completions, golds)

    assert all(grade.verdict for grade in asyncio.run(grade_inside()))


def test_a_forked_child_gets_workers_of_its_own(pool):
    completions, golds = needs_algebra(2)
    pool.grade(completions, golds)
    server, default = pool._server.pid, default_pool()
    child = os.fork()
    if child == 0:
        right = all(grade.verdict for grade in pool.grade(completions, golds))
        own = pool._server.pid != server and default_pool() is not default
        pool.close()
        os._exit(0 if right and own else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert all(grade.verdict for grade in pool.grade(completions, golds))
    assert pool._server.pid == server, "the parent's goes on"


@pytest.mark.parametrize("what", ["grade", "close"])
def test_a_child_that_was_forked_while_another_thread_graded_does_not_wait_for_it(what):
    completions, golds = needs_algebra(1)
    with GradingPool(workers=1) as pool, pool._lock, pool_module._default_lock:
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            default_pool()
            right = pool.grade(completions, golds)[0].verdict if what == "grade" else True
            pool.close()
            os._exit(0 if right else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_server_that_hangs_is_replaced_although_it_fetches_no_more_than_a_pipe_holds(monkeypatch):
    monkeypatch.setattr(pool_module, "_SILENCE_SECONDS", 1.0)
    with GradingPool(workers=2, timeout=1.0) as pool:
        pool.grade(*needs_algebra(1))
        os.kill(pool._server.pid, signal.SIGSTOP)
        cases = [Case("27", f"{number} + x" + " + 0" * 200) for number in range(400)]
        assert len(list(pool._run(cases))) == 400


@pytest.mark.parametrize(
    ("verdict", "others", "asked"),
    [(False, {}, 1), (None, {}, 2), (False, {"stopped": True}, 2), (False, {"error": "an error"}, 2)],
)
def test_a_gold_is_known_to_be_readable_from_verdicts_alone(monkeypatch, verdict, others, asked):
    """No box is wrong if the gold can be read, which takes computer algebra, and unscorable otherwise."""
    cases = []

    def grade(sent, timeout):
        cases.extend(sent)
        return [(number, Grade(verdict, None, 0.1, **others)) for number, _ in sent]

    monkeypatch.setattr(pool_module, "_Server", Mock(return_value=SimpleNamespace(grade=grade)))
    pool = GradingPool()
    for completion in (r"\boxed{x}", "no box"):
        pool.grade([completion], [r"x^2 + \sin x"])
    assert len(cases) == asked and pool_module._Server.call_count == 1


@pytest.mark.parametrize(
    ("fault", "expected", "message", "tries"),
    [
        (EOFError, RuntimeError, "was lost 3 times with 2 of 2 cases left.*fewer `workers` or less", 3),
        (BrokenPipeError, RuntimeError, "was lost 3 times", 3),
        (KeyboardInterrupt, KeyboardInterrupt, None, 1),
    ],
)
def test_a_lost_server_is_replaced_twice_but_not_for_a_caller_who_stops(monkeypatch, fault, expected, message, tries):
    made = []

    def start(*_):
        made.append(Mock(grade=Mock(side_effect=fault)))
        return made[-1]

    monkeypatch.setattr(pool_module, "_Server", start)
    with pytest.raises(expected, match=message):
        GradingPool().grade(*needs_algebra(2))
    assert [server.end.call_count for server in made] == [1] * tries


@pytest.mark.parametrize("then", ["", "; import os, sys, time; os.close(int(sys.argv[1])); time.sleep(600)"])
def test_a_server_that_does_not_start_says_what_it_needs_and_is_ended(monkeypatch, capfd, then):
    monkeypatch.setattr(pool_module, "_START", "print('no math-verify', flush=True)" + then)
    before = psutil.Process().children()
    with pytest.raises(RuntimeError, match="did not start; its own error is above. `import .*, pebble` must work"):
        GradingPool(workers=1).grade(*needs_algebra(1))
    assert psutil.Process().children() == before
    assert capfd.readouterr() == ("", "no math-verify\n")


def test_close_leaves_nothing_and_the_pool_starts_again():
    completions, golds = needs_algebra(1)
    pool = GradingPool(workers=1)
    assert pool.grade(completions, golds)[0].verdict
    group = pool._server.pid
    pool.close()
    assert wait_until(lambda: not alive(group))
    assert pool.grade(completions, golds)[0].verdict
    pool.close()


SCRIPT = r"""
import os, sys, threading
from coda_trl.grading import default_pool
from coda_trl.rewards import accuracy_reward

print("top level", flush=True)
assert accuracy_reward([r"\boxed{\frac{2\sqrt{3}}{3}}"], [r"\frac{2}{\sqrt{3}}"]) == [1.0]
print("group", default_pool()._server.pid, flush=True)
if sys.argv[1:] == ["raise"]:
    raise RuntimeError("the user's own error")
if sys.argv[1:] == ["hang"]:
    default_pool().timeout = 60
    accuracy_reward([r"\boxed{\int \frac{\sin(2x)\log(x)}{1+x^7} dx}"], [r"\int \frac{\cos(x)\log(x)}{1+x^7} dx"])
"""


def run_script(*arguments: str, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


@pytest.mark.parametrize("how", ["file", "stdin", "raise"])
def test_scripts_without_main_guard(tmp_path, how):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    if how == "stdin":
        process = run_script("-", stdin=script.open())
    else:
        process = run_script(str(script), *(["raise"] if how == "raise" else []))
    out, errors = process.communicate(timeout=60)
    lines = out.split("\n")
    assert lines[0] == "top level" and out.count("top level") == 1  # the script ran once, not once a worker
    assert process.returncode == (1 if how == "raise" else 0), errors
    assert wait_until(lambda: not alive(int(lines[1].split()[1])))


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_survives_a_signal(tmp_path, signal_number):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    process = run_script(
        str(script), "hang", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    )
    process.stdout.readline()
    group = int(process.stdout.readline().split()[1])
    time.sleep(0.5)
    assert alive(group)
    process.send_signal(signal_number)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert wait_until(lambda: not alive(group))


def test_workers_are_shared_between_the_ranks_of_a_machine(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    cores = default_workers()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(2 * cores))
    assert default_workers() == 1
    assert GradingPool(workers=3).workers == 3
    assert default_pool() is default_pool()


@pytest.mark.parametrize(("quota", "workers"), [("max 100000", 16), ("450000 100000", 4), ("50000 100000", 1)])
def test_workers_keep_to_the_quota_of_a_container(monkeypatch, tmp_path, quota, workers):
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr(pool_module, "_CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(16))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert default_workers() == workers


def test_wrong_arguments_say_what_to_change():
    with pytest.raises(ValueError, match="`workers` is 0"):
        GradingPool(workers=0)
    with pytest.raises(ValueError, match="`timeout` is 0"):
        GradingPool(timeout=0)
    with pytest.raises(ValueError, match="2 completions but 1 golds"):
        GradingPool().grade(["a", "b"], ["c"])


def test_command_line(tmp_path, capsys):
    cases = [
        {"id": "a", "completion": r"\boxed{\frac{2\sqrt{3}}{3}}", "gold": r"\frac{2}{\sqrt{3}}"},
        {"id": "b", "completion": r"\boxed{1}", "gold": "2"},
        {"id": 3, "completion": "\ud800", "gold": None},
        {"id": "d", "completion": HANGS[0], "gold": HANG_GOLD},
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)) + "\n\n")
    out = tmp_path / "verdicts.jsonl"
    assert main([str(tmp_path / "cases.jsonl"), "--out", str(out), "--jobs", "1", "--timeout", "1"]) == 0
    verdicts = [json.loads(line) for line in out.read_text().splitlines()]
    assert [verdict["id"] for verdict in verdicts] == ["a", "b", 3, "d"]
    assert [verdict["verdict"] for verdict in verdicts] == [True, False, None, False]
    assert all(set(verdict) == {"id", "verdict", "seconds"} and verdict["seconds"] >= 0 for verdict in verdicts)
    assert "4 cases: 1 right, 1 wrong, 1 unscorable, 1 timed out" in capsys.readouterr().out


def test_command_line_grades_samples_again_and_prints_what_differs(tmp_path, capsys):
    sample = {"benchmark": "b", "problem_id": "p", "completion": r"\boxed{B}", "solution": "B", "correct": True}
    samples = [
        sample | {"sample": 0},
        sample | {"sample": 1, "correct": False},
        sample | {"sample": 2, "opens_thinking": True, "correct": False},  # thought, not answered
        sample | {"sample": 3, "completion": r"\boxed{two}", "options": ["one", "two"]},
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)))
    assert main([str(tmp_path / "samples.jsonl"), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "b, problem p, sample 1: wrong, now right: 'B' for 'B'" in out
    assert "4 cases: 3 right, 1 wrong, 0 unscorable, 0 timed out (counted as wrong), 1 other than before" in out


def test_a_case_that_was_stopped_may_be_tried_again_alone(monkeypatch):
    """The first try may meet a busy machine."""
    asked, answers = (
        [],
        iter([[Grade(False, None, 2.0, stopped=True), Grade(True, None, 0.1)], [Grade(True, None, 1.0)]]),
    )

    def grades(self, cases):
        asked.append(len(list(cases)))
        return zip(cases, next(answers), strict=True)

    monkeypatch.setattr(GradingPool, "_grades", grades)
    found = GradingPool().grade([r"\boxed{x}", r"\boxed{2}"], ["y", "2"], again=True)
    assert [grade.verdict for grade in found] == [True, True] and asked == [2, 1]


@pytest.mark.parametrize(
    "line",
    ["{", '{"id": 1, "gold": "2"}', '{"id": 1, "completion": "", "gold": 2}', '{"completion": "", "gold": "2"}', "[]"],
)
def test_command_line_names_bad_lines_and_missing_files(tmp_path, capsys, line):
    path, out = tmp_path / "cases.jsonl", tmp_path / "out.jsonl"
    assert main([str(path), "--out", str(out)]) == 2
    assert "No such file or directory" in capsys.readouterr().err
    path.write_text('{"id": 0, "completion": "", "gold": "1"}\n' + line + "\n")
    assert main([str(path), "--out", str(out)]) == 2
    assert f"cases.jsonl, line 2: {line!r} is no case" in capsys.readouterr().err
    assert not out.exists()


def test_command_line_neither_overwrites_its_cases_nor_grades_what_it_cannot_write(tmp_path, capsys):
    path = tmp_path / "cases.jsonl"
    path.write_text(case := '{"id": 0, "completion": "", "gold": "1"}\n')
    assert main([str(path), "--out", str(path)]) == 2
    assert "would overwrite the cases: name another file" in capsys.readouterr().err and path.read_text() == case
    assert main([str(path), "--out", str(tmp_path / "gone" / "out.jsonl")]) == 2
    assert "No such file or directory" in capsys.readouterr().err
