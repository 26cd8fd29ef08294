"""Micro-batches grouped by length: the plan, the layout, and that neither gradients nor metrics notice."""

import importlib
import math
import re
import sys
from functools import partial
from itertools import accumulate, combinations, pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from hypothesis import given
from hypothesis import strategies as st
from microbatch_run import CASES, RARE, TWO_PROCESSES, train
from small_training import launch, logs
from small_training import train as small_train
from trl import GRPOTrainer

from coda_trl.length_grouping import LengthGroupedGRPOTrainer
from coda_trl.length_grouping.microbatch import LeftAligned, blank, cheapest_fill, trim

WIDTHS = st.lists(st.integers(1, 3000), min_size=1, max_size=80).map(lambda widths: sorted(widths, reverse=True))


def sizes(widths, counts):
    """Padded tokens of each micro-batch."""
    return [count * widths[end - count] for count, end in zip(counts, accumulate(counts), strict=True)]


def cost(widths, counts, pass_cost):
    return sum(sizes(widths, counts)) + pass_cost * len(counts)


def fits(widths, counts, budget):
    return all(size <= budget or count == 1 for size, count in zip(sizes(widths, counts), counts, strict=True))


@given(WIDTHS.map(lambda widths: widths[:8]), st.integers(1, 10_000), st.integers(0, 5_000))
def test_no_other_cut_is_cheaper(widths, budget, pass_cost):
    counts = cheapest_fill(widths, budget, pass_cost=pass_cost)
    assert sum(counts) == len(widths) and min(counts) > 0 and fits(widths, counts, budget)
    found = cost(widths, counts, pass_cost)
    for breaks in range(len(widths)):
        for places in combinations(range(1, len(widths)), breaks):
            counts = [end - start for start, end in pairwise([0, *places, len(widths)])]
            if fits(widths, counts, budget):
                assert found <= cost(widths, counts, pass_cost)


@given(WIDTHS.map(lambda widths: [100 * width for width in widths]), st.integers(1, 8))
def test_cheapest_fill_makes_no_more_micro_batches_than_there_were(widths, rows):
    batches = -(-len(widths) // rows)
    counts = cheapest_fill(widths, rows * widths[0], most=batches, pass_cost=1)
    assert len(counts) <= batches and sum(counts) == len(widths)
    assert max(sizes(widths, counts)) <= rows * widths[0]


def test_cheapest_fill_leaves_equal_rows_as_they_are():
    assert cheapest_fill([640] * 32, 4 * 640, most=8) == [4] * 8


def test_losses_are_no_wider_than_their_own_completions(tiny_model, tmp_path):
    _, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path, beta=0.1)
    masks = [batch["completion_mask"] for batch in trainer._buffered_inputs if batch]
    assert all(mask.size(1) < mask.sum(dim=1).max() + 2 * trainer._width_multiple for mask in masks)
    assert len({mask.size(1) for mask in masks}) > 1


@st.composite
def padded_rows(draw):
    """Rows as TRL lays them out: prompts padded on the left, completions (perhaps masked altogether) on the right."""
    lengths = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=6))
    prompt_width = draw(st.integers(max(p for p, _ in lengths), 12))
    completion_width = draw(st.integers(max(1, *(c for _, c in lengths)), 12))
    mask = torch.tensor([[0] * (prompt_width - p) + [1] * (p + c) + [0] * (completion_width - c) for p, c in lengths])
    return torch.arange(1, mask.numel() + 1).view_as(mask), mask, completion_width


@given(padded_rows(), st.sampled_from([1, 4, 64]))
def test_left_aligned_rows_hold_every_token_and_come_back(rows, multiple):
    input_ids, mask, completion_width = rows
    aligned = LeftAligned.of(input_ids, mask, completion_width, multiple)
    for row in range(len(mask)):
        tokens = input_ids[row][mask[row].bool()]
        assert aligned.input_ids[row, : len(tokens)].tolist() == tokens.tolist()
        assert aligned.position_ids[row, : len(tokens)].tolist() == mask[row].nonzero().flatten().tolist()
        assert aligned.attention_mask[row].tolist() == [1] * len(tokens) + [0] * (
            aligned.input_ids.size(1) - len(tokens)
        )

    width = aligned.input_ids.size(1)
    assert width <= input_ids.size(1) and (width % multiple == 0 or width == input_ids.size(1))
    assert width < mask.sum(dim=1).max() + multiple
    completion = (input_ids * mask)[:, -completion_width:]
    assert aligned.restore(aligned.input_ids[:, -aligned.logits_to_keep :]).equal(completion)
    assert (aligned.input_ids * aligned.completion_mask).sum() == completion.sum()
    # No token to score lies before the columns that are kept, or TRL would pass over it.
    assert not aligned.completion_mask[:, : -aligned.logits_to_keep].any()


def test_blank_rows_keep_one_token_and_the_batch_stays():
    batch = {"prompt_mask": torch.ones(2, 3), "completion_mask": torch.ones(2, 2)}
    found = blank(batch, torch.tensor([True, False]))
    assert found["prompt_mask"].tolist() == [[0, 0, 1], [1, 1, 1]]
    assert found["completion_mask"].tolist() == [[0, 0], [1, 1]]
    assert batch["prompt_mask"].all()


def test_trimming_leaves_prompts_that_are_longer_than_completions():
    found = trim({"prompt_ids": torch.ones(1, 200), "completion_mask": torch.eye(1, 100), "count": torch.ones(())}, 8)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "prompt_ids": (1, 200),
        "completion_mask": (1, 16),
        "count": (),
    }


def assert_same(found: dict, expected: dict):
    """Losses, gradients and weights of two runs, to 1e-5 of the norm of each weight's gradient and change."""
    assert len(found["gradients"]) == len(expected["gradients"]) > 2
    for step, trl_step in zip(found["gradients"], expected["gradients"], strict=True):
        assert step.keys() == trl_step.keys()
        for name, gradient in trl_step.items():
            assert (step[name] - gradient).norm() <= 1e-5 * gradient.norm(), name
    for log, trl_log in zip(found["logs"][:-1], expected["logs"][:-1], strict=True):  # the last one sums up
        assert log["loss"] == pytest.approx(trl_log["loss"], rel=1e-5, abs=1e-7)
        differing = (log.keys() ^ trl_log.keys()) - {"coda/skipped_token_ratio"}
        assert differing <= {"entropy", "clip_ratio/low_min", "clip_ratio/high_max"} and None not in log.values()
    for name, weight in expected["weights"].items():
        torch.testing.assert_close(found["weights"][name], weight, rtol=1e-5, atol=1e-6)


def has_signal(run: dict) -> list[bool]:
    """Of each optimizer step, whether every weight has a gradient other than 0 (none at all is the alternative)."""
    steps = [{bool(gradient.norm() > 0) for gradient in step.values()} for step in run["gradients"]]
    assert all(len(step) == 1 for step in steps)
    return [step.pop() for step in steps]


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_trl_s(tiny_model, tmp_path, case):
    runs = [train(cls, tiny_model, tmp_path, **CASES[case])[0] for cls in (LengthGroupedGRPOTrainer, GRPOTrainer)]
    assert_same(*map(vars, runs))
    assert all(has_signal(vars(runs[1])))
    shapes, trl_shapes = (run.shapes for run in runs)
    rows, widths = zip(*shapes, strict=True)
    trl_s_order = case in ("bnpo", "quantile", "entropy-bonus")
    skipped = sum(row for row, _ in trl_shapes) - sum(rows)
    assert (skipped > 0) == (not trl_s_order and not CASES[case].get("beta"))
    assert max(map(math.prod, shapes)) <= 4 * 128  # what a micro-batch of four rollouts up to the limit holds
    assert sum(map(math.prod, shapes)) < sum(map(math.prod, trl_shapes)) and min(widths) <= 64
    assert (set(rows[-4:]) == {4}) == trl_s_order  # not those of old log-probabilities
    assert len(shapes) <= len(trl_shapes) - (case == "dapo")  # short rows fill fewer passes


@pytest.mark.parametrize("case", RARE)
@pytest.mark.slow
def test_what_cannot_teach_is_left_out_and_the_steps_are_trl_s(tiny_model, tmp_path, case):
    runs = [train(cls, tiny_model, tmp_path, **RARE[case])[0] for cls in (LengthGroupedGRPOTrainer, GRPOTrainer)]
    assert_same(*map(vars, runs))
    assert has_signal(vars(runs[1])) == [True, "iterations" in case, *[True] * (len(runs[1].gradients) - 2)]
    assert ["entropy" in log for log in runs[0].logs[:-1]] == has_signal(vars(runs[1]))  # no row, no mean
    rows, trl_rows = (sum(row for row, _ in run.shapes) for run in runs)
    assert rows <= trl_rows / 2
    if case == "rare-grpo":  # four rows with an advantage in the first step, one to fill the second
        assert runs[0].shapes[:2] == [(4, 48), (1, 16)]


def test_rows_without_an_advantage_can_stay(tiny_model, tmp_path):
    record, _ = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path, rare=True, skip_zero_advantages=False)
    assert sum(row for row, _ in record.shapes) == 3 * 16
    assert "coda/skipped_token_ratio" not in record.logs[0]


def test_a_step_without_rows_leaves_the_means_of_other_steps(tiny_model, tmp_path):
    record, _ = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path, rare=True, max_steps=2, logging_steps=2)
    assert "entropy" in record.logs[0]


def test_models_that_mind_padding_keep_trl_s(tiny_model, tmp_path, monkeypatch):
    """Which ones do: tests/test_padding.py."""
    monkeypatch.setattr("coda_trl.length_grouping.trainer.values_ignore_padding", lambda config, peft_type: False)
    with pytest.warns(UserWarning, match=r"`length_grouping` has no effect: .* \(qwen3\)"):
        runs = [train(cls, tiny_model, tmp_path)[0] for cls in (LengthGroupedGRPOTrainer, GRPOTrainer)]
    assert runs[0].shapes == runs[1].shapes
    assert_same(*map(vars, runs))


@pytest.mark.parametrize("sharding", TWO_PROCESSES)
@pytest.mark.slow
def test_gradients_are_trl_s_on_two_processes(tiny_model, tmp_path, sharding):
    """In the `rare` cases the first process has no row left, and in their second step neither has."""
    launch(Path(__file__).parent / "helpers" / "microbatch_run.py", tiny_model, str(tmp_path), sharding, processes=2)
    for case in TWO_PROCESSES[sharding]:
        found, expected = (
            torch.load(tmp_path / f"{case}-{cls.__name__}.pt") for cls in (LengthGroupedGRPOTrainer, GRPOTrainer)
        )
        assert_same(found, expected)
        assert any(has_signal(expected))


class Whole(GRPOTrainer):
    """Notes the share of tokens in rows with an advantage, and the means of entropy and phi of these alone."""

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        self.scores = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        return self.scores

    def get_gamma_weights(self, **kwargs):
        self.phi = super().get_gamma_weights(**kwargs)
        return self.phi

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        mask, rows = inputs["completion_mask"], inputs["advantages"] != 0
        kept = mask * rows.unsqueeze(1)
        self._metrics["train"]["skipped"].append(1 - (kept.sum() / mask.sum()).item())
        self._metrics["train"]["entropy_of_kept"].append(((self.scores[1] * kept).sum() / kept.sum()).item())
        if self.loss_type == "vespo":
            self._metrics["train"]["phi_of_kept"].append(self.phi[rows].mean().item())
        return loss


@pytest.mark.parametrize("beta", [0.0, 0.1], ids=["skipping", "all rows"])
@pytest.mark.parametrize(
    "options",
    [{}, {"importance_sampling_level": "sequence"}, {"loss_type": "vespo"}],
    ids=["token", "sequence", "vespo"],
)
@pytest.mark.slow
def test_metrics_are_those_of_the_whole_optimizer_step(tiny_model, tmp_path, options, beta):
    options = {"num_iterations": 2, "beta": beta, "epsilon": 0.001} | options
    whole = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}
    expected, _ = train(Whole, tiny_model, tmp_path, **options, **whole)
    found, _ = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path, **options)
    ratios = [f"clip_ratio/{name}_mean" for name in ("low", "high", "region")]
    if "loss_type" in options:
        ratios = ["vespo/phi_seq_mean"]
    names = {name: name for name in ratios}
    if beta:
        names |= {"entropy": "entropy", "kl": "kl"}
    else:
        names |= {"entropy": "entropy_of_kept", "coda/skipped_token_ratio": "skipped"}
        names |= dict.fromkeys(names.keys() & {"vespo/phi_seq_mean"}, "phi_of_kept")
    for log, expected_log in zip(found.logs[:-1], expected.logs[:-1], strict=True):
        for name, other in names.items():
            if name in log:  # rows are left out when they are made, for all iterations
                assert log[name] == pytest.approx(expected_log[other], rel=1e-4, abs=1e-7), name
        assert (
            log.get("clip_ratio/high_max", 0) <= expected_log.get("clip_ratio/high_max", 0) + 1e-7
        )  # a mean of maxima
    assert len({log[ratios[-1]] for log in found.logs[:-1]}) > 1 and names.keys() <= found.logs[0].keys()


@pytest.mark.parametrize("options", [{"beta": 0.1}, {"num_iterations": 2}], ids=["kl", "iterations"])
def test_evaluation_is_trl_s(tiny_model, tmp_path, options):
    logs = []
    for trainer_class in (LengthGroupedGRPOTrainer, GRPOTrainer):
        _, trainer = train(trainer_class, tiny_model, tmp_path, **options)
        logs.append(trainer.evaluate())
    for name in ("eval_loss", "eval_entropy", *["eval_kl"] * ("beta" in options)):
        assert logs[0][name] == pytest.approx(logs[1][name], rel=1e-5)


def test_an_empty_micro_batch_has_no_backward_pass(tiny_model, tmp_path, monkeypatch):
    """DeepSpeed's engine would take it for the first of a step. Nor has it a minimum or maximum, but a share of 0."""
    passes, backward, values, log = [], Accelerator.backward, [], GRPOTrainer.log
    monkeypatch.setattr(Accelerator, "backward", lambda self, loss: (passes.append(loss), backward(self, loss)))

    def note(self, logs, *others):
        values.append([len(self._metrics["train"][f"clip_ratio/{name}"]) for name in ("high_mean", "high_max")])
        log(self, logs, *others)

    monkeypatch.setattr(GRPOTrainer, "log", note)
    record, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path, beta=0.1)
    assert len(passes) == len(record.shapes) < trainer.state.global_step * trainer.args.gradient_accumulation_steps
    means, maxima = zip(*values[:-1], strict=True)
    assert set(means) == {trainer.args.gradient_accumulation_steps} and sum(maxima) == len(passes)


def test_gradient_checkpointing_stays_as_it_was_set(tiny_model, tmp_path):
    """It pauses while old log-probabilities are computed."""
    reentrant = {"use_reentrant": True}  # not the default
    options = {"num_iterations": 2, "gradient_checkpointing": True, "gradient_checkpointing_kwargs": reentrant}
    _, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path, **options)
    assert trainer.model.model.layers[0]._gradient_checkpointing_func.keywords == reentrant


def test_rows_stay_in_place_for_a_loss_that_nothing_is_known_of_and_for_the_router_s(tiny_model, tmp_path):
    _, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path)
    assert trainer._regroups
    trainer.aux_loss_enabled = True  # of a mixture of experts
    assert not trainer._regroups
    trainer.aux_loss_enabled, trainer.loss_type = False, "of a newer TRL"
    assert not trainer._regroups


class Model:
    """Notes what it is called with, and answers nothing but zeros."""

    def __call__(self, **inputs):
        self.inputs = inputs
        zeros = torch.zeros(inputs["input_ids"].shape)
        logits = zeros.unsqueeze(2).expand(-1, -1, 100)  # for TRL 1.14
        return SimpleNamespace(log_probs=zeros, entropy=zeros, logits=logits, aux_loss=torch.tensor(0.5))


INPUT_IDS = torch.ones(2, 10, dtype=torch.long)
MASK = torch.tensor([[0] * 3 + [1] * 7, [1] * 5 + [0] * 5])


@pytest.mark.parametrize("images", [{}, {"pixel_values": torch.rand(2, 3), "num_images": [1, 1]}])
def test_vision_language_models_stay_as_they_are_with_and_without_images(tiny_model, tmp_path, images):
    """A process whose batch has images would leave one that gathers, as its batch has none, waiting for ever."""
    _, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path)
    assert trainer._regroups
    trainer._is_vlm, model = True, Model()
    trainer._get_per_token_logps_and_entropies(model, INPUT_IDS, MASK, 6, batch_size=1, **images)
    assert model.inputs["attention_mask"].equal(MASK[1:]) and ("pixel_values" in model.inputs) == bool(images)
    assert not trainer._regroups


def test_a_model_gets_trl_s_positions_and_a_mask_only_where_it_needs_one(tiny_model, tmp_path):
    _, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path)
    rows, model = LeftAligned.of(INPUT_IDS, MASK, 6, trainer._width_multiple), Model()
    for attention, aux_loss in product(["sdpa", "flash_attention_2"], [False, True]):
        trainer.model.config._attn_implementation = attention
        *_, found = trainer._get_per_token_logps_and_entropies(
            model, INPUT_IDS, MASK, 6, compute_entropy=True, compute_aux_loss=aux_loss
        )
        assert found == (0.5 if aux_loss else None)
        assert model.inputs["position_ids"].equal(rows.position_ids)
        mask = model.inputs["attention_mask"]
        assert mask.equal(rows.attention_mask) if aux_loss or attention != "sdpa" else mask is None


def test_old_log_probabilities_wait_unless_those_of_vllm_need_them(tiny_model, tmp_path):
    _, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path)
    for trainer.use_vllm, trainer.vllm_importance_sampling_correction in product([False, True], repeat=2):
        logps, _, _ = trainer._get_per_token_logps_and_entropies(Model(), INPUT_IDS, MASK, 6, batch_size=1)
        assert (logps is None) != (trainer.use_vllm and trainer.vllm_importance_sampling_correction)


def test_a_micro_batch_holds_what_rows_of_the_limit_would(tiny_model, tmp_path):
    _, trainer = train(LengthGroupedGRPOTrainer, tiny_model, tmp_path)
    widths = torch.tensor([32] * 8)
    assert list(map(len, trainer._plan(widths, 2))) == [8]  # the limit is 128 tokens
    trainer.args.max_completion_length = None
    assert list(map(len, trainer._plan(widths, 2))) == [2] * 4
    trainer.args.max_completion_length, trainer.pad_to_multiple_of = 128, 24
    assert trainer._width_multiple == 48


def test_cheap_passes_make_no_more_micro_batches_than_trl_has(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr("coda_trl.length_grouping.trainer.cheapest_fill", partial(cheapest_fill, pass_cost=1))
    runs = [train(cls, tiny_model, tmp_path, beta=0.1)[0] for cls in (LengthGroupedGRPOTrainer, GRPOTrainer)]
    assert_same(*map(vars, runs))


def test_a_metric_of_a_reward_function_is_not_taken_for_trl_s(tiny_model, tmp_path):
    def verdict(completions, log_metric, **kwargs):
        log_metric("kl", 7.0)  # TRL logs none of its own, as `beta` is 0
        return [float(len(completion) % 2) for completion in completions]

    settings = {"max_steps": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    trainer = small_train(tiny_model, tmp_path, verdict, length_shaping="none", **settings)
    assert logs(trainer, "kl") == [7.0, 7.0]


def test_the_cost_of_a_pass_follows_from_the_committed_times(monkeypatch, capsys):
    """`PASS_COST` and docs/performance.md."""
    folder = Path(__file__).parent.parent / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    pass_cost = importlib.import_module("pass_cost")
    monkeypatch.setattr(sys, "argv", ["pass_cost.py"])
    pass_cost.main()
    assert re.findall(r"or ([\d,]+) tokens", capsys.readouterr().out) == ["5,670", "3,375", "19,540"]
