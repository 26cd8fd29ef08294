"""The benchmarks of a step, rehearsed on a CPU with a model of a few thousand parameters."""

import json
from pathlib import Path

import pytest
import trl.extras.profiling
from made_samples import write_lines


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """Runs a script of `benchmarks/` with arguments and returns what it wrote."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(trl.extras.profiling, "ProfilingContext", trl.extras.profiling.ProfilingContext)
    monkeypatch.chdir(tmp_path)

    def run(name: str, *arguments: str) -> dict:
        monkeypatch.setattr("sys.argv", [name, *arguments, "--rounds", "1", "--out", str(tmp_path)])
        __import__(name).main()
        (path,) = tmp_path.glob(f"{name}-*.json")
        return json.loads(path.read_text())

    return run


def test_a_step_of_a_model_learns_twice_from_one_rollout(benchmark, tiny_model, tmp_path):
    rows = [{"prompt": f"{number} + 3 =", "solution": str(number + 3)} for number in range(4)]
    data = tmp_path / "data.jsonl"
    write_lines(data, rows)
    arguments = ["--model", tiny_model, "--data", str(data), "--rollouts", "32", "--rows", "16", "--longest", "8"]
    written = benchmark("step", *arguments)
    trl_s, ours = sorted(written["steps"], key=lambda step: step["side"], reverse=True)
    assert (trl_s["side"], ours["side"]) == ("trl", "grouped")
    assert len(ours["lengths"]) == 32 and ours["lengths"] == trl_s["lengths"]
    rollout = next(row for row in written["rows"] if row["part"] == "rollout")
    assert rollout["grouped"] == rollout["trl"] == max(step["parts"]["rollout"] for step in (trl_s, ours)) > 0
    for step in (trl_s, ours):
        assert sum(step["parts"].values()) == pytest.approx(step["seconds"])
    # Nothing of a random model is right: all is left out on our side, and nothing on TRL's.
    assert (trl_s["skipped_token_ratio"], ours["skipped_token_ratio"]) == (None, 1)
    assert written["about"]["estimate"]["training_peak"] > 0


def test_steps_of_more_rollouts_keep_the_size_of_micro_batches(benchmark):
    options = ["--tiny", "--longest", "64", "--rollouts", "64", "--distributions", "lognormal", "--sides", "grouped"]
    (step,) = benchmark("microbatch", *options)["steps"]
    assert len(step["lengths"]) == 64 and step["micro_batch_rows"] == 4
    assert step["forward_passes"] <= 16


@pytest.mark.slow
@pytest.mark.usefixtures("benchmark")
def test_grading_speed_is_four_numbers_in_a_file(monkeypatch, tmp_path):
    grading, file = __import__("grading"), tmp_path / "speed.json"
    monkeypatch.setattr(grading, "PROMPTS", 1)
    monkeypatch.setattr(grading, "with_hang_makers", lambda completions, solutions: ([], []))
    monkeypatch.setattr("sys.argv", ["grading", "--json", str(file), "--out", str(tmp_path)])
    grading.main()
    speed = json.loads(file.read_text())
    assert speed["ratio"] == pytest.approx(speed["ours"] / speed["trl"]) and speed["agreement"] > 0.9


@pytest.mark.slow
@pytest.mark.usefixtures("benchmark")
def test_answers_that_math_verify_judges_otherwise_are_shown(monkeypatch, tmp_path, capsys):
    pairs = [
        (r"\boxed{2}", "2"),
        (r"\boxed{4a - m}", "4"),
        (r"\boxed{(1, 2)}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
    ]
    cases = [{"id": 0, "completion": completion, "gold": gold} for completion, gold in [*pairs, ("no box", "2")]]
    write_lines(tmp_path / "cases.jsonl", cases)
    monkeypatch.setattr("sys.argv", ["grading_agreement", str(tmp_path / "cases.jsonl")])
    main = __import__("grading_agreement").main
    main()
    first, second, *counts = capsys.readouterr().out.splitlines()
    assert first.startswith("1 x right for math-verify only") and second.startswith("1 x right for us only")
    assert counts == [
        "4 answers, 3 with a box",
        "both right 1, both wrong 0",
        "right for us only 1, for math-verify only 1",
    ]
    write_lines(tmp_path / "cases.jsonl", cases[-1:])
    with pytest.raises(SystemExit):
        main()
    assert "no answer has a box" in capsys.readouterr().err
