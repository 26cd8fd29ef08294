"""Shaped rewards against numbers computed elsewhere: the published code of CODA, the paper's formulas, peers' code.

`fixtures/*.json` hold inputs and outputs; the description inside each file says where its numbers come from. They were
computed by others' code or independently of this package, so agreement here is not agreement with ourselves.
"""

import importlib.util
import json
from itertools import product
from math import isnan, nan
from pathlib import Path

import pytest
import torch

from coda_trl.metrics import published_metrics
from coda_trl.shaping import shape_rewards

FIXTURES = Path(__file__).parent / "fixtures"
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def cases(name: str) -> list:
    content = json.loads((FIXTURES / f"{name}.json").read_text())
    assert len(content["cases"]) == content["count"]
    return [pytest.param(case["inputs"], case["outputs"], id=case["id"]) for case in content["cases"]]


def assert_close(actual: torch.Tensor, expected: list | torch.Tensor) -> None:
    torch.testing.assert_close(actual.double(), torch.as_tensor(expected, dtype=torch.float64), **TOLERANCE)


def with_nan(rewards: list) -> torch.Tensor:
    return torch.tensor([nan if reward is None else reward for reward in rewards], dtype=torch.float64)


def advantages(rewards: torch.Tensor, group_size: int, divide_by_std: bool = False) -> torch.Tensor:
    """GRPO's advantages, with the published code's exception for groups of one."""
    grouped = rewards.view(-1, group_size)
    if group_size == 1:
        return rewards / (1 + 1e-6) if divide_by_std else rewards
    centred = grouped - grouped.mean(dim=1, keepdim=True)
    if divide_by_std:
        centred = centred / (grouped.std(dim=1, keepdim=True) + 1e-6)
    return centred.flatten()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("inputs", "outputs"), cases("coda_reference"))
def test_published_code(inputs, outputs, dtype):
    names = outputs["group_order"]
    # Stable: rows of a group come together, groups in the order in which they first appeared.
    order = sorted(range(len(inputs["group"])), key=lambda row: names.index(inputs["group"][row]))
    group_size = len(order) // len(names)
    rewards = torch.tensor(inputs["rewards"], dtype=dtype)[order]
    lengths = torch.tensor(inputs["lengths"])[order]
    thresholds = {"tau_easy": inputs["tau_easy"], "tau_hard": inputs["tau_hard"]}

    shaped = shape_rewards(
        rewards,
        lengths,
        group_size,
        "coda",
        alpha=inputs["alpha"],
        beta=inputs["beta"],
        length_stats="correct",
        **thresholds,
    )

    assert_close(shaped.success_rate, outputs["success_rate"])
    assert_close(shaped.w_easy, outputs["w_easy"])
    assert_close(shaped.w_hard, outputs["w_hard"])
    assert_close(shaped.rewards, torch.tensor(outputs["shaped"])[order])
    assert_close(
        advantages(shaped.rewards.double(), group_size, inputs["norm_adv_by_std"]),
        torch.tensor(outputs["advantages"])[order],
    )
    metrics = published_metrics(rewards, lengths, shaped, **thresholds)
    metrics = {name: 0 if isnan(value) else value for name, value in metrics.items()}  # as the trainer logs them
    assert metrics.keys() == outputs["metrics"].keys()
    # Lengths are up to 16384 tokens, where one step of float32 is 1e-3.
    assert metrics == pytest.approx(outputs["metrics"], rel=1e-6, abs=1e-5)


@pytest.mark.parametrize(("inputs", "outputs"), cases("paper_formulas"))
def test_paper(inputs, outputs):
    rewards, lengths, n_gold = (torch.tensor(inputs[name]) for name in ("rewards", "lengths", "n_gold"))

    def check(expected, method, **parameters):
        shaped = shape_rewards(rewards, lengths, len(rewards), method, **parameters)
        assert_close(shaped.rewards, expected["shaped"])
        assert_close(advantages(shaped.rewards, len(rewards)), expected["advantages"])
        return shaped

    gates = {name: inputs[name] for name in ("alpha", "beta", "tau_easy", "tau_hard")}
    for std in ("std0", "std1"):
        check(outputs[f"vlp_{std}"], "vlp", gamma=inputs["gamma"], unbiased=std == "std1")
        expected = outputs[f"coda_{std}"]
        shaped = check(expected, "coda", unbiased=std == "std1", **gates)
        for name in ("relative_length", "success_rate", "w_easy", "w_hard"):
            assert_close(getattr(shaped, name), torch.tensor(expected[name]).view(-1))
    check(outputs["asrr"], "asrr", **{name: inputs[f"asrr_{name}"] for name in ("tau", "zeta", "window")})
    check(outputs["l1"], "l1_exact", eta=inputs["l1_eta"], n_gold=n_gold)


@pytest.mark.parametrize(("inputs", "outputs"), cases("peer_formulas"))
def test_peers(inputs, outputs):
    rewards, lengths, n_gold = (torch.tensor(inputs[name]) for name in ("rewards", "lengths", "n_gold"))

    def shape(method, **parameters):
        return shape_rewards(rewards, lengths, len(rewards), method, **parameters)

    correct_only = {"length_stats": "correct", "unbiased": False}
    assert_close(shape("vlp", gamma=0.1, **correct_only).rewards, outputs["arora_sigmoid"])
    assert_close(shape("vlp", gamma=0.4, **correct_only).rewards, outputs["arora_sigmoid_alpha_0_4"])

    l1_exact = shape("l1_exact", n_gold=n_gold, eta=inputs["l1_exact_alpha"])
    assert_close(l1_exact.rewards, outputs["l1_exact"]["reward"])
    assert_close(l1_exact.delta, outputs["l1_exact"]["delta"])

    l1_max = shape("l1_max", n_gold=n_gold, eta=inputs["l1_max_alpha"])
    assert_close(l1_max.rewards, outputs["l1_max_multiplied"]["reward"])


@pytest.mark.parametrize(("inputs", "outputs"), cases("rival_formulas"))
def test_rivals(inputs, outputs):
    inputs = dict(inputs)
    rewards, lengths = with_nan(inputs.pop("rewards")), torch.tensor(inputs.pop("lengths"))
    for (method, output), (dtype, atol) in product(outputs.items(), ((torch.float64, 1e-12), (torch.float32, 1e-6))):
        expected = with_nan(output)
        shaped = shape_rewards(rewards.to(dtype), lengths, len(rewards), method, **inputs)
        close = {"rtol": 0, "atol": atol, "equal_nan": True, "msg": f"{method} in {dtype}: {{}}".format}
        torch.testing.assert_close(shaped.rewards.double(), expected, **close)
        torch.testing.assert_close(shaped.delta.double(), expected - rewards, **close)


def test_rival_fixture_is_what_its_script_makes(tmp_path):
    path = FIXTURES / "make_rival_formulas.py"
    module = importlib.util.module_from_spec(spec := importlib.util.spec_from_file_location(path.stem, path))
    spec.loader.exec_module(module)
    module.OUT = tmp_path / "made.json"
    module.main()
    assert module.OUT.read_text() == (FIXTURES / "rival_formulas.json").read_text()
