"""Writes docs/reference from the docstrings of the package.

python docs/make_reference.py

The docstrings are in Hugging Face style, which no generator of plain Markdown reads. They are Markdown but for four
things, which are translated here: sections, indented entries of arguments, references to other objects, and formulas.
"""

import dataclasses
import importlib
import inspect
import re
import textwrap
from pathlib import Path

OUT = Path(__file__).parent / "reference"

# Page: title, and the modules whose public objects it lists. A module without `__all__` lists what it defines.
PAGES = {
    "shaping": ("Shaping", ["coda_trl.shaping"]),
    "config": ("Configuration", ["coda_trl.config"]),
    "trainer": ("Trainer", ["coda_trl.trainer", "coda_trl.length_grouping"]),
    "metrics": ("Metrics of training", ["coda_trl.metrics"]),
    "rewards": ("Reward functions", ["coda_trl.rewards"]),
    "grading": ("Grading", ["coda_trl.grading"]),
    "data": ("Data", ["coda_trl.data"]),
    "evaluation": ("Evaluation", [f"coda_trl.evaluation{module}" for module in ("", ".loading", ".runner")]),
    "analysis": ("Analysis", ["coda_trl.analysis"]),
    "report": ("Report", ["coda_trl.report"]),
    "dry_run": ("Dry run", ["coda_trl.dry_run"]),
    "ladder": ("Ladder", ["coda_trl.ladder", "coda_trl.evaluation.ladder"]),
}
LISTS = ("Args", "Parameters", "Attributes", "Raises")  # of entries with a name each
SECTIONS = (*LISTS, "Returns", "Yields", "Example")
NOTICE = "<!-- Written by docs/make_reference.py from the docstrings: change those. -->\n"


def public_objects(module_name: str) -> dict[str, type]:
    """Documented classes and functions of a module: those of `__all__`, or those that it defines."""
    module = importlib.import_module(module_name)
    names = vars(module).get("__all__", [name for name in vars(module) if not name.startswith("_")])
    objects = {name: vars(module)[name] for name in names}
    return {
        name: thing
        for name, thing in objects.items()
        if (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__doc__
        and ("__all__" in vars(module) or thing.__module__ == module_name)
    }


def anchors() -> dict[str, dict[str, str]]:
    """For every page, the anchor that it links a name to: on the page itself if it has the name, else on the first."""
    own: dict[str, dict[str, str]] = {}
    for page, (_, modules) in PAGES.items():
        own[page], slugs = {}, []
        for module in modules:
            for name in public_objects(module):
                slugs.append(name.lower())
                again = slugs.count(name.lower()) - 1  # GitHub numbers headings that read the same
                own[page][name] = f"{page}.md#{name.lower()}" + (f"-{again}" if again else "")
    first: dict[str, str] = {}
    for names in own.values():
        first = names | first
    return {page: first | names for page, names in own.items()}


def signature(thing) -> str:
    """Call with defaults; types are in the docstring."""
    whole = inspect.signature(thing)
    untyped = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in whole.parameters.values()]
    call = str(whole.replace(parameters=untyped, return_annotation=inspect.Signature.empty))
    text = thing.__qualname__ + call
    return textwrap.fill(text, 100, subsequent_indent=" " * 4, break_long_words=False, break_on_hyphens=False)


def translate(docstring: str, links: dict[str, str]) -> str:
    """A docstring in Hugging Face style as Markdown."""
    lines: list[str] = []
    section, fenced = "", False
    for line in inspect.cleandoc(docstring).splitlines():
        if line.startswith("```"):
            fenced = not fenced
            if not fenced and lines[-1] == "":
                lines.pop()  # doctest needs the blank line, readers do not
        if line.rstrip(":") in SECTIONS and line.endswith(":"):
            section = line.rstrip(":")
            lines += [f"**{section}**", ""]
        elif fenced or not line.startswith("    "):
            lines.append(line)
        elif section in LISTS and re.match(r" {4}\S", line):
            entry = re.sub(r"^(\S[^(`:]*)( \(.*\))?:(?= |$)", r"**\1**\2:", line.strip())
            lines.append(f"- {entry}" if entry.startswith("**") else f"  {entry}")
        else:
            lines.append(("  " if section in LISTS else "") + line.strip())
    text = "\n".join(lines)
    text = re.sub(r"\\\\\(\s*(.*?)\s*\\\\\)", lambda math: "$`" + " ".join(math[1].split()) + "`$", text, flags=re.S)
    return re.sub(r"\[`~?([\w.]+)`\]", lambda found: link(found[1], links), text)


def link(name: str, links: dict[str, str]) -> str:
    """A reference to an object: linked if it is in these pages, code if not."""
    short = name.rpartition(".")[2]
    return f"[`{short}`]({links[short]})" if short in links else f"`{short}`"


def describe(name: str, thing, links: dict[str, str], level: int = 2) -> list[str]:
    """Heading, call, docstring, and the public methods of a class."""
    lines = [f"{'#' * level} {name}", ""]
    if not dataclasses.is_dataclass(thing) and not (inspect.isclass(thing) and issubclass(thing, Exception)):
        lines += ["```text", signature(thing), "```", ""]
    lines += [translate(thing.__doc__, links), ""]
    if inspect.isclass(thing):
        for method_name, method in vars(thing).items():
            is_method = inspect.isfunction(method) and not method_name.startswith("_") and method.__doc__
            if is_method:
                lines += describe(f"{name}.{method_name}", method, links, level + 1)
    return lines


def render() -> dict[str, str]:
    """
    Every page by file name.

    Returns:
        `dict[str, str]`: Text by name of the file in `docs/reference`.
    """
    links = anchors()
    index = [
        NOTICE,
        "# Reference",
        "",
        "| Page | Module | Objects |",
        "| --- | --- | --- |",
    ]
    pages = {}
    for page, (title, modules) in PAGES.items():
        lines = [NOTICE, f"# {title}", ""]
        names = []
        for module_name in modules:
            lines += [f"Module `{module_name}`", ""]
            objects = public_objects(module_name)
            for name, thing in objects.items():
                lines += describe(name, thing, links[page])
                names.append(f"[`{name}`]({links[page][name]})")
        pages[f"{page}.md"] = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
        where = ", ".join(f"`{module}`" for module in modules)
        index.append(f"| [{title}]({page}.md) | {where} | {', '.join(names)} |")
    return pages | {"README.md": "\n".join(index) + "\n"}


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name, text in render().items():
        (OUT / name).write_text(text)


if __name__ == "__main__":
    main()
