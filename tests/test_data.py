"""Data sets: every source in the forms it comes in, and what damaged, renamed or misread copies are met with."""

import gzip
import json
import logging
import math
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from datasets import Dataset
from made_samples import read_lines, write_lines

from coda_trl.data import (
    BENCHMARKS,
    SOURCES,
    TRAINING_SETS,
    DataArguments,
    DataError,
    DatasetUnavailableError,
    load_evaluation_set,
    load_source,
    load_training_set,
)
from coda_trl.data.answers import gsm8k_answer, last_boxed
from coda_trl.data.loading import published_rows
from coda_trl.data.math_levels import MATH500_LEVEL1, is_level1
from coda_trl.data.reading import is_local, read_rows
from coda_trl.data.solved_percentage import check_solved_percentage
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.loading import load_evaluation_prompts, load_prompts

DATA = Path(__file__).parent / "fixtures" / "data"
QUESTION = {"role": "user", "content": "What is 1 + 1?"}


def rows_of(name: str) -> list[dict]:
    return read_lines(DATA / f"{name}.jsonl")


# Sources


# Of the rows in fixtures/data/NAME.jsonl.
GOLDS = {
    "svamp": ["27", "4", "16"],
    "gsm8k": ["18", "3", "70000"],
    "math500": [r"\left( 3, \frac{\pi}{2} \right)", "p - q", r"\frac{14}{3}"],
    "amc23": ["27", "36", "45"],
    "aime24": ["33", "23", "116"],
    "aime25": ["70", "588", "16"],
    "commonsenseqa": ["A", "A", "B"],
    "gpqa": ["B", "C", "A"],
}


@pytest.mark.parametrize(("name", "golds"), GOLDS.items())
def test_benchmarks_give_prompt_gold_and_source(name, golds):
    dataset = load_evaluation_set(f"{name}={DATA / name}.jsonl")
    assert dataset.column_names[:3] == ["prompt", "solution", "source"]
    assert set(dataset["source"]) == {name}
    assert dataset["solution"] == golds
    for prompt in dataset["prompt"]:
        (turn,) = prompt
        assert turn["role"] == "user"
        assert r"output the final answer within \boxed{}." in turn["content"]


def test_every_benchmark_has_a_place_on_the_hub_and_is_in_the_test_above():
    assert {*BENCHMARKS} - GOLDS.keys() == set(), "add its golds to GOLDS, its rows to fixtures/data"
    assert all(SOURCES[name].hub for name in BENCHMARKS)


def test_original_columns_pass_through_and_own_names_are_kept_apart():
    dataset = load_source(f"deepscaler={DATA}/deepscaler.jsonl")
    original = rows_of("deepscaler")
    assert dataset["difficulty"] == [row["difficulty"] for row in original]
    assert dataset["solution"] == [row["answer"] for row in original]
    assert dataset["original_solution"] == [row["solution"] for row in original]


def test_gold_of_the_gated_gpqa_copy_follows_its_shuffled_options(tmp_path):
    rows = [
        {"Question": f"Question {i}?", "Correct Answer": "right"}
        | {f"Incorrect Answer {k}": f"wrong {k}" for k in (1, 2, 3)}
        for i in range(12)
    ]
    dataset = load_source(f"gpqa={write_lines(tmp_path / 'gpqa.jsonl', rows)}")
    for row in dataset:
        assert f"\n{row['solution']}. right\n" in row["prompt"][0]["content"]
    assert len(set(dataset["solution"])) > 1, "the options were not shuffled"
    alone = load_source(f"gpqa={write_lines(tmp_path / 'one.jsonl', rows[7:8])}")
    assert alone[0]["prompt"] == dataset[7]["prompt"], "the order of options depends on the other rows"


@pytest.mark.parametrize(("copy", "kept"), [("math_difficulty", 3), ("math_level", 3), ("math_hub", 3)])
def test_level_1_is_found_in_every_copy_of_math_and_math500_left_out(copy, kept, caplog):
    with caplog.at_level(logging.INFO, logger="coda_trl.data"):
        dataset = load_source(f"math_level1={DATA / copy}.jsonl")
    assert len(dataset) == kept
    assert all(dataset["solution"])
    left_out = 2 if copy == "math_level" else 0
    assert f"{left_out} of them left out because they are in MATH500" in caplog.text


def test_a_file_without_a_problem_of_level_1_is_an_error(tmp_path):
    rows = [row | {"level": "Level 5"} for row in rows_of("math_hub")]
    with pytest.raises(DataError, match="No row of 'math_level1' .* is left after selection"):
        load_source(f"math_level1={write_lines(tmp_path / 'math.jsonl', rows)}")


def test_math500_has_43_level_1_problems_and_level_question_mark_is_not_one():
    assert len(MATH500_LEVEL1) == 43
    assert [is_level1(level) for level in ("Level 1", 1, 1.0, "Level ?", "Level 5", 10, 0.0)] == [True] * 3 + [
        False
    ] * 4


def test_paper_sets():
    assert TRAINING_SETS["mixed"] == ("deepscaler",)
    # 7,473 and 958: the paper's 8.4K. DeepScaleR: the paper's 314 steps of 128 prompts.
    assert published_rows(["easy"]) == 8_431
    assert published_rows(["mixed"]) // 128 == 314
    assert published_rows(["hard"]) is None


def test_sources_join_into_one_set(caplog):
    dataset = load_training_set([f"gsm8k_train={DATA}/gsm8k_train.jsonl", f"math_level1={DATA}/math_hub.jsonl"])
    assert dataset["source"] == ["gsm8k_train"] * 5 + ["math_level1"] * 3
    assert None not in dataset["solution"]
    assert dataset[0]["level"] is None and dataset[5]["level"] == "Level 1"
    assert "left out because their types" not in caplog.text


def test_a_column_of_another_type_in_another_set_is_left_out_by_name(tmp_path, caplog):
    rows = [{"problem": "What is 1 + 1?", "answer": "2", "level": 1, "subject": "sums"}]
    other = write_lines(tmp_path / "deepscaler.jsonl", rows)
    dataset = load_training_set([f"deepscaler={other}", f"math_level1={DATA}/math_hub.jsonl"])
    assert "level" not in dataset.column_names and dataset[0]["subject"] == "sums"
    assert "Columns left out because their types differ between data sets: level." in caplog.text
    turned = [{"prompt": [dict(reversed(QUESTION.items()))], "solution": "2"}]
    spec = f"custom={write_lines(tmp_path / 'turned.jsonl', turned)}"
    assert load_training_set([spec, f"deepscaler={other}"])[0]["prompt"] == [QUESTION]
    rows[0]["level"] = None  # of no type
    joined = load_training_set([f"deepscaler={write_lines(other, rows)}", f"math_level1={DATA}/math_hub.jsonl"])
    assert joined["level"][:2] == [None, "Level 1"]


@pytest.fixture
def hub(monkeypatch):
    """What was asked of the hub: id, configuration and split."""
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        return [{"prompt": "What is 1 + 1?", "solution": "2"}]

    monkeypatch.setattr("coda_trl.data.reading.load_dataset", load_dataset)
    return asked


@pytest.mark.parametrize(
    ("location", "config", "split"),
    [("me/sums", None, None), ("me/sums:main", "main", None), ("me/sums:main:dev", "main", "dev"),
     ("me/sums::dev", None, "dev")],
)  # fmt: skip
def test_a_hub_id_may_name_configuration_and_split_and_evaluation_reads_the_test_split(hub, location, config, split):
    spec = f"custom={location}"
    load_training_set(spec)
    assert load_benchmark(spec).name == "sums"
    load_evaluation_prompts(DataArguments(eval_dataset=[spec]), seed=0)
    assert hub == [("me/sums", config, split or default) for default in ("train", "test", "test")]


def test_too_many_colons_in_a_hub_id_are_an_error(hub):
    with pytest.raises(DataError, match="write `ID:CONFIG:SPLIT`"):
        load_source("custom=me/sums:main:dev:more")


def test_two_evaluation_sets_of_one_name_are_an_error():
    with pytest.raises(ValueError, match="two sets of one name: ladder, ladder"):
        load_evaluation_prompts(DataArguments(eval_dataset=["ladder=2", "ladder=3"]), seed=0)


def test_ladder_is_generated_to_size():
    assert len(load_training_set("ladder=7")) == 7
    assert set(load_training_set("ladder_easy=60")["rung"]) == {1, 2, 3}
    assert set(load_training_set("ladder_hard=20")["rung"]) == {6}
    for number in ("many", "0"):
        with pytest.raises(DataError, match="write a number of rows"):
            load_source(f"ladder={number}")
    budgets = [
        load_prompts(["ladder=20"], DataArguments(length_budget=[1, 999]), seed)["n_gold"][:] for seed in (1, 42)
    ]
    assert budgets[0] != budgets[1] == load_training_set("ladder=20", length_budget=[1, 999])["n_gold"][:]


@pytest.mark.parametrize(
    "prompt", ["What is 1 + 1?", [QUESTION], [{"role": "system", "content": "Be brief."}, QUESTION]]
)
def test_custom_takes_strings_and_messages(tmp_path, prompt):
    path = write_lines(tmp_path / "mine.jsonl", [{"prompt": prompt, "solution": "2"}])
    assert load_source(f"custom={path}")[0]["prompt"] == ([QUESTION] if isinstance(prompt, str) else prompt)


@pytest.mark.parametrize(
    "column, value", [*(("solution", gold) for gold in (True, [1], math.nan, {"a": 1})), ("prompt", [])]
)
def test_custom_takes_no_other_golds_and_no_prompt_without_messages(tmp_path, column, value):
    path = write_lines(tmp_path / "mine.jsonl", [{"prompt": "What is 1 + 1?", "solution": "2", column: value}])
    with pytest.raises(DataError, match="row 1: the (gold|prompt) is .*, but must be text or "):
        load_source(f"custom={path}")


@pytest.mark.parametrize("form", ["jsonl.gz", "parquet", "json", "csv"])
def test_every_file_form_gives_the_same_rows(form, tmp_path):
    rows = rows_of("amc23")
    path = tmp_path / f"amc23.{form}"
    if form == "jsonl.gz":
        path.write_bytes(gzip.compress((DATA / "amc23.jsonl").read_bytes()))
    elif form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form == "json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        Dataset.from_list(rows).to_csv(path)
    expected = load_source(f"amc23={DATA}/amc23.jsonl")
    found = load_source(f"amc23={path}")
    assert found["prompt"] == expected["prompt"] and found["solution"] == expected["solution"]


# Damaged copies


def test_renamed_column_is_named_with_those_found(tmp_path):
    rows = [{"problem": row["question"], "answer": row["answer"]} for row in rows_of("gsm8k_train")]
    path = write_lines(tmp_path / "renamed.jsonl", rows)
    with pytest.raises(DataError, match=r"Missing: question\. .*Found: problem, answer\."):
        load_source(f"gsm8k_train={path}")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("gsm8k", {"answer": "She makes 18."}, "row 2: no answer after '####'"),
        ("gsm8k", {"answer": None}, "row 2: column 'answer' is empty"),
        ("gsm8k", {"answer": 18}, "row 2: "),
        ("amc23", {"answer": float("nan")}, "row 2: the gold is nan"),
        ("amc23", {"answer": ["36"]}, "row 2: the gold is .'36'., but must be text or a number"),
        ("amc23", {"question": 36}, "row 2: the question is 36, but must be text"),
        ("svamp", {"question_concat": ""}, "row 2: column 'question_concat' is empty"),
        ("commonsenseqa", {"answerKey": "F"}, "row 2: the answer 'F' is not among the options A, B, C, D, E"),
        ("gpqa", {"answer": 4}, "row 2: the answer 4 is not an index into 4 options"),
        ("gpqa", {"answer": "B"}, "row 2: "),
    ],
)
def test_a_benchmark_row_without_a_usable_gold_is_an_error(name, damage, message, tmp_path):
    rows = rows_of(name)
    rows[1] |= damage
    with pytest.raises(DataError, match=message):
        load_evaluation_set(f"{name}={write_lines(tmp_path / 'damaged.jsonl', rows)}")


def test_a_few_empty_golds_in_training_are_left_out_with_a_count_and_many_are_an_error(tmp_path, caplog):
    # Seen in MATH: two level-5 solutions end in an empty box.
    good = {"problem": "What is 1 + 1?", "answer": "2"}
    path = write_lines(tmp_path / "train.jsonl", [good] * 200 + [{**good, "answer": ""}])
    assert len(load_source(f"deepscaler={path}")) == 200
    assert "1 of 201 rows of 'deepscaler'" in caplog.text
    path = write_lines(tmp_path / "damaged.jsonl", [good] * 10 + [{**good, "answer": ""}])
    with pytest.raises(DataError, match=r"1 of 11 rows of 'deepscaler'.*row 11: column 'answer' is empty"):
        load_source(f"deepscaler={path}")
    good = {"question": "What is 1 + 1?", "answer": "2"}
    path = write_lines(tmp_path / "benchmark.jsonl", [good] * 200 + [{**good, "answer": ""}])
    with pytest.raises(DataError, match="1 of 201 rows of 'amc23'"):
        load_source(f"amc23={path}")


AMC23 = (DATA / "amc23.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("broken.jsonl", AMC23 + AMC23[: len(AMC23) // 2], r"broken\.jsonl, line \d+, is not JSON"),
        ("cut.jsonl.gz", gzip.compress(AMC23, mtime=0)[:-30], r"cut\.jsonl\.gz is damaged"),
        ("plain.jsonl.gz", AMC23, r"plain\.jsonl\.gz is damaged"),
        ("text.parquet", AMC23, "not a readable parquet file"),
        ("latin.jsonl", AMC23 + "é".encode("latin-1"), r"latin\.jsonl is damaged: 'utf-8' codec"),
        ("empty.jsonl", b"", "holds no rows"),
        ("list.jsonl", b"[1, 2]", "line 1, is 1, but must be an object"),
        ("comma.csv", b"question,answer\nWhat is 1, 2 or 3,4\n", "line 2, has more values .*: put quotes"),
    ],
)
def test_damaged_files_are_named_with_the_place(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_source(f"amc23={tmp_path / name}")


def test_a_file_in_the_home_folder_may_have_blank_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n \n')
    assert read_rows("~/own.jsonl") == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("name", ["amc23.jsonl", "amc23.csv"])
def test_a_byte_order_mark_is_skipped(tmp_path, name):
    content = "question,answer\r\n1 + 1,2\r\n" if name.endswith("csv") else '{"question": "1 + 1", "answer": 2}'
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert load_source(f"amc23={tmp_path / name}")["solution"] == ["2"]


@pytest.mark.parametrize("prompt", [[], 3, ["1 + 1"], [{"role": "user"}], {"role": "user", "content": "1 + 1"}])
def test_a_prompt_that_is_neither_text_nor_messages_is_named(tmp_path, prompt):
    path = write_lines(tmp_path / "mine.jsonl", [{"prompt": prompt, "solution": "2"}])
    with pytest.raises(DataError, match="row 1: the prompt is .*, but must be text or messages with `role` and"):
        load_source(f"custom={path}")


def test_rows_that_cannot_be_selected_from_are_an_error(tmp_path):
    rows = rows_of("math_hub")
    del rows[1]["level"]
    with pytest.raises(DataError, match="a row that lacks a column .*KeyError.'level'.*Found: problem, level, "):
        load_source(f"math_level1={write_lines(tmp_path / 'math.jsonl', rows)}")
    rows = [{"problem": "1 + 1", "ground_truth": "2", "solved_percentage": "n/a"}]
    with pytest.raises(DataError, match="'deepscaler_hard' .*a value of another kind: .*'n/a'"):
        load_source(f"deepscaler_hard={write_lines(tmp_path / 'hard.jsonl', rows)}")


def test_a_column_of_mixed_types_is_an_error(tmp_path):
    rows = rows_of("amc23")
    rows[2]["id"] = "two"
    with pytest.raises(DataError, match="Column 'id' of 'amc23' .* is not of one type: .*'two'"):
        load_source(f"amc23={write_lines(tmp_path / 'mixed.jsonl', rows)}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mathlevel1", "did you mean 'math_level1'.*Known: mixed, easy, hard"),
        ("easy=somewhere", "Give each its place: `gsm8k_train=... math_level1=...`"),
        ("custom", "is not on the hub. Give a file: `custom=PATH`"),
        (f"amc23={DATA}/nothing.jsonl", "There is no file .*Files in .*amc23.jsonl"),
        (f"amc23={DATA.parent}/../conftest.py", "of no known kind"),
    ],
)
def test_what_cannot_be_found_says_what_there_is(spec, message):
    with pytest.raises(DataError, match=message):
        load_training_set(spec)


def test_what_is_written_like_a_file_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("here").touch()
    assert all(map(is_local, ("gone.jsonl", "gone.csv", "/gone", "./gone", "../gone", "~/gone", "here")))
    assert not is_local("openai/gsm8k") and not is_local("gone")


def test_a_missing_file_names_the_files_beside_it_but_no_folders(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "here.jsonl").touch()
    with pytest.raises(DataError, match=r"Files in .*: here\.jsonl\.$"):
        load_source(f"amc23={tmp_path / 'gone.jsonl'}")


def test_an_unreachable_hub_is_told_apart_and_names_the_way_out():
    with pytest.raises(DatasetUnavailableError, match=r"agentica-org/DeepScaleR-Preview-Dataset.*NAME=PATH"):
        load_training_set("mixed")


def test_a_training_set_is_no_benchmark():
    with pytest.raises(
        DataError, match="'deepscaler' is not an evaluation set. They are: svamp.*Yours is `load_source"
    ):
        load_evaluation_set("deepscaler")


# The hard set


def annotated(tmp_path, hard: float, plain: float) -> Path:
    rows = [
        {
            "problem": row["problem"],
            "ground_truth": "1",
            "solved_percentage": hard if row["level"] == "AIME" else plain,
        }
        for row in rows_of("problems_by_difficulty")
    ]
    return write_lines(tmp_path / "difficulty.jsonl", rows)


def test_hard_set_is_below_ten_percent_solved(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="coda_trl.data"):
        dataset = load_training_set(f"hard={annotated(tmp_path, hard=9.375, plain=90.0)}")
    assert set(dataset["solved_percentage"]) == {9.375}
    assert set(dataset["source"]) == {"deepscaler_hard"}
    assert "Hard problems: 12 of 24" in caplog.text


def test_solved_percentage_the_wrong_way_round_is_refused(tmp_path):
    with pytest.raises(
        DataError,
        match="^`solved_percentage` runs the wrong way: 7 of 24 .* 11 like plain .* on average it is 78.1 .* 18.9",
    ):
        load_training_set(f"hard={annotated(tmp_path, hard=90.625, plain=3.0)}")


@pytest.mark.parametrize(
    ("solved", "message"),
    [
        ([0.05] * 12 + [0.9] * 12, "spans 0.05 to 0.9, but must be percentages in 0..100"),
        ([5.0] * 12 + [101.0] * 12, "must be percentages in 0..100"),
        ([-1.0] * 12 + [90.0] * 12, "must be percentages in 0..100"),
        ([float("nan")] * 24, "must be percentages in 0..100"),
        ([0.0] * 24, "no difference beyond chance"),
        ([100.0] * 24, "no difference beyond chance"),
    ],
)
def test_solved_percentage_in_another_unit_or_without_a_signal_is_refused(solved, message):
    problems = [row["problem"] for row in rows_of("problems_by_difficulty")]
    with pytest.raises(DataError, match=message):
        check_solved_percentage(problems, solved)


@pytest.mark.parametrize("problem", ["What is 1 + 1?", "Find all positive integers."])
def test_problems_of_one_kind_do_not_show_which_way_solved_percentage_runs(problem):
    with pytest.raises(DataError, match="Cannot tell which way .*of 2 problems"):
        check_solved_percentage([problem] * 2, [90.0, 5.0])


# Golds


def test_golds_of_worked_solutions():
    assert last_boxed(r"first $\boxed{1}$, then $\boxed{ \frac{1}{2} }$.") == r"\frac{1}{2}"
    assert gsm8k_answer("a #### b #### 1,234,567") == "1234567"
    for text in ("the answer is 7", r"\boxed{7"):
        with pytest.raises(ValueError, match=r"no .boxed\{\} that closes"):
            last_boxed(text)
    with pytest.raises(ValueError, match="####"):
        gsm8k_answer("#### ")
