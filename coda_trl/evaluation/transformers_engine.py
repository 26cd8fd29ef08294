"""Generation with transformers: for CPUs and small models."""

from collections.abc import Iterator, Sequence

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from .generation import Generation, Request, SamplingSettings


class SeededSampling(LogitsProcessor):
    """
    Turns greedy decoding into sampling with a random stream of its own for every row.

    The token with the largest `log p + Gumbel noise` is a draw from `p`. With one generator a row, a sample depends on
    its own seed and not on its neighbours in the batch, so a resumed run draws what an unbroken one would.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device):
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores.float() - noise.log()


class TransformersEngine:
    """Samples in batches of prompts of similar length, on the model's device."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        settings: SamplingSettings,
        stop_token_ids: Sequence[int],
        batch_size: int = 64,
    ):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.settings = settings
        self.stop_token_ids = torch.tensor(sorted(stop_token_ids), device=model.device)
        self.pad_token_id = min(stop_token_ids) if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        # Replaces the model's own, which may contain a repetition penalty or a top-k that nobody asked for. (If passed
        # to `generate`, it would be completed from the model's.)
        self.model.generation_config = GenerationConfig(
            max_new_tokens=settings.max_tokens,
            do_sample=False,
            eos_token_id=sorted(stop_token_ids),
            pad_token_id=self.pad_token_id,
        )

    def generate(self, requests: Sequence[Request]) -> Iterator[list[Generation]]:
        """Answers batch by batch, the longest prompts first, so that memory runs out early or never."""
        samples = [
            (request, request.first_sample + offset) for request in requests for offset in range(request.num_samples)
        ]
        samples.sort(key=lambda item: len(item[0].prompt_ids), reverse=True)
        for start in range(0, len(samples), self.batch_size):
            yield self._generate_batch(samples[start : start + self.batch_size])

    @torch.inference_mode()
    def _generate_batch(self, samples: list[tuple[Request, int]]) -> list[Generation]:
        device = self.model.device
        width = max(len(request.prompt_ids) for request, _ in samples)
        input_ids = torch.full((len(samples), width), self.pad_token_id, device=device)
        attention_mask = torch.zeros_like(input_ids)
        for row, (request, _) in enumerate(samples):
            input_ids[row, width - len(request.prompt_ids) :] = torch.tensor(request.prompt_ids, device=device)
            attention_mask[row, width - len(request.prompt_ids) :] = 1
        output = self.model.generate(
            input_ids=input_ids,
            attention_mask=attention_mask,
            logits_processor=self._sampling([request.seed + sample for request, sample in samples], device),
        )
        return [
            self._generation(request, sample, row[width:])
            for (request, sample), row in zip(samples, output, strict=True)
        ]

    def _sampling(self, seeds: list[int], device: torch.device) -> LogitsProcessorList:
        processors = LogitsProcessorList()
        if self.settings.temperature > 0:
            processors.append(TemperatureLogitsWarper(self.settings.temperature))
            if self.settings.top_p < 1:
                processors.append(TopPLogitsWarper(self.settings.top_p))
            processors.append(SeededSampling(seeds, device))
        return processors

    def _generation(self, request: Request, sample: int, token_ids: torch.Tensor) -> Generation:
        stops = torch.isin(token_ids, self.stop_token_ids).nonzero()
        stopped = len(stops) > 0
        tokens = int(stops[0]) + 1 if stopped else len(token_ids)
        text = self.tokenizer.decode(token_ids[:tokens], skip_special_tokens=True)
        return Generation(request, sample, text, tokens, "stop" if stopped else "length")
