"""The matrix run several times, each time from a warm start of its own, as one set of results."""

import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "ladder"))

from matrix import RUNS  # noqa: E402
from results import Measured, Results  # noqa: E402

# The number of a training is its seed, plus so much for every warm start before.
SPACING = 100


class Repetitions(Results):
    """
    Results of several warm starts. Trainings are compared with those of the same warm start and seed only. Pairs of
    all warm starts then count alike.

    Args:
        *folders (`Sequence[Path]`):
            For every warm start, the folders of its summaries.

    Raises:
        ValueError: If runs differ in what makes them comparable, one is there twice, or a seed is too large.
    """

    def __init__(self, *folders: Sequence[Path]):
        super().__init__()
        for number, of_one in enumerate(folders):
            own = Results(*of_one)
            self._share({what: value for what, value in own.shared.items() if what != "checkpoint"}, of_one[0])
            for name, summaries in own.summaries.items():
                for seed, summary in summaries.items():
                    if seed >= SPACING:
                        raise ValueError(f"{name} has a seed {seed} in {of_one[0]}: seeds must be below {SPACING}.")
                    training = number * SPACING + seed
                    self.summaries.setdefault(name, {})[training] = summary
                    for budget in summary.evaluations:
                        self._measured[name, training, budget] = own._measured[name, seed, budget]

    def seeds(self, *names: str) -> list[int]:
        """Trainings that all the trained ones among some runs have; next to the start, where theirs is evaluated."""
        found = super().seeds(*names)
        for name in names:
            if RUNS[name.partition("@")[0]].recipe is None:
                starts = {start // SPACING for start in self.summaries.get(name, {})}
                found = [training for training in found if training // SPACING in starts]
        return found

    def measured(self, name: str, seed: int) -> Measured:
        """One evaluation; for the start, that of the training's warm start."""
        if RUNS[name.partition("@")[0]].recipe is None:
            return self._measured[name, seed - seed % SPACING, None]
        return super().measured(name, seed)
