"""The sample file: what is accepted, what a killed writer leaves behind, and what is refused."""

import json

import pytest

from coda_trl.evaluation import SampleWriter, read_samples


def sample(number=0, **changes):
    return {
        "benchmark": "b",
        "problem_id": "p",
        "sample": number,
        "completion": "\\boxed{1}",
        "tokens": 3,
        "finish_reason": "stop",
        "correct": True,
    } | changes


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new" / "samples.jsonl"
    samples = [sample(0, rung=3), sample(1, correct=None, completion="a\nb \u2028 \ud800")]
    with SampleWriter(path) as writer:
        writer.write(samples)
    assert list(read_samples(path)) == samples
    assert path.read_bytes().count(b"\n") == 2  # neither line breaks nor lone surrogates break a line


def test_an_incomplete_last_line_is_dropped_and_the_rest_kept(tmp_path):
    path = tmp_path / "samples.jsonl"
    lines = [json.dumps(sample(i, completion="x" * 70_000)) + "\n" for i in range(3)]
    for cut in (2, 100, 69_000):  # less and more than the block that is searched for the last line break
        path.write_text("".join(lines)[:-cut])
        assert len(list(read_samples(path))) == 2
        with SampleWriter(path) as writer:
            assert writer.done == {("b", "p"): {0, 1}}
            writer.write([sample(2)])
        assert [entry["sample"] for entry in read_samples(path)] == [0, 1, 2]


def test_a_whole_last_line_without_its_line_break_is_kept(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(sample(0)) + "\n" + json.dumps(sample(1)))
    with SampleWriter(path) as writer:
        writer.write([sample(2)])
    assert [entry["sample"] for entry in read_samples(path)] == [0, 1, 2]


def test_a_file_that_is_one_incomplete_line_starts_afresh(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"benchmark": "b", "pro')
    with SampleWriter(path) as writer:
        assert writer.done == {}
    assert path.read_bytes() == b""


def test_other_peoples_files_may_number_problems_and_end_without_a_line_break(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(sample(problem_id=7)) + "\n\n" + json.dumps(sample(problem_id=8)))
    assert [entry["problem_id"] for entry in read_samples(path)] == ["7", "8"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"correct": 1}, "line 2: field `correct` must be bool or null, got 1"),
        ({"tokens": True}, "`tokens` must be int, got True"),
        ({"tokens": 2.5}, "`tokens` must be int"),
        ({"finish_reason": 0}, "`finish_reason` must be str or null"),
    ],
)
def test_wrong_types_are_named_with_their_line(tmp_path, changes, message):
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(sample()) + "\n" + json.dumps(sample(1, **changes)) + "\n")
    with pytest.raises(ValueError, match=message):
        list(read_samples(path))


def test_missing_fields_and_broken_lines_are_errors(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"benchmark": "b"}\n')
    with pytest.raises(ValueError, match="line 1: field `problem_id` is missing; every sample needs benchmark"):
        list(read_samples(path))
    path.write_text("{broken\n" + json.dumps(sample()) + "\n")
    with pytest.raises(ValueError, match="line 1: not a JSON object"):
        list(read_samples(path))
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="expected a JSON object, got list"):
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
    with SampleWriter(path):  # the lock goes with the writer
        pass
