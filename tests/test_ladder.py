"""The ladder: problems, demonstrations, tokenizer, shipped checkpoint, and what makes its rungs easy or hard."""

import random
import sys
from pathlib import Path

import pytest
import torch
from made_samples import sample
from transformers import AutoModelForCausalLM, AutoTokenizer

from coda_trl.data import add_length_budget
from coda_trl.evaluation.ladder import MAX_COMPLETION_LENGTH, evaluate_ladder, main, style_of, summarize_rungs
from coda_trl.ladder import CHECKPOINT, RUNGS, TRAINING_SHARES, ends_in_sum, make_dataset, sample_problem
from coda_trl.ladder.arithmetic import BUGS, FIRST_BUG, MAX_TOTAL, believed_sum, believed_totals
from coda_trl.ladder.pretrain import MAX_LENGTH, pretrain
from coda_trl.ladder.problems import LARGEST_NUMBER
from coda_trl.ladder.styles import BUDGET_WORDS, STYLE_SHARES, demonstrate
from coda_trl.ladder.tokenizer import build_tokenizer
from coda_trl.rewards import ladder_reward


def demonstrations(rung: int, style: str, count: int = 300):
    rng = random.Random(f"test-{rung}")
    for problem in (sample_problem(rung, rng) for _ in range(count)):
        yield problem, demonstrate(problem, style)


def accuracy(rung: int, style: str) -> float:
    rows = list(demonstrations(rung, style))
    return sum(ends_in_sum(" ".join(words), problem.answer) for problem, words in rows) / len(rows)


@pytest.mark.parametrize("completion", ["ans 15 15", "15", "ans", "", "ans 15 so", "answer 15", "ans 15."])
def test_only_a_final_answer_of_the_right_form_counts(completion):
    assert ends_in_sum("7 14 15 ans 15", "15") and not ends_in_sum(completion, "15")


def test_reward_takes_text_and_messages():
    message = [{"role": "assistant", "content": "7 14 15 ans 15"}]
    assert ladder_reward([message, "ans 15", "ans 16"], ["15"] * 3) == [1.0, 1.0, 0.0]


def test_data_depend_on_the_seed_alone_and_hold_every_rung_at_its_share():
    rows = make_dataset(2000, seed=1)
    assert rows[:5] == make_dataset(5, seed=1)[:5] != make_dataset(5, seed=2)[:5]
    for rung, share in TRAINING_SHARES.items():
        assert rows["rung"].count(rung) / len(rows) == pytest.approx(share, abs=0.03)
    assert sum(TRAINING_SHARES.values()) == pytest.approx(1)


def test_bugs_are_wrong_and_out_of_reach_of_the_lowest_rungs():
    for (total, addend), offset in BUGS.items():
        assert believed_sum(40 + total, addend) == 40 + total + addend + offset != 40 + total + addend
        assert believed_sum(20 + total, addend) == 20 + total + addend or 20 + total >= FIRST_BUG
    for rung in (1, 2, 3):
        assert (RUNGS[rung] - 1) * LARGEST_NUMBER < FIRST_BUG
        assert all(accuracy(rung, style) == 1 for style in STYLE_SHARES[rung])


def test_totals_stay_within_the_vocabulary():
    rng = random.Random(0)
    highest = max(max(believed_totals([rng.randint(6, 9) for _ in range(max(RUNGS.values()))])) for _ in range(3000))
    assert highest <= MAX_TOTAL


@pytest.mark.parametrize("rung", [4, 5, 6])
def test_a_second_count_pays_on_long_sums_and_restating_does_not(rung):
    assert accuracy(rung, "check") > accuracy(rung, "totals") + 0.05
    assert accuracy(rung, "verbose") == accuracy(rung, "totals")


@pytest.mark.parametrize("rung", RUNGS)
def test_demonstrations_fit_and_are_recognised(rung):
    tokenizer = build_tokenizer()
    for style in STYLE_SHARES[rung]:
        for problem, words in demonstrations(rung, style, 50):
            assert style_of(" ".join(words)) == style
            assert len(words) + 1 <= MAX_COMPLETION_LENGTH
            assert len(problem.question.split()) + len(BUDGET_WORDS) + 1 + len(words) + 1 <= MAX_LENGTH
            text = f"{problem.question} {' '.join(words)}"
            assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_the_model_can_read_the_sentence_that_asks_for_a_length():
    tokenizer = build_tokenizer()
    row = add_length_budget(make_dataset(1), 3, 48)[0]
    text = tokenizer.apply_chat_template(row["prompt"], tokenize=False).strip()
    assert text.endswith(f"= Think for {row['n_gold']} tokens.")
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_summary_of_hand_made_samples():
    samples = [
        sample(f"{rung}-{problem}", right, 3 + problem, benchmark="ladder", rung=rung, completion="ans 3")
        for rung in RUNGS
        for problem, right in ((0, True), (0, False), (1, False), (1, False))
    ]
    (row, *_) = summarize_rungs(samples)
    assert row == {
        "rung": 1,
        "samples": 4,
        "accuracy": 0.25,
        "tokens": 3.5,
        "hard_share": 0.5,
        "styles": {"direct": 1.0},
    }


@pytest.fixture(scope="module")
def greedy(tmp_path_factory) -> list[dict]:
    return evaluate_ladder(CHECKPOINT, str(tmp_path_factory.mktemp("ladder")), n=1, temperature=0)


def test_shipped_checkpoint_is_small_and_spans_easy_to_hard(greedy):
    """Hard for want of knowledge, not through noise: greedy decoding fails on the hardest rung as well."""
    size = sum(path.stat().st_size for path in Path(CHECKPOINT).iterdir())
    assert size < 5 * 2**20
    by_rung = [row["accuracy"] for row in greedy]
    assert min(by_rung[:3]) >= 0.98
    assert by_rung == sorted(by_rung, reverse=True)
    assert 0.1 <= by_rung[-1] <= 0.5
    assert greedy[-1]["hard_share"] > 0.4


def test_shipped_checkpoint_is_what_the_pretraining_makes():
    """Same architecture and tokenizer; `make checkpoint` makes the weights."""
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    assert tokenizer.get_vocab() == build_tokenizer().get_vocab()
    assert model.config.vocab_size == len(tokenizer) and model.config.eos_token_id == tokenizer.eos_token_id
    assert tokenizer.apply_chat_template(make_dataset(1)[0]["prompt"], tokenize=False).endswith("= ")


@pytest.mark.slow
def test_pretraining_makes_a_checkpoint(tmp_path):
    pretrain(str(tmp_path), steps=4, batch_size=16, demonstrations=64, learning_rate=1e-3, device="cpu")
    shipped = AutoModelForCausalLM.from_pretrained(CHECKPOINT)
    made = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert {name: weight.shape for name, weight in made.state_dict().items()} == {
        name: weight.shape for name, weight in shipped.state_dict().items()
    }


def test_an_evaluation_of_no_folder_asks_no_hub_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ladder", "runs/nothing"])
    with pytest.raises(SystemExit):
        main()
    assert "there is no model folder runs/nothing: check the path" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["ladder", "--output_dir", str(tmp_path / "file" / "out")])
    with pytest.raises(SystemExit):
        main()
    assert "Not a directory" in capsys.readouterr().err
