"""A TRL script with only the two names changed goes on working: what `GRPOTrainer` takes, `CodaGRPOTrainer` takes."""

import functools
import json
import runpy
import sys

import pandas as pd
import pytest
import torch
import trl
from datasets import Dataset, IterableDataset
from small_training import PROMPTS, SETTINGS, brevity, odd, right
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForSequenceClassification, TrainerCallback
from trl import GRPOTrainer
from trl.rewards import accuracy_reward

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer, LengthGroupedGRPOTrainer
from coda_trl.data_checks import check_number_of_prompts

CHAT = Dataset.from_list(
    [{"prompt": [{"role": "user", "content": f"{n} + 3 ="}], "solution": rf"\boxed{{{n + 3}}}"} for n in range(8)]
)


def args(folder, **settings) -> CodaGRPOConfig:
    return CodaGRPOConfig(str(folder), **(SETTINGS | {"max_steps": 2} | settings))


def assert_shaped(trainer) -> None:
    """Every step of the run logged finite losses and a shaping term for answers that were all right."""
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == trainer.args.max_steps
    for entry in steps:
        assert -0.2 < entry["rewards/length_shaping/mean"] < 0
        assert torch.tensor(entry["loss"]).isfinite()


def train(*arguments) -> CodaGRPOTrainer:
    trainer = CodaGRPOTrainer(*arguments)
    trainer.train()
    assert_shaped(trainer)
    return trainer


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_readme_example_with_nothing_but_the_names_changed(tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no `args`: the output folder is named after the model
    monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)  # TRL's default
    trainer = CodaGRPOTrainer(model=tiny_model, reward_funcs=accuracy_reward, train_dataset=CHAT.select([1]))
    assert isinstance(trainer.args, CodaGRPOConfig) and trainer.args.output_dir.endswith("-CODA")
    trainer.train()
    assert trainer.state.global_step == 3


def test_trl_s_own_script_with_the_two_names_changed(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(trl, "GRPOConfig", CodaGRPOConfig)
    monkeypatch.setattr(trl, "GRPOTrainer", CodaGRPOTrainer)
    (tmp_path / "data").mkdir()
    CHAT.to_json(tmp_path / "data/train.jsonl")
    options = {"model_name_or_path": tiny_model, "dataset_name": tmp_path / "data", "output_dir": tmp_path / "out"}
    options |= SETTINGS | {"max_steps": 1, "save_strategy": "steps", "save_steps": 1}
    command = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["grpo", *command, "--reward_funcs", "think_format_reward", "accuracy_reward"])
    runpy.run_module("trl.scripts.grpo", run_name="__main__")
    (log, *_) = json.loads((tmp_path / "out/checkpoint-1/trainer_state.json").read_text())["log_history"]
    assert "coda/success_rate" in log and "rewards/length_shaping/mean" in log


def test_arguments_by_position(tiny_model, tmp_path):
    seen = []

    class Listener(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            seen.append(logs)

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, padding_side="left")
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.1), None)
    options = args(tmp_path)
    train(model, [right], options, PROMPTS, PROMPTS, tokenizer, [None], [Listener()], optimizers).evaluate()
    # What trackers get: numbers, or `None` for a mean over nothing, under names that JSON takes.
    assert len(seen) == 4
    for entry in seen:
        assert all(isinstance(value, int | float | None) for value in entry.values())
        json.dumps(entry, allow_nan=False)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_generations": 3, "per_device_train_batch_size": 9},
        {"num_generations": 8, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 8},
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "steps_per_generation": 4},
        {"steps_per_generation": 4, "gradient_accumulation_steps": 4, "per_device_train_batch_size": 1},
        {"generation_batch_size": 16, "per_device_train_batch_size": 8, "num_generations": 16},
        {"scale_rewards": True, "num_iterations": 2, "max_steps": 2, "logging_steps": 2},
        {"scale_rewards": "batch", "loss_type": "dr_grpo", "beta": 0.05, "pad_to_multiple_of": 16},
        {"importance_sampling_level": "sequence", "top_entropy_quantile": 0.5, "mask_truncated_completions": True},
        {"gradient_checkpointing": False, "remove_unused_columns": True, "shuffle_dataset": False},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_batching_and_losses_of_trl(tiny_model, tmp_path, settings):
    trainer = CodaGRPOTrainer(tiny_model, right, args(tmp_path, **settings), PROMPTS)
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert steps and all(-0.2 < entry["rewards/length_shaping/mean"] < 0 for entry in steps)
    assert all(torch.tensor(entry["loss"]).isfinite() for entry in trainer.state.log_history if "loss" in entry)


@pytest.mark.parametrize("trainer", [CodaGRPOTrainer, LengthGroupedGRPOTrainer])
@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_prompts_for_a_step_are_refused(tmp_path, rows, trainer):
    """TRL trains no step then, and says so at the level of a log that scripts do not show."""
    with pytest.raises(
        ValueError, match=rf"{rows} prompts do not fill one batch of 2, .* `generation_batch_size` .now 8"
    ):
        trainer("no/model", right, args(tmp_path), PROMPTS.select(range(rows)))
    check_number_of_prompts(args(tmp_path), 2)


def test_streamed_dataset(tiny_model, tmp_path):
    stream = IterableDataset.from_generator(lambda: iter(PROMPTS))
    train(tiny_model, right, args(tmp_path), stream, stream).evaluate()


def test_columns_that_a_transform_makes(tiny_model, tmp_path):
    def exact(completions, solution, **kwargs):
        return [float(len(gold) > 0) for gold in solution]

    raw = PROMPTS.rename_columns({"prompt": "question"})
    made = raw.with_transform(lambda rows: {"prompt": rows["question"], "solution": list(map(str, rows["n_gold"]))})
    train(tiny_model, exact, args(tmp_path), made, made).evaluate()


def test_evaluation_before_training_and_on_several_sets(tiny_model, tmp_path):
    sets = {"a": PROMPTS.select(range(3)), "b": PROMPTS.select(range(3, 8))}
    trainer = CodaGRPOTrainer(tiny_model, right, args(tmp_path, num_generations_eval=2), PROMPTS, sets)
    trainer.evaluate()
    # TRL logs every set under the same names.
    assert [entry["eval_reward"] for entry in trainer.state.log_history] == [1, 1]
    trainer.train()
    assert_shaped(trainer)


def test_batches_with_and_without_a_success_rate_fill_one_table(tiny_model, tmp_path):
    def thirds(completion_ids, **kwargs):  # 0, 1/2 and 1: some batches look like correctness, some do not
        return [ids[0] % 3 / 2 for ids in completion_ids]

    sizes = {"num_generations_eval": 2, "per_device_eval_batch_size": 2}
    options = args(tmp_path, length_shaping="none", log_completions=True, generation_batch_size=16, **sizes)
    trainer = CodaGRPOTrainer(tiny_model, thirds, options, PROMPTS, PROMPTS)
    trainer.evaluate()
    found = pd.read_parquet(tmp_path / "completions" / "completions_00000.parquet")
    assert len(found) == 16
    assert found["coda/length"].notna().all() and 0 < found["coda/success_rate"].isna().mean() < 1


@pytest.mark.parametrize("rich", [True, False])
def test_completions_table_keeps_what_reward_functions_add(tiny_model, tmp_path, monkeypatch, rich, capsys):
    monkeypatch.setattr("trl.trainer.grpo_trainer.is_rich_available", lambda: rich)

    def talkative(completion_ids, trainer_state, log_extra, log_metric, **kwargs):
        log_extra("length", ["mine"] * len(completion_ids))
        log_metric("step_seen", trainer_state.global_step)
        return [1.0] * len(completion_ids)

    options = args(tmp_path, log_completions=True, num_completions_to_print=2)
    trainer = train(tiny_model, talkative, options, PROMPTS)
    assert [entry["step_seen"] for entry in trainer.state.log_history if "step_seen" in entry] == [0, 1]
    found = pd.read_parquet(tmp_path / "completions" / "completions_00002.parquet")
    assert set(found["length"]) == {"mine"} and (found["coda/length"] > 0).all()
    assert ("Step 2" in capsys.readouterr().out) == rich


def each(judge):
    @functools.wraps(judge)
    def reward(completions, **kwargs):
        return [judge(completion) for completion in completions]

    return reward


@each
def is_text(completion):
    return float(isinstance(completion, str))


class Judge:
    def __call__(self, completions, **kwargs):
        return [1.0] * len(completions)


@pytest.mark.parametrize(
    "reward", [lambda completions, **kwargs: right(completions), functools.partial(right), Judge(), is_text]
)
def test_rewards_that_are_not_plain_functions(tiny_model, tmp_path, reward):
    train(tiny_model, reward, args(tmp_path), PROMPTS)


@pytest.fixture(scope="module")
def reward_model(tiny_model, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("reward-model")
    Qwen3ForSequenceClassification.from_pretrained(tiny_model, num_labels=1).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("dataset", [PROMPTS, CHAT], ids=["text", "chat"])
@pytest.mark.parametrize("loaded", [True, False])
def test_reward_model_in_second_place(tiny_model, reward_model, tmp_path, dataset, loaded):
    second = Qwen3ForSequenceClassification.from_pretrained(reward_model) if loaded else reward_model
    trainer = train(tiny_model, [right, second], args(tmp_path, reward_weights=[1, 0.1]), dataset)
    name = reward_model.split("/")[-1]
    assert trainer.state.log_history[0][f"rewards/{name}/mean"] != 0


def test_reward_model_in_first_place(tiny_model, reward_model, tmp_path):
    trainer = train(tiny_model, [reward_model, right], args(tmp_path, reward_weights=[0.1, 1]), PROMPTS)
    assert trainer._judges == ["right"]


def test_reward_model_alone_is_not_shaped(tiny_model, reward_model, tmp_path):
    with pytest.raises(
        ValueError, match=r"score of a reward model \(reward-model\d\) does not judge correctness, .*Add"
    ):
        CodaGRPOTrainer(tiny_model, reward_model, args(tmp_path), PROMPTS)
    CodaGRPOTrainer(tiny_model, reward_model, args(tmp_path, length_shaping="none"), PROMPTS).train()


def test_columns_are_checked_beside_a_reward_model_too(tmp_path):
    with pytest.raises(ValueError, match="'accuracy_reward' cannot be called: missing"):
        CodaGRPOTrainer("no/model", ["no/reward-model", accuracy_reward], args(tmp_path), PROMPTS)


@pytest.mark.parametrize("in_place", [True, False])
def test_weights_may_change_in_the_run(tiny_model, tmp_path, in_place):
    class Schedule(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if in_place:
                trainer.reward_weights[0] = 2.0
            else:
                trainer.reward_weights = torch.tensor([2.0, 0.0])

    options = args(tmp_path, reward_weights=[1, 0], max_steps=3)
    trainer = CodaGRPOTrainer(tiny_model, [right, odd], options, PROMPTS, callbacks=[Schedule()])
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == 3
    for entry in steps:
        assert entry["reward"] == pytest.approx(2 + 2 * entry["rewards/length_shaping/mean"])


def test_a_reward_that_is_added_to_the_trainer(tiny_model, tmp_path):
    trainer = CodaGRPOTrainer(tiny_model, right, args(tmp_path), PROMPTS)
    trainer.reward_funcs.append(brevity)
    trainer.reward_func_names.append("brevity")
    trainer.reward_processing_classes.append(None)
    trainer.reward_weights = torch.tensor([1.0, 0.5])
    trainer.train()
    assert_shaped(trainer)
    for entry in trainer.state.log_history[:-1]:
        term = entry["rewards/length_shaping/mean"]
        assert entry["reward"] == pytest.approx(1 + term + 0.5 * entry["rewards/brevity/mean"])


def test_rewards_that_are_wrapped_in_the_trainer(tiny_model, tmp_path):
    trainer = CodaGRPOTrainer(tiny_model, right, args(tmp_path), PROMPTS)
    trainer.reward_funcs = [functools.partial(reward) for reward in trainer.reward_funcs]
    trainer.train()
    assert_shaped(trainer)


def test_rewards_that_are_replaced_in_training_do_not_end_the_shaping_unnoticed(tiny_model, tmp_path):
    trainer = CodaGRPOTrainer(tiny_model, right, args(tmp_path), PROMPTS)
    assert trainer.reward_func_names == ["right", "length_shaping"]
    trainer.train()
    for reward in (right, brevity):  # without the column of the term
        trainer.reward_funcs, trainer.reward_func_names = [reward], [reward.__name__]
        trainer.reward_processing_classes = [None]
        if reward is right:
            trainer.train()
            assert_shaped(trainer)
    with pytest.raises(ValueError, match="now brevity, so .* Keep 'right' among them"):
        trainer.train()


def test_the_method_and_its_reward_may_change_in_the_run(tiny_model, tmp_path):
    """As in a curriculum. Both were read when the trainer was created, and changes did nothing."""

    class Schedule(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            args.length_shaping = "none" if state.global_step in (0, 3) else "coda"
            args.correctness_reward = "right" if state.global_step == 2 else "odd"
            args.coda_alpha = 0.0 if state.global_step == 4 else 0.2

    options = args(tmp_path, length_shaping="none", max_steps=5, coda_tau_easy=0.5, coda_beta=0)
    trainer = CodaGRPOTrainer(tiny_model, [odd, right], options, PROMPTS, callbacks=[Schedule()])
    trainer.train()
    steps = trainer.state.log_history[:5]
    assert "rewards/length_shaping/mean" not in steps[0]
    terms = [step["rewards/length_shaping/mean"] or 0 for step in steps[1:]]
    assert terms[1] < 0 == terms[2] == terms[3]
    assert [step["coda/mean_score"] for step in steps] == [
        step[f"rewards/{'right' if number == 2 else 'odd'}/mean"] for number, step in enumerate(steps)
    ]
    for step, term in zip(steps, [0, *terms], strict=True):
        assert step["reward"] == pytest.approx(1 + step["rewards/odd/mean"] + term)


def test_evaluation_with_other_rewards_than_the_training_s(tiny_model, tmp_path):
    trainer = CodaGRPOTrainer(tiny_model, right, args(tmp_path), PROMPTS, PROMPTS)
    names = ("reward_funcs", "reward_func_names", "reward_processing_classes", "reward_weights")
    kept = {name: getattr(trainer, name) for name in names}
    vars(trainer).update(zip(names, ([brevity], ["brevity"], [None], torch.ones(1)), strict=True))
    found = trainer.evaluate()
    assert found["eval_reward"] == found["eval_rewards/brevity/mean"] > 0
    vars(trainer).update(kept)
    trainer.train()
    assert_shaped(trainer)


class OwnLoss(CodaGRPOTrainer):
    """Looks into every micro-batch, as TRL's documentation proposes."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        self._metrics["train"]["tokens"].append(inputs["completion_mask"].sum().item())
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)


class OwnTerm(CodaGRPOTrainer):
    """Has TRL's loss, but not that of its parent."""

    def _compute_loss(self, model, inputs):
        return 2 * GRPOTrainer._compute_loss(self, model, inputs)


class OwnAdvantages(CodaGRPOTrainer):
    """One for each token, which TRL's loss takes, and more in a batch than tensors."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        advantages = output["advantages"].unsqueeze(1) * torch.ones_like(output["completion_mask"])
        return output | {"advantages": advantages, "texts": ["a"] * len(advantages), "nothing": None}


@pytest.mark.parametrize("trainer", [OwnLoss, OwnTerm, OwnAdvantages])
def test_a_class_that_overrides_what_sees_micro_batches_sees_those_of_trl(tiny_model, tmp_path, trainer):
    options = args(tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=4)
    trainer = trainer(tiny_model, right, options, PROMPTS)
    trainer.train()
    assert_shaped(trainer)
    assert trainer.state.log_history[0]["grad_norm"] > 0
    assert not trainer._regroups


@pytest.mark.parametrize("name", ["compute_loss", "_compute_loss"])
@pytest.mark.parametrize("in_class", [True, False])
def test_so_does_a_method_that_a_script_puts_into_a_trainer(tiny_model, tmp_path, monkeypatch, name, in_class):
    options = args(tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=4)
    trainer, seen = CodaGRPOTrainer(tiny_model, right, options, PROMPTS), []
    place = GRPOTrainer if in_class else trainer
    method = getattr(place, name)

    def patched(*arguments, **options):
        seen.append(arguments[-1]["completion_mask"].shape[0])
        return method(*arguments, **options)

    monkeypatch.setattr(place, name, patched)
    trainer.train()
    assert_shaped(trainer)
    assert seen == [2] * 8


def test_training_twice_and_two_trainers_from_one_configuration(tiny_model, tmp_path):
    options, funcs = args(tmp_path), [right, odd]
    for _ in range(2):
        trainer = train(tiny_model, funcs, options, PROMPTS)
        trainer.train()
        assert_shaped(trainer)
    assert funcs == [right, odd]
