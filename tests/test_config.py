"""`CodaGRPOConfig`: its defaults, what it refuses, and how TRL's parser reads it from YAML and the command line."""

import dataclasses
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import yaml
from trl import GRPOConfig, TrlParser

from coda_trl import CodaGRPOConfig, LengthGroupedGRPOConfig, shape_rewards
from coda_trl.setting_types import check_types

CPU = {"use_cpu": True, "bf16": False, "report_to": "none"}


TRLS = {each.name for each in dataclasses.fields(GRPOConfig)}
OWN = {each.name: each for each in dataclasses.fields(CodaGRPOConfig) if each.name not in TRLS}


def config(**fields) -> CodaGRPOConfig:
    return CodaGRPOConfig("unused", **(CPU | fields))


def test_defaults_are_the_paper_s_and_those_of_shape_rewards():
    defaults, parameters = config().shaping_parameters(), inspect.signature(shape_rewards).parameters
    assert defaults == {name: parameters[name].default for name in defaults}
    paper = {
        **{"method": "coda", "alpha": 0.2, "beta": 0.2, "tau_easy": 0.75, "tau_hard": 0.25},
        **{"length_stats": "group", "bonus_on_incorrect": False},
        **{"gamma": 0.1, "tau": 0.75, "zeta": 0.5, "window": 2048, "eta": 3e-4},
    }
    assert defaults == defaults | paper


def test_objective_is_the_paper_s_and_nothing_else_of_trl_changes():
    ours, theirs = config().to_dict(), GRPOConfig("unused", **CPU).to_dict()
    differing = {name for name in theirs if ours[name] != theirs[name]}
    assert differing <= {"scale_rewards", "loss_type"}
    assert (ours["scale_rewards"], ours["loss_type"]) == ("none", "dapo")


@pytest.mark.parametrize(
    ("field", "values"),
    {
        **{name: [-1e-7, inf, nan] for name, each in OWN.items() if each.type is float},
        "length_shaping": ["coad", "", None],
        "length_stats": ["all", None],
        "coda_alpha": [-0.1, 1.01, nan, "0.2", None],
        "coda_tau_easy": [-0.1, 1.01, 0.2, nan],
        "coda_tau_hard": [-0.1, 1.01, 0.8, nan],
        "vlp_gamma": [-0.1, 1.01, nan],
        "asrr_tau": [-0.1, 1, nan],
        "asrr_window": [0, -2048, inf],
    }.items(),
)
def test_every_field_is_range_checked_under_its_own_name(field, values):
    for value in values:
        with pytest.raises(ValueError, match=f"`{field}`") as error:
            config(**{field: value})
        assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("learning_rate", [1], "a number"),
        ("learning_rate", "1e-6", "a number"),
        ("reward_weights", ["a"], "a list of numbers"),
        ("use_cpu", "no", "true or false"),
        ("scale_rewards", [1], "text or true or false"),
        ("eval_strategy", False, "text: put a bare no, yes, off or on in quotes"),
        ("report_to", {"wandb": 1}, "text or a list of text"),
        ("model_init_kwargs", 3, "a mapping or text"),
        ("model_init_kwargs", "3", "a mapping: on the command line, JSON"),
        ("generation_kwargs", '{"top_k": }', "a mapping: on the command line, JSON"),
        ("parallelism_config", {"cp_size": 2}, "ParallelismConfig"),
    ],
)
def test_a_value_of_another_type_is_refused(field, value, expected):
    with pytest.raises(ValueError, match=re.escape(f"`{field}` is {value!r}, but must be {expected}.")):
        LengthGroupedGRPOConfig("unused", **(CPU | {field: value}))


def test_a_number_of_generations_is_needed():
    with pytest.raises(ValueError, match="`num_generations` is None, but must be at least 2"):
        LengthGroupedGRPOConfig("unused", **CPU, num_generations=None)


def test_fields_of_a_derived_class_may_be_of_any_type():
    @dataclass
    class Own(CodaGRPOConfig):
        tags: list = field(default_factory=list)
        names: Sequence[str] = ("a",)
        folder: Path = Path("a")
        anything: Any = None
        later: "OnlyForTypeCheckers" = None  # noqa: F821
        weights: dict[str, float] = field(default_factory=dict)
        run_name: list | None = None  # text in its base

    own = {"tags": [1, "a"], "names": ["a"], "folder": "a", "anything": 3, "later": 3, "weights": {"a": 1.0}}
    Own("unused", run_name=["a"], **own, **CPU)
    with pytest.raises(ValueError, match="`tags` is 3, but must be a list."):
        Own("unused", tags=3, **CPU)


def test_what_trl_takes_is_taken():
    taken = {
        "output_dir": Path("unused"),
        "max_steps": 10.0,
        "learning_rate": 1,
        "top_k": None,
        "scale_rewards": False,
        "resume_from_checkpoint": True,
        "run_name": 20260101,  # as YAML reads it
        "log_completions": 1,
        "logging_first_step": 0,
    }
    taken |= {
        "reward_weights": [1, 0.5],
        "debug": ["underflow_overflow"],
        "generation_kwargs": '{"min_new_tokens": 1}',
    }
    CodaGRPOConfig(**(CPU | taken))
    for value in (True, ["full_shard"]):  # which change the environment
        check_types({"fsdp": value}, CodaGRPOConfig)


def test_ends_of_the_ranges_are_allowed():
    config(coda_alpha=0, coda_beta=0, coda_tau_easy=1, coda_tau_hard=0, vlp_gamma=1, asrr_tau=0, asrr_zeta=0, l1_eta=0)
    config(coda_alpha=1, coda_beta=5, coda_tau_easy=0.5, coda_tau_hard=0.5, vlp_gamma=0, asrr_window=1)


SEQUENCES = {"use_vllm": True, "vllm_importance_sampling_mode": "sequence_truncate"}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_generations": 8}, []),
        ({"num_generations": 8, "scale_rewards": "group"}, ["scale_rewards"]),
        ({"num_generations": 8, "scale_rewards": "group", "length_shaping": "none"}, []),
        ({"num_generations": 4}, ["num_generations"]),
        ({"num_generations": 4, "coda_tau_hard": 0.3}, []),
        ({"num_generations": 4, "coda_beta": 0}, []),
        ({"num_generations": 4, "length_shaping": "vlp"}, []),
        ({"num_generations": 8, "loss_type": "grpo"}, ["loss_type"]),
        ({"num_generations": 8, **SEQUENCES}, ["vllm_importance_sampling_correction"]),
        ({"num_generations": 8, **SEQUENCES, "use_vllm": False}, []),
        ({"num_generations": 8, **SEQUENCES, "vllm_importance_sampling_correction": False}, []),
        ({"num_generations": 8, **SEQUENCES, "vllm_importance_sampling_mode": "token_truncate"}, []),
        ({"num_generations": 8, "mask_truncated_completions": True}, ["mask_truncated_completions"]),
    ],
)
def test_settings_that_work_against_the_method_are_named(settings, named):
    assert [name for name, _ in config(**settings).contradictions()] == named


def test_the_kl_term_s_beta_is_not_coda_s():
    assert "For CODA's β, set `coda_beta` instead" in dict(config(beta=0.2).contradictions())["beta"]
    for quiet in (config(beta=0.04), config(beta=0.2, length_shaping="none")):
        assert "beta" not in dict(quiet.contradictions())


def test_alp_s_default_is_said_to_do_nothing_without_scaling():
    scaled = config(length_shaping="alp", scale_rewards="group", num_generations=8)
    stronger = config(length_shaping="alp", alp_beta=1e-3, max_completion_length=300)
    endless = config(length_shaping="alp", max_completion_length=None)
    for quiet in (scaled, stronger, endless, config(alp_beta=0)):  # the last has another method
        assert "alp_beta" not in dict(quiet.contradictions())
    found = dict(config(length_shaping="alp", max_completion_length=3000).contradictions())
    assert re.match(r"With 1e-07, .* of 3000 tokens loses only 0.0003 .*about 1e-04", found["alp_beta"])


def test_normalising_each_reward_alone_is_refused_unless_plain_grpo():
    with pytest.raises(
        ValueError, match="`multi_objective_aggregation` is 'normalize_then_sum'.*'sum_then_normalize'"
    ):
        config(multi_objective_aggregation="normalize_then_sum")
    config(multi_objective_aggregation="normalize_then_sum", length_shaping="none")


def test_trl_parser_reads_yaml_with_command_line_overrides(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        yaml.dump(CPU | {"output_dir": "unused", "length_shaping": "asrr", "coda_beta": 0.5, "coda_alpha": 0.1})
        + "l1_eta: 3e-4\n"  # YAML 1.1 reads this as a string
    )
    arguments = ["--config", str(recipe), "--coda_alpha", "0.4", "--length_stats", "correct"]
    (args,) = TrlParser(CodaGRPOConfig).parse_args_and_config([*arguments, "--bonus_on_incorrect"])
    assert (args.length_shaping, args.coda_beta) == ("asrr", 0.5)  # from the file
    assert (args.coda_alpha, args.length_stats, args.bonus_on_incorrect) == (0.4, "correct", True)  # overridden
    assert args.l1_eta == 3e-4


def test_every_field_has_a_help_text():
    assert [name for name, each in OWN.items() if "help" not in each.metadata] == [], "describe it in the docstring"
    shown = " ".join(TrlParser(CodaGRPOConfig).format_help().split())
    assert "--length_shaping {none,coda," in shown and "--length_stats {group,correct}" in shown
