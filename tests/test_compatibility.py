"""The trainers refuse a TRL whose methods are not those that they override, and say what differs."""

import inspect
import re
import runpy
import tomllib
from pathlib import Path

import pytest
import trl
from packaging.requirements import Requirement
from packaging.version import Version
from small_training import make, right
from trl import GRPOConfig, GRPOTrainer

import coda_trl
from coda_trl import CodaGRPOTrainer, LengthGroupedGRPOConfig, LengthGroupedGRPOTrainer
from coda_trl.compatibility import TESTED_TRL, check_overrides

ROOT = Path(__file__).parent.parent
TRAINERS = (LengthGroupedGRPOTrainer, CodaGRPOTrainer)


def with_one_more(self, inputs, prompts, completions, completion_ids_list, environments):
    """`_calculate_rewards` as a later TRL might have it."""


def in_another_order(self, inputs, prompts, completion_ids_list, completions):
    """`_calculate_rewards` as a later TRL might have it."""


@pytest.mark.parametrize("method", [with_one_more, in_another_order])
def test_another_signature_is_refused_before_any_weights(tmp_path, monkeypatch, method):
    monkeypatch.setattr(GRPOTrainer, "_calculate_rewards", method)
    monkeypatch.setattr(trl, "__version__", "1.99.0")
    found = re.escape(f"in TRL 1.99.0 it is _calculate_rewards{inspect.signature(method)}")
    with pytest.raises(RuntimeError, match=rf"{found}\. Tested releases of TRL: 1\.14\.2, .*`pip install trl=="):
        make("no-such-model", tmp_path, right)


def test_a_method_that_is_gone_is_refused(monkeypatch):
    monkeypatch.delattr(GRPOTrainer, "_prepare_inputs")
    monkeypatch.delattr("transformers.Trainer._prepare_inputs")
    with pytest.raises(RuntimeError, match=r"\._prepare_inputs\(self, generation_batch\), .* there is none"):
        check_overrides(LengthGroupedGRPOTrainer)


def test_a_method_that_is_gone_does_not_keep_the_module_from_saying_so(monkeypatch):
    monkeypatch.delattr(GRPOTrainer, "_compute_loss")
    trainer = runpy.run_module("coda_trl.length_grouping.trainer")["LengthGroupedGRPOTrainer"]
    with pytest.raises(RuntimeError, match=r"\._compute_loss\(self, model, inputs\), .* there is none"):
        check_overrides(trainer)


def test_an_import_that_fails_says_why(monkeypatch):
    def broken(name, package):
        raise AttributeError("module 'torch' has no attribute 'float4'")

    monkeypatch.setattr(coda_trl, "import_module", broken)
    with pytest.raises(ImportError, match=r"coda_trl\.config cannot be imported: module 'torch' has no"):
        from coda_trl import CodaGRPOConfig  # noqa: F401


def test_further_inputs_of_the_model_are_no_difference(monkeypatch):
    def with_sound(
        self,
        model,
        input_ids,
        attention_mask,
        logits_to_keep,
        batch_size=None,
        compute_entropy=False,
        compute_aux_loss=False,
        sound=None,
    ):
        """TRL adds such inputs from release to release: images, tiles, token types. Ours hands them on."""

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", with_sound)
    check_overrides(LengthGroupedGRPOTrainer)


def test_every_method_of_trl_that_is_overridden_is_marked():
    for trainer in TRAINERS:
        own = {name: value for name, value in vars(trainer).items() if inspect.isfunction(value)}
        overridden = {name for name in own if hasattr(GRPOTrainer, name) and name != "__init__"}
        assert overridden == {name for name, value in own.items() if hasattr(value, "__override__")}


def test_trl_still_does_what_signatures_do_not_show():
    """
    `check_overrides` compares arguments. If this fails, TRL has changed inside. Check

    - that `_generate` still returns, in this order, prompt ids, completion ids, tool mask, ...: ours unpacks them;
    - that `_calculate_rewards` still returns rewards gathered over all processes, one column a function, whole groups
      adjacent, and that its caller still weighs, sums, logs and tables the columns by `reward_weights` and
      `reward_func_names`: the shaping term is a column appended there;
    - that the four lists of the constructor below are still what it loops over;

    mend the trainers, and only then add the release to `TESTED_TRL`.
    """
    expected = "return prompt_ids, completion_ids, tool_mask, completions, logprobs, extra_fields, images, tool_images"
    assert expected in inspect.getsource(GRPOTrainer._generate)
    scoring = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "self._calculate_rewards(inputs, prompts, completions, completion_ids_list)" in scoring
    assert "(rewards_per_func * self.reward_weights.to(device).unsqueeze(0)).nansum(dim=1)" in scoring
    rewards = inspect.getsource(GRPOTrainer._calculate_rewards)
    assert "zip(self.reward_funcs, self.reward_processing_classes, self.reward_func_names" in " ".join(rewards.split())
    assert "rewards_per_func = gather(rewards_per_func)" in rewards


def test_trl_still_has_what_length_grouping_builds_on():
    """If this fails, read these parts of TRL anew, mend `length_grouping/trainer.py`, then add the release."""
    buffering = inspect.getsource(GRPOTrainer._prepare_inputs)
    assert "self._buffered_inputs = [" in buffering
    assert "self._buffered_inputs[self._step % self.args.steps_per_generation]" in buffering
    if Version(trl.__version__) < Version("1.15"):
        scoring = inspect.getsource(GRPOTrainer._full_logits_logps)
        assert "completion_mask = attention_mask_batch[:, -logits_to_keep:]" in scoring
        assert "model(**model_inputs)" in scoring
        return
    scoring = inspect.getsource(GRPOTrainer._get_per_token_logps_and_entropies)
    assert "labels = input_ids_batch.masked_fill(attention_mask_batch == 0, -100)" in scoring
    assert "model(**model_inputs, labels=labels, fused_lm_head=True)" in scoring


def test_the_oldest_tested_release_is_the_lowest_that_may_be_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (each for each in map(Requirement, project["dependencies"]) if each.name == "trl")
    assert str(requirement.specifier) == f">={TESTED_TRL[0]}"
    assert f"trl=={TESTED_TRL[-1]}\n" in (ROOT / "constraints.txt").read_text()
    versions = (ROOT / "docs" / "faq.md").read_text().partition("### Which versions?")[2]
    assert all(f" {release} " in versions for release in (TESTED_TRL[0], TESTED_TRL[-1])), "say it in docs/faq.md"
    assert "make test-trl\n" in (ROOT / ".ci" / "run").read_text()


def test_grouping_alone_takes_a_configuration_with_trl_s_defaults():
    with pytest.raises(TypeError, match="`args` is a GRPOConfig, but .* takes a LengthGroupedGRPOConfig"):
        LengthGroupedGRPOTrainer("no-such-model", right, GRPOConfig("runs", use_cpu=True, bf16=False))
    ours, theirs = (config("runs", use_cpu=True).to_dict() for config in (LengthGroupedGRPOConfig, GRPOConfig))
    assert ours == theirs | {"length_grouping": True, "skip_zero_advantages": True}
