"""The sample file: what is accepted, what a killed writer leaves behind, and what is refused."""

import json

import pytest
from made_samples import sample as made_sample
from made_samples import write_lines

from coda_trl.evaluation import SampleWriter, read_samples
from coda_trl.evaluation.samples import question_of


def sample(number=0, **changes):
    return made_sample(sample=number, **changes)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "a" / "new" / "samples.jsonl"
    samples = [sample(0, rung=3), sample(1, correct=None, completion="a\nb \u2028 \ud800")]
    with SampleWriter(path) as writer:
        writer.write(samples)
    assert list(read_samples(path)) == samples
    assert path.read_bytes().count(b"\n") == 2  # neither line breaks nor lone surrogates break a line


def test_samples_of_other_tools_may_have_numbers_as_ids_no_token_and_blank_lines_between(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text(
        json.dumps(sample(problem_id=7, tokens=0)) + "\n \n" + json.dumps(sample(1, problem_id=7)) + "\n\n"
    )
    assert [(entry["problem_id"], entry["tokens"]) for entry in read_samples(path)] == [("7", 0), ("7", 10)]


def test_a_question_is_its_prompt_and_its_solution_whatever_the_order_of_their_fields():
    questions = [{"prompt": [{"a": 1, "b": 2}], "solution": "3"}, {"prompt": [{"a": 1, "b": 2}], "solution": "4"}]
    questions.append({"prompt": [{"a": 2, "b": 2}], "solution": "3"})
    assert len(set(map(question_of, questions))) == 3
    assert question_of(questions[0]) == question_of({"prompt": [{"b": 2, "a": 1}], "solution": "3"})


@pytest.mark.parametrize("cut", [1, 2, 100, 69_000])
def test_an_incomplete_last_line_is_dropped_and_the_rest_kept(tmp_path, cut):
    path = tmp_path / "samples.jsonl"
    write_lines(path, [sample(i, completion="x" * 70_000) for i in range(3)])
    path.write_text(path.read_text()[:-cut])
    assert len(list(read_samples(path))) == (3 if cut == 1 else 2)  # without a line break alone, it can be read
    with SampleWriter(path) as writer:
        assert writer.done == {("b", "p"): {0, 1}}
        writer.write([sample(2)])
    assert [entry["sample"] for entry in read_samples(path)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps(sample(1, correct=1)), "line 2: field `correct` must be bool or null, got 1"),
        (json.dumps(sample(1, tokens=True)), "`tokens` must be int, got True"),
        (json.dumps(sample(1, tokens=2.5)), "`tokens` must be int"),
        (json.dumps(sample(1, tokens=-1)), "`tokens` must be at least 0, got -1"),
        (json.dumps(sample(1, finish_reason=0)), "`finish_reason` must be str or null"),
        ("{broken", "line 2: not a JSON object"),
        ("[1]", "expected a JSON object, got list"),
    ],
)
def test_a_line_that_is_no_sample_is_named(tmp_path, line, message):
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(sample()) + "\n" + line + "\n")
    errors = []  # a notebook keeps them, but they do not keep the lock
    for read in (lambda path: list(read_samples(path)), SampleWriter, SampleWriter):
        with pytest.raises(ValueError, match=message) as error:
            read(path)
        errors.append(error)


@pytest.mark.parametrize("field", sample())
def test_a_field_that_is_missing_is_named(tmp_path, field):
    rest = {name: value for name, value in sample().items() if name != field}
    path = write_lines(tmp_path / "samples.jsonl", [sample(), rest])
    with pytest.raises(ValueError, match=f"line 2: field `{field}` is missing; every sample needs benchmark"):
        list(read_samples(path))


def test_a_sample_is_never_written_twice(tmp_path):
    path = tmp_path / "samples.jsonl"
    with SampleWriter(path) as writer:
        writer.write([sample()])
        with pytest.raises(ValueError, match="sample 0 of problem 'p' in benchmark 'b' is there twice"):
            writer.write([sample()])
    assert len(list(read_samples(path))) == 1


def test_two_writers_cannot_share_a_file(tmp_path):
    path = tmp_path / "samples.jsonl"
    with SampleWriter(path), pytest.raises(BlockingIOError, match="another process is writing"):
        SampleWriter(path)
    with SampleWriter(str(path)):  # the lock goes with the writer
        pass
