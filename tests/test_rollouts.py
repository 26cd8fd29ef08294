"""What counts as length when not every token of a rollout is the model's: tools, environments, `rollout_func`."""

import json

import pytest
import torch
from datasets import Dataset
from small_training import make as make_trainer
from small_training import right

QUESTIONS = Dataset.from_dict({"prompt": [[{"role": "user", "content": "3 * 4?"}]] * 2})


def make(model, folder, reward_funcs, **others):
    sizes = {"per_device_train_batch_size": 4, "max_completion_length": 400}
    return make_trainer(model, folder, reward_funcs, QUESTIONS, log_completions=True, **sizes, **others)


def script(trainer, *turns: list[str]):
    """Makes the model say this: one list of texts a turn, as a random model would never call a tool."""
    turns = iter(turns)

    def generate(prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        texts = next(turns)
        assert len(texts) == len(prompt_ids)
        return [trainer.processing_class(text)["input_ids"] for text in texts], None

    trainer._generate_single_turn = generate


CALL = '<tool_call>\n{"name": "multiply", "arguments": {"a": 3, "b": 4}}\n</tool_call><|im_end|>'


class Multiplication:
    """An environment whose method is a tool and which judges the answer itself."""

    def reset(self, **kwargs) -> str:
        self.calls = 0
        return " Use the tool."

    def multiply(self, a: int, b: int) -> str:
        """
        Multiplies two integers.

        Args:
            a: The first.
            b: The second.

        Returns:
            Their product, at length.
        """
        self.calls += 1
        return f"{a * b}" + "!" * 150

    def get_reward(self) -> float:
        return float(self.calls > 0)


def test_results_of_tools_are_not_the_model_s_length(tool_model, tmp_path):
    environment = Multiplication()
    environment.reset()
    trainer = make(tool_model, tmp_path, right, tools=[environment.multiply])
    script(trainer, [CALL, "12<|im_end|>", CALL, "1" * 100 + "<|im_end|>"], ["12<|im_end|>", "Twelve.<|im_end|>"])
    trainer.train()

    call = len(trainer.processing_class(CALL)["input_ids"])
    assert list(trainer._logs["extra"]["coda/length"]) == [call + 3, 3, call + 8, 101]
    assert trainer.state.log_history[0]["tools/call_frequency"] == 0.5
    whole = [len(json.dumps(messages)) for messages in trainer._logs["completion"]]
    assert whole[0] > whole[3]  # with the tool's answer, the first is the longest; on its own, the last is
    term = list(trainer._logs["rewards"]["length_shaping"])
    assert min(term) == term[3] and max(term) == term[1]


def test_environment_owns_the_reward_that_is_shaped(tool_model, tmp_path):
    trainer = make(tool_model, tmp_path, None, environment_factory=Multiplication)
    script(trainer, [CALL] * 4, ["12<|im_end|>", "It is 12.<|im_end|>", "Twelve.<|im_end|>", "144<|im_end|>"])
    trainer.train()
    call = len(trainer.processing_class(CALL)["input_ids"])
    assert list(trainer._logs["extra"]["coda/length"]) == [call + 3, call + 10, call + 8, call + 4]
    logs = trainer.state.log_history[0]
    assert logs["rewards/Multiplication/mean"] == 1 and logs["rewards/length_shaping/mean"] < 0


class Product(Multiplication):
    """Another one, with a reward of its own."""

    def get_reward(self) -> float:
        return 1.0


def test_each_of_several_environments_judges_its_own_rollouts(tool_model, tmp_path, recwarn):
    rows = QUESTIONS.add_column("environment", ["one", "other"])
    environments = {"one": Multiplication, "other": Product}
    trainer = make_trainer(
        tool_model, tmp_path, None, rows, environment_factory=environments, max_completion_length=400
    )
    script(trainer, [CALL] * 8, ["1" * (1 + row) + "<|im_end|>" for row in range(8)])
    trainer.train()
    assert not [warning for warning in recwarn if "is shaped by length" in str(warning.message)]
    rewards = trainer._logs["rewards"]
    assert [sum(value == 1 for value in rewards[name]) for name in ("Multiplication", "Product")] == [4, 4]
    for term in torch.tensor(list(rewards["length_shaping"])).view(2, 4):
        assert (term.diff() < 0).all()  # the shortest earns most
    assert trainer.state.log_history[0]["coda/unscorable_ratio"] == 0


def test_rows_of_an_environment_need_no_prompt(tool_model, tmp_path):
    make_trainer(tool_model, tmp_path, right, Dataset.from_dict({"a": [3, 4]}), environment_factory=Multiplication)


@pytest.mark.parametrize("made", [list, torch.tensor])
@pytest.mark.parametrize("masked", [True, False])
def test_tokens_masked_by_a_rollout_func_are_not_the_model_s_length(tool_model, tmp_path, masked, made):
    own = [1, 3, 5, 7]

    def rollout(prompts, trainer):
        output = {
            "prompt_ids": [[10, 11]] * 4,
            "completion_ids": [made([20] * 9 + [trainer.processing_class.eos_token_id])] * 4,
            "logprobs": [[-1.0] * 10] * 4,
            "verdict": [1.0, 1.0, 1.0, 1.0],
        }
        if masked:
            output["env_mask"] = [made([1] * count + [0] * (10 - count)) for count in own]
        return output

    def verdict_reward(completions, verdict, **kwargs):
        return verdict

    trainer = make(tool_model, tmp_path, verdict_reward, rollout_func=rollout)
    trainer.train()
    assert list(trainer._logs["extra"]["coda/length"]) == (own if masked else [10] * 4)
    assert trainer.state.log_history[0]["coda/easy/clipped_ratio"] == 0
    term = torch.tensor(list(trainer._logs["rewards"]["length_shaping"]))
    assert (term.diff() < 0).all() if masked else (term == term[0]).all()
