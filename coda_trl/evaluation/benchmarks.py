"""A benchmark: problems and their grader."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..grading import Grade

Problem = Mapping[str, Any]
Grader = Callable[[Sequence[str], Sequence[Problem]], list[bool | None | Grade]]


@dataclass(frozen=True)
class Benchmark:
    """
    Problems and their grader.

    Args:
        name (`str`):
            Name in sample files and tables.
        problems (`Sequence[Mapping[str, Any]]`):
            A list or `datasets.Dataset`. `prompt` is messages or a string; `problem_id` defaults to the position.
        grade (`Callable[[Sequence[str], Sequence[Mapping[str, Any]]], list[bool | None | Grade]]`):
            Judges completions, each with its problem: right, wrong, or `None` if the gold answer cannot be read; or
            [`Grade`]s. A `<think>` that the prompt opened precedes its completion.
    """

    name: str
    problems: Sequence[Problem]
    grade: Grader

    def grades(self, completions: Sequence[str], problems: Sequence[Problem]) -> list[Grade]:
        """Grades of completions. Raises a `ValueError` if the grader does not return a verdict for each."""
        found = self.grade(completions, problems)
        grades = [one if isinstance(one, Grade) else Grade(one, None, 0.0) for one in found]
        wrong = [one.verdict for one in grades if one.verdict not in (True, False, None)]  # 1 and NumPy's are as good
        if wrong or len(grades) != len(completions):
            returned = repr(wrong[0]) if wrong else f"{len(grades)} verdicts for {len(completions)} completions"
            raise ValueError(
                f"the grader of benchmark {self.name!r} returned {returned}: return one verdict for each completion, "
                "True, False, or None if the gold answer cannot be read"
            )
        return [one if one.verdict is None else replace(one, verdict=bool(one.verdict)) for one in grades]

    def numbered(self) -> dict[str, Problem]:
        """
        The problems by id. Raises a `ValueError` if there are none, an id repeats, or a prompt is neither string nor
        messages.
        """
        numbered: dict[str, Problem] = {}
        for index, problem in enumerate(self.problems):
            problem_id = str(problem.get("problem_id", index))
            if problem_id in numbered:
                raise ValueError(
                    f"benchmark {self.name!r} has two problems with problem_id {problem_id!r}: give each its own"
                )
            numbered[problem_id] = problem
            if not isinstance(problem.get("prompt"), str | list):
                raise ValueError(
                    f"benchmark {self.name!r}, problem {problem_id!r}: `prompt` must be a string or a list of "
                    f'messages such as {{"role": "user", "content": "..."}}, got {problem.get("prompt")!r:.80}'
                )
        if not numbered:
            raise ValueError(f"benchmark {self.name!r} has no problems: give it some, or leave it out")
        return numbered
