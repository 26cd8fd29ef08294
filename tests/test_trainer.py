"""`CodaGRPOTrainer` on a model of a few thousand parameters: what it trains on, what it logs, what it refuses."""

import functools
from pathlib import Path

import pytest
import torch
from datasets import IterableDataset
from peft import LoraConfig, PeftModel, get_peft_model
from small_training import PROMPTS, brevity, logs, make, metrics, odd, right, table, train
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOTrainer

from coda_trl import shape_rewards
from coda_trl.shaping import METHODS


def changed(trainer, model: str, names: str = "") -> set[bool]:
    before = AutoModelForCausalLM.from_pretrained(model).state_dict()
    after = trainer.model.state_dict()
    return {not torch.equal(before[name], after[name]) for name in before if names in name}


# What it trains on


def test_shaping_alone_moves_the_parameters(tiny_model, tmp_path):
    # Every answer is right: plain GRPO has no signal at all, CODA prefers the short ones.
    assert changed(train(tiny_model, tmp_path, right), tiny_model) == {True}
    assert changed(train(tiny_model, tmp_path, right, length_shaping="none"), tiny_model) == {False}


@pytest.mark.parametrize("method", METHODS)
def test_completions_table_holds_what_shape_rewards_says(tiny_model, tmp_path, method):
    def mostly(completion_ids, **kwargs):
        return [float(ids[0] % 4 > 0) for ids in completion_ids]

    extra = {"length_shaping": method, "log_completions": True, "max_steps": 3, "asrr_window": 5, "alp_beta": 0.02}
    train(tiny_model, tmp_path, mostly, **extra)
    found = table(tmp_path)
    budgets = {row["prompt"]: row["n_gold"] for row in PROMPTS}
    lengths = torch.tensor(found["coda/length"].to_numpy())
    assert len(found) == 3 * 8 and 1 <= lengths.min() < lengths.max() == 12
    shaped = shape_rewards(
        torch.tensor(found["mostly"].to_numpy()),
        lengths,
        4,
        method,
        window=5,
        alp_beta=0.02,
        n_gold=torch.tensor([budgets[prompt] for prompt in found["prompt"]]),
    )
    close = {"rtol": 0, "atol": 1e-5, "check_dtype": False}
    assert shaped.delta.any() == (method != "none") == ("length_shaping" in found)
    if method != "none":
        torch.testing.assert_close(torch.tensor(found["length_shaping"].to_numpy()), shaped.delta, **close)
    for column in ("success_rate", "w_easy", "w_hard"):
        expected = getattr(shaped, column).repeat_interleave(4)
        torch.testing.assert_close(torch.tensor(found[f"coda/{column}"].to_numpy()), expected, **close)
    groups = shaped.rewards.view(-1, 4)
    advantages = (groups - groups.mean(dim=1, keepdim=True)).flatten()
    torch.testing.assert_close(torch.tensor(found["advantage"].to_numpy()), advantages, **close)


def test_plain_grpo_is_trl_s_to_the_last_bit(tiny_model, tmp_path):
    options = {"max_steps": 3, "scale_rewards": "group", "loss_type": "grpo", "beta": 0.1}
    ours = train(tiny_model, tmp_path / "ours", brevity, length_shaping="none", length_grouping=False, **options)
    theirs = train(tiny_model, tmp_path / "theirs", brevity, trainer=GRPOTrainer, **options)
    for key in ("loss", "grad_norm", "reward", "reward_std", "rewards/brevity/mean", "kl"):
        assert logs(ours, key) == logs(theirs, key) and len(logs(ours, key)) == 3
    for (name, parameter), other in zip(ours.model.named_parameters(), theirs.model.parameters(), strict=True):
        assert torch.equal(parameter, other), name
    assert ours.reward_funcs == [brevity] and ours.reward_func_names == ["brevity"]
    assert ours.reward_weights.tolist() == [1.0]
    # No success rate, no metrics of it.
    assert ours.state.log_history[0].keys() - theirs.state.log_history[0].keys() == {"coda/reward_seconds"}


@pytest.mark.parametrize("length_grouping", [True, False])
def test_a_model_with_nothing_to_train_is_refused(tiny_model, tmp_path, length_grouping):
    """An adapter is loaded frozen by default. Such a run used to log losses to its end, and learn nothing."""
    get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig()).save_pretrained(tmp_path / "lora")
    frozen = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model), tmp_path / "lora")
    settings = {"length_grouping": length_grouping, "gradient_checkpointing": False}
    with pytest.raises(RuntimeError, match="does not require grad"):
        train(frozen, tmp_path, right, processing_class=AutoTokenizer.from_pretrained(tiny_model), **settings)


def test_truncated_completions_count_at_their_length_and_can_be_masked(tiny_model, tmp_path):
    options = {"max_completion_length": 3, "log_completions": True, "mask_truncated_completions": True}
    trainer = train(tiny_model, tmp_path, right, **options)
    found = table(tmp_path)
    assert found["coda/length"].max() == 3
    assert logs(trainer, "coda/easy/clipped_ratio") == logs(trainer, "completions/clipped_ratio") != [0]
    assert logs(trainer, "coda/mean_response_length") == pytest.approx([found["coda/length"].mean()])


# What it logs


def test_accuracy_term_and_sum_are_logged_side_by_side(tiny_model, tmp_path):
    trainer = train(tiny_model, tmp_path, right, max_steps=2)
    assert logs(trainer, "rewards/right/mean") == logs(trainer, "coda/mean_score") == [1, 1]
    term, total = logs(trainer, "rewards/length_shaping/mean"), logs(trainer, "reward")
    assert all(-0.2 < value < 0 for value in term)
    assert total == pytest.approx([1 + value for value in term])
    assert total == pytest.approx(logs(trainer, "coda/mean_new_score"))
    assert logs(trainer, "coda/easy/share") == [1, 1]
    assert logs(trainer, "coda/frac_zero_std_base") == [1, 1] != logs(trainer, "coda/frac_zero_std_shaped")


@pytest.mark.parametrize("num_generations_eval", [None, 1, 2, 8])
def test_evaluation_is_not_shaped(tiny_model, tmp_path, num_generations_eval):
    extra = {"eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": num_generations_eval}
    trainer = train(tiny_model, tmp_path, right, eval_dataset=PROMPTS.select(range(3)), **extra)
    assert logs(trainer, "eval_reward") == logs(trainer, "eval_rewards/right/mean") == [1]
    assert logs(trainer, "eval_rewards/length_shaping/mean") == [0]
    assert logs(trainer, "eval_coda/mean_new_score") == logs(trainer, "eval_coda/success_rate") == [1]
    assert logs(trainer, "rewards/length_shaping/mean")[0] < 0  # while training still is


def test_weights_apply_to_the_term_as_to_the_reward_it_shapes(tiny_model, tmp_path):
    funcs = [brevity, right]
    trainer = make(tiny_model, tmp_path, funcs, reward_weights=[0.5, 2.0], correctness_reward="right")
    assert funcs == [brevity, right]  # the caller's list, which may serve another trainer
    trainer.train()
    (brief,), (term,), (total,) = (
        logs(trainer, key) for key in ("rewards/brevity/mean", "rewards/length_shaping/mean", "reward")
    )
    assert term < 0 and total == pytest.approx(0.5 * brief + 2 * (1 + term))


def test_completions_that_nobody_can_score_have_no_advantage(tiny_model, tmp_path):
    def right_or_none(completion_ids, **kwargs):
        return [None if ids[0] % 2 else 1.0 for ids in completion_ids]

    trainer = train(tiny_model, tmp_path, right_or_none, log_completions=True)
    found = table(tmp_path)
    unscorable = found["right_or_none"].isna()
    assert 0 < unscorable.mean() < 1
    assert (found["length_shaping"].isna() == unscorable).all()
    assert (found["advantage"][unscorable] == 0).all() and found["advantage"].any()
    assert logs(trainer, "coda/unscorable_ratio") == [unscorable.mean()]
    assert logs(trainer, "rewards/right_or_none/mean") == [1]


def test_other_rewards_stand_where_correctness_is_unknown(tiny_model, tmp_path):
    def unknown(completions, **kwargs):
        return [None] * len(completions)

    with pytest.warns(UserWarning, match="'unknown' returned None for every completion of .* such as '72'\\.$"):
        trainer = train(tiny_model, tmp_path, [unknown, brevity], max_steps=3)
    assert logs(trainer, "reward") == logs(trainer, "rewards/brevity/mean")
    assert logs(trainer, "coda/unscorable_ratio") == [1, 1, 1]


def test_resuming_gives_the_metrics_of_an_uninterrupted_run(tiny_model, tmp_path):
    settings = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    whole = train(tiny_model, tmp_path, odd, **settings)
    resumed = make(tiny_model, tmp_path, odd, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))

    found, expected = (metrics(trainer.state.log_history) for trainer in (resumed, whole))
    assert [entry["step"] for entry in found] == [1, 2, 3, 4]
    assert found == expected


def test_means_over_several_batches_leave_out_those_without_a_member(tiny_model, tmp_path):
    verdicts = iter([[1, 1, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]])

    def scripted(completions, **kwargs):
        return next(verdicts)

    options = {"per_device_eval_batch_size": 4, "log_completions": True, "generation_batch_size": 16}
    trainer = make(tiny_model, tmp_path, scripted, eval_dataset=PROMPTS.select(range(3)), **options)
    trainer.evaluate()
    found = table(tmp_path)
    mixed = found[4:8]
    for kind, value in {"wrong": 0, "correct": 1}.items():
        lengths = mixed["coda/length"][mixed["scripted"] == value]
        (logged,) = logs(trainer, f"eval_coda/mean_group_response_length_{kind}")
        assert logged == pytest.approx(lengths.mean())
    assert logs(trainer, "eval_coda/hard_trigger_no_correct_rate") == []  # no group was hard in any batch


def test_model_card_cites_coda_and_trl(tiny_model, tmp_path):
    trainer = make(tiny_model, tmp_path, right)
    trainer.create_model_card(model_name="tiny")
    card = (tmp_path / "README.md").read_text()
    assert "https://huggingface.co/papers/2603.08659" in card and "@article{wu2026coda" in card
    assert "@software{vonwerra2020trl" in card
    assert all(f"- {tag}\n" in card for tag in ("trl", "grpo", "coda"))
    assert f"fine-tuned version of `{Path(tiny_model).name}`." in card and f'model="{tmp_path}"' in card
    assert "None" not in card
    trainer.model.config._name_or_path = ""
    trainer.create_model_card(model_name="tiny")
    assert "fine-tuned version of a model without a name." in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(("method", "name"), [("none", "GRPO,"), ("vlp", "GRPO whose rewards are shaped by vlp,")])
def test_model_card_of_another_method_does_not_call_it_coda(tiny_model, tmp_path, method, name):
    make(tiny_model, tmp_path, right, length_shaping=method).create_model_card(model_name="tiny")
    card = (tmp_path / "README.md").read_text()
    assert f"trained with {name} a method introduced in [DeepSeekMath" in card and "coda" not in card.lower()


# What it refuses


def test_names_of_rewards_are_checked_before_any_weights(tmp_path):
    lambdas = [lambda completions, **kwargs: [0.5] * len(completions), lambda completions, **kwargs: [1.0] * 8]
    with pytest.raises(
        ValueError, match="'<lambda>', but must be the name of one of the reward functions: <lambda>, <lambda>"
    ):
        make("no-such-model", tmp_path, lambdas, correctness_reward="<lambda>")
    with pytest.raises(ValueError, match="'wrong', but must be the name of one of the reward functions: right"):
        make("no-such-model", tmp_path, functools.partial(right), correctness_reward="wrong")
    with pytest.raises(ValueError, match="Pass the function: `from coda_trl.rewards import accuracy_reward`"):
        make("no-such-model", tmp_path, "accuracy_reward")


def test_no_reward_at_all_is_for_trl_to_refuse(tiny_model, tmp_path):
    with pytest.raises(ValueError, match="No reward source"):
        make(tiny_model, tmp_path, [])


@pytest.mark.parametrize("method", ["l1_exact", "l1_max"])
def test_l1_without_budgets_is_refused_before_any_weights(tiny_model, tmp_path, method):
    without = PROMPTS.remove_columns("n_gold")
    with pytest.raises(ValueError, match=r"no column 'n_gold' \(its columns: prompt\)"):
        make("no-such-model", tmp_path, right, without, length_shaping=method)
    for budget in (0, -1, None, float("nan"), float("inf")):  # in any row
        bad = without.add_column("n_gold", [4, budget, *range(2, 8)])
        with pytest.raises(ValueError, match=r"`n_gold` is .* in row 1, but must be a positive number of tokens"):
            make("no-such-model", tmp_path, right, bad, length_shaping=method)
    stream = IterableDataset.from_generator(lambda: iter(without))
    with pytest.raises(ValueError, match="no column 'n_gold'"):  # a stream shows its columns with its first batch
        train(tiny_model, tmp_path, right, stream, length_shaping=method)
