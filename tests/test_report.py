"""The report: the paper's Table 1 re-entered, what is shown for which files, and that the page stands alone."""

import html
import json
import re
import runpy
import shutil
import subprocess
import sys
import tracemalloc
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from made_samples import sample, write_lines
from matplotlib.figure import Figure
from small_training import PROMPTS, odd, train

import coda_trl.report.page
from coda_trl.analysis import best_budget, best_budgets, budget_curve
from coda_trl.evaluation import Estimate, load_samples
from coda_trl.report import build_report
from coda_trl.report.buckets import in_words
from coda_trl.report.elements import Cell, Table, difference, number, percent, tokens
from coda_trl.report.optimality import draw_best_budgets
from coda_trl.report.render import latex, markdown
from coda_trl.report.runs import COUNTS, load_run
from coda_trl.report.seeds import average
from coda_trl.resuming import check_settings, fixed_settings

ROOT = Path(__file__).parents[1]
PAPER = json.loads((Path(__file__).parent / "fixtures" / "paper_table1.json").read_text())

# 94.1 and 94.1 with a difference of 0.1, of which no two counts out of 2,400 are the rounded values.
WITHOUT_PREIMAGE = {("14b", "svamp")}


def answers(token_factor=1.0, problems=20, benchmark="b", rungs=False):
    """Four samples per problem, the later problems easier and longer."""
    return [
        sample(
            i,
            correct=k * problems < 5 * i,
            tokens=round((50 + i + k) * token_factor),
            sample=k,
            benchmark=benchmark,
            completion=f"Wait, let me verify. What is the sum of {i} and {k} please? 5",
            finish_reason="length" if k == 3 else "stop",
            prompt=[{"role": "user", "content": f"What is the sum of {i} and {k} please?"}],
            **({"rung": 1 + i % 3} if rungs else {}),
        )
        for i in range(problems)
        for k in range(4)
    ]


def write(folder, samples):
    write_lines(folder / "samples.jsonl", samples)
    return folder


def write_samples(folder, *args, **options):
    return write(folder, answers(*args, **options))


def write_summary(folder, **benchmarks):
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"benchmarks": benchmarks}))
    return folder


def write_log(folder, gates=True):
    folder.mkdir(parents=True, exist_ok=True)
    history = []
    for step in range(1, 41):
        entry = {"step": step, "rewards/accuracy_reward/mean": step / 50, "completions/mean_length": 100 - step}
        if gates:
            entry |= {"coda/mean_w_easy": step / 40, "coda/mean_w_hard": 0.5 - step / 80}
        history.append(entry)
    evaluation = {"eval_rewards/accuracy_reward/mean": 0.9, "eval_completions/mean_length": 12.0}
    history.append({"step": 40, "eval_rung_1_runtime": 1.0, **evaluation})
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """Leaves out what takes most of the time, where a test is about numbers."""
    monkeypatch.setattr(coda_trl.report.page, "write_figures", lambda folder, sections: defaultdict(bytes))


def read_tables(page):
    return json.loads((page.parent / "tables.json").read_text())


@pytest.fixture
def report(tmp_path, undrawn):
    """Builds the report of runs, each its folders or its samples; returns `tables.json` and the text of the page."""

    def build(runs, reference=None, **options):
        samples = {name: run for name, run in runs.items() if isinstance(run, list) and isinstance(run[0], dict)}
        runs = runs | {name: write(tmp_path / name, run) for name, run in samples.items()}
        page = build_report(runs, reference, tmp_path / "report", **options)
        return read_tables(page), page.read_text()

    return build


def column(table, name, row):
    return next(cells for cells in table["rows"] if cells[0]["text"] == row)[table["columns"].index(name)]


def cells(line):
    return [cell.strip() for cell in line.removesuffix(r" \\").replace("$", "").split("&")]


def test_the_papers_table_1_comes_out_wherever_counts_can_give_it(tmp_path, undrawn):
    runs = {}
    for model in PAPER["models"]:
        for run in ("GRPO", "CODA"):
            printed = PAPER["models"][model][run]
            *spent, average = printed["tokens"]
            off = min(0.1, max(-0.1, average - np.mean(spent)))  # the paper took the average before it rounded
            benchmarks = {
                name: {"accuracy": correct / (8 * size), "tokens": tokens + off}
                for name, correct, size, tokens in zip(
                    PAPER["benchmarks"], printed["correct"], PAPER["problems"], spent, strict=True
                )
            }
            runs[f"{model}/{run}"] = folder = write_summary(tmp_path / model / run, **benchmarks)
        runs[f"{model}/VLP"] = folder
    for _ in range(2):  # a second report replaces the models' reports as well
        page = build_report(runs, "GRPO", tmp_path / "report", change_of="CODA")
    names, tables = [*PAPER["benchmarks"], "Average"], read_tables(page)["tables"]
    assert tables["accuracy"]["columns"] == ["Model", "Run", *names]
    lines = (page.parent / "tables" / "main_results.tex").read_text().splitlines()
    for model in PAPER["models"]:
        start = next(i for i, line in enumerate(lines) if line.endswith(rf"\textbf{{{model}}}}} \\"))
        rows = {row[0]: row[1:] for row in map(cells, lines[start + 1 : start + 6]) if len(row) > 1}
        assert list(rows) == ["GRPO", "CODA", "VLP", r"\Delta CODA"]  # the change of one method alone
        for row, of in (("GRPO", "GRPO"), ("CODA", "CODA"), (r"\Delta CODA", "difference")):
            printed = PAPER["models"][model][of]
            shown = [float(cell.removesuffix(r"\%")) for cell in rows[row]]
            assert shown[len(names) :] == printed["tokens"], (model, row)
            for name, here, there in zip(names, shown, printed["accuracy"], strict=False):
                assert here == there or (model, name) in WITHOUT_PREIMAGE, (model, name, row)
        own = read_tables(page.parent / model / "index.html")["tables"]["accuracy"]
        assert own["columns"] == ["", *names] and f'href="{model}/index.html"' in page.read_text()
    build_report({"CODA": folder}, None, page.parent)  # and it leaves nothing behind
    assert not list((page.parent / "4b").rglob("*.*"))


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    folder = tmp_path_factory.mktemp("full")
    write_samples(folder / "grpo", rungs=True)
    write_samples(folder / "coda", token_factor=0.5, rungs=True)
    write_log(folder / "grpo-train" / "checkpoint-40", gates=False)
    write_log(folder / "coda-train")
    runs = {
        "GRPO": [folder / "grpo", folder / "grpo-train"],
        "CODA <script>": [folder / "coda", folder / "coda-train"],
    }
    return build_report(runs, "GRPO", folder / "report")


@pytest.mark.slow
def test_a_full_report_shows_everything(full):
    content = read_tables(full)
    tables = "accuracy tokens details best_budgets reflection overthinking training"
    assert set(content["tables"]) == {*tables.split(), "difficulty_bands", "difficulty_buckets"}
    figures = "accuracy_against_tokens token_ratio budget_curves gates dynamics evaluation"
    assert set(content["figures"]) == set(figures.split())
    for key in content["tables"]:
        assert all((full.parent / "tables" / f"{key}.{ending}").stat().st_size for ending in ("md", "tex"))
    for key in content["figures"]:
        assert (full.parent / "figures" / f"{key}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (full.parent / "figures" / f"{key}.svg").read_text()
    assert "Not shown" not in full.read_text()


@pytest.mark.slow
def test_samples_with_a_rung_are_split_by_it(full):
    tables = read_tables(full)["tables"]
    assert tables["accuracy"]["columns"] == ["", "b rung 1", "b rung 2", "b rung 3", "Average"]
    assert column(tables["tokens"], "Average", "Δ CODA <script>")["value"] == pytest.approx(-50, abs=1)


@pytest.mark.slow
def test_the_page_needs_no_other_file_and_no_network(full):
    text = full.read_text()
    links = re.findall(r'\b(?:src|href)="([^"]*)"', text)
    assert links and all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in links)
    assert not re.search(r"<(script|link|iframe)\b", text)  # and a run's name does not become markup
    assert "@import" not in text and "url(" not in text


LOOK = """
<iframe width="1280" height="900"></iframe><iframe width="400" height="900"></iframe><script>
const page = PAGE;
const all = (doc, what) => [...doc.querySelectorAll(what)];
onload = () => {
  const looks = all(document, "iframe").map(({contentDocument: doc}) => ({
    beyond: doc.scrollingElement.scrollWidth - doc.scrollingElement.clientWidth,
    clipped: all(doc, ".scroll").filter((area) => area.scrollWidth > area.clientWidth + 1).length,
    scales: all(doc, "img").map((image) => image.clientWidth / image.naturalWidth),
    unreachable: all(doc, ".scroll").filter((area) => area.tabIndex != 0 || !doc.getElementById(
      area.getAttribute("aria-labelledby")).textContent).length,
    tables: all(doc, "table").length,
    captions: all(doc, "table > caption").map((caption) => caption.textContent),
    columns: all(doc, "thead th:not([scope=col])").length,
    rows: all(doc, "tbody tr").filter((row) => !row.querySelector("th[scope=row]")).length,
  }));
  document.body.innerHTML = "<pre></pre>";
  document.querySelector("pre").textContent = JSON.stringify(looks);
};
for (const frame of all(document, "iframe")) frame.srcdoc = page;
</script>
"""
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the path")
@pytest.mark.slow
def test_the_page_fits_a_desk_and_a_phone_in_a_browser(full, tmp_path):
    page = json.dumps(full.read_text()).replace("</", "<\\/")
    (tmp_path / "look.html").write_text(LOOK.replace("PAGE", page))
    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    options += f"--disable-component-update --disable-sync --user-data-dir={tmp_path / 'profile'} --dump-dom"
    command = [BROWSER, *options.split(), (tmp_path / "look.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    desk, phone = json.loads(html.unescape(re.search(r"<pre>(.*)</pre>", shown, re.DOTALL)[1]))
    for look in (desk, phone):
        assert look["beyond"] == 0  # nothing sticks out of the page
        assert look["scales"] and min(look["scales"]) > 0.85  # text of 9 points stays readable
        assert look["unreachable"] == look["columns"] == look["rows"] == 0
        assert len(look["captions"]) == look["tables"] == len(read_tables(full)["tables"])
    assert desk["clipped"] == 0


@pytest.mark.slow
def test_every_number_in_the_pages_tables_is_in_tables_json(full):
    shown = {cell["text"] for table in read_tables(full)["tables"].values() for row in table["rows"] for cell in row}
    numbers = re.findall(r"<td[^>]*>(?:≈ )?([^<]+)<", full.read_text())
    assert len(numbers) > 100 and {html.unescape(entry.strip()) for entry in numbers} - {""} <= shown


@pytest.mark.slow
def test_the_answer_is_given_in_words(full):
    text = full.read_text()
    assert re.search(r"on \d+ easy problems 50% fewer tokens and no change in accuracy beyond noise", text)


def broken(folder, name, text):
    (folder / name).write_text(text)
    return folder


def about(table, run):
    """Rows of a run without the column that tells sortings apart."""
    skip = table["columns"].index("Sorted by") if "Sorted by" in table["columns"] else None
    rows = ([cell for i, cell in enumerate(row) if i != skip] for row in table["rows"])
    return [row for row in rows if any(cell["text"] == run for cell in row)]


def test_a_partial_run_moves_no_number_of_the_others(report):
    runs = {"GRPO": answers(), "CODA": answers(0.5)}
    before, text = report(runs, "GRPO")
    assert "Sorted problems: 20 (20 of b)." in text and "Problems: b (20)." in text
    after, text = report(runs | {"L1@64": answers()[:24]}, "GRPO")  # 6 problems
    for key in ("difficulty_bands", "difficulty_buckets", "best_budgets", "overthinking"):
        assert about(after["tables"][key], "CODA") == about(before["tables"][key], "CODA") != [], key
    assert after["figures"]["token_ratio"]["data"]["CODA"]
    assert "Sorted problems: 20 (20 of b) for GRPO and CODA; 6 (6 of b) for GRPO and L1@64." in text
    assert "Problems: GRPO: b (20); CODA: b (20); L1@64: b (6)." in text
    assert "A Δ rests on fewer pairs of problems than a run has: L1@64 6 in b." in text
    assert text.count("Sorted problems: 20 (20 of b) for GRPO and CODA") == 5  # in every caption that rests on sorting


def test_a_run_of_single_samples_is_measured_but_does_not_sort(report):
    runs = {"A": answers(), "B": answers()[::4]}
    content, text = report(runs, "A")
    assert "difficulty_bands" not in content["tables"]
    assert text.count("at least two samples with a verdict (samples.jsonl) of a problem") == 4
    assert "No problem is easy" not in text  # none could be sorted
    content, _ = report(runs, "A", difficulty_run="A")
    assert len(about(content["tables"]["difficulty_bands"], "B")) == 3


def test_runs_that_sort_can_be_named(report):
    runs = {name: answers() for name in ("start", "GRPO", "CODA")} | {"L1@64": answers()[:24]}
    content, text = report(runs, "GRPO", difficulty_run="start")
    table = content["tables"]["difficulty_bands"]
    assert "Sorted by" not in table["columns"] and len(about(table, "GRPO")) == 3  # one set for all
    pairs = table["columns"].index("Pairs")
    assert [row[pairs]["text"] for row in about(table, "L1@64")] == ["5", "5"]  # of its six, by part
    assert about(table, "CODA")[1][pairs]["value"] > 6
    assert "Problems are sorted by the success rate of start." in text
    assert "No run is judged on the samples that sorted it" in text


def with_texts(samples, budget=None):
    """Every problem with a prompt and a gold answer of its own."""

    def texts(number):
        prompt = f"What is {number} plus 5?" + (f" Think for {budget} tokens." if budget else "")
        return {"prompt": [{"role": "user", "content": prompt}], "solution": str(number + 5)}

    return [each | texts(int(each["problem_id"])) for each in samples]


def test_other_problems_under_the_same_ids_are_refused(report):
    samples = with_texts(answers())
    budgets = with_texts(samples, budget=64)  # worded otherwise, with the same gold answers
    report({"GRPO": samples, "L1": budgets}, "GRPO")
    shuffled = [each | {"problem_id": str((7 * int(each["problem_id"]) + 3) % 20)} for each in samples]
    with pytest.raises(ValueError, match="L1 against GRPO: problem '.*' of 'b' has another prompt or solution"):
        report({"GRPO": samples, "L1": shuffled}, "GRPO")
    samples[1]["solution"] = "other"  # of the second sample of problem 0
    with pytest.raises(ValueError, match="problem '0' in 'b' have the solutions '5' and 'other'"):
        report({"GRPO": budgets, "L1": samples}, "GRPO")


def test_samples_without_a_verdict_are_counted_in_captions(report):
    samples = [each | {"correct": None} if i % 8 == 3 else each for i, each in enumerate(answers())]
    content, text = report({"A": samples})
    assert text.count("Answers without a verdict count only for tokens: A 10.") == 3
    right = np.mean([each["correct"] for each in samples if each["correct"] is not None])  # all are reflective
    assert content["tables"]["reflection"]["rows"][0][-1]["value"] == pytest.approx(100 * right)


def test_a_single_run_is_reported_without_comparisons(report):
    content, text = report({"only": answers()})
    assert content["reference"] is None
    assert not any(row[0]["text"].startswith("Δ") for row in content["tables"]["accuracy"]["rows"])
    assert "difficulty_buckets" not in content["tables"]
    assert "No second run with samples to compare with." in text
    assert "This needs two runs with at least two samples with a verdict" in text
    assert "no training log: no training curves" in text


def test_missing_parts_are_named(tmp_path, report):
    values = {"accuracy": {"value": 0.5, "low": 0.4, "high": 0.6}, "tokens": 70}
    unsure = {"without verdicts": {"accuracy": {"value": None}, "tokens": 9.0}}
    runs = {
        "trained": write_log(tmp_path / "train"),
        "sampled": [{key: each[key] for key in each if key != "prompt"} for each in answers()],
        "summed up": write_summary(tmp_path / "summary", b=values, **unsure),
    }
    content, text = report(runs, "sampled")
    missing, tables = content["missing"], content["tables"]
    assert missing["trained"] == ["no evaluation: no accuracy, no tokens"]
    assert missing["sampled"] == [
        "b: samples without `prompt`, so restatements cannot be counted",
        "no training log: no training curves",
    ]
    assert missing["summed up"][0].startswith("a summary without samples: no intervals")
    assert [row[0]["text"] for row in tables["accuracy"]["rows"]] == ["sampled", "summed up", "Δ summed up"]
    assert "Not evaluated: trained." in text and "Problems are sorted by the run&#39;s own success rate" in text
    assert column(tables["accuracy"], "without verdicts", "summed up")["text"] == "–"
    assert "–: the run lacks the benchmark; an average needs all." in text
    assert column(tables["accuracy"], "b", "summed up") == {"text": "50.0", "value": 50, "low": 40, "high": 60}
    assert column(tables["tokens"], "b", "Δ summed up")["low"] is None  # a summary cannot be paired


def test_only_training_runs(tmp_path, report):
    """Curves come first, and one note says what is missing: five notes used to stand before them."""
    content, text = report({name: write_log(tmp_path / name) for name in "ab"}, "a")
    assert set(content["tables"]) == {"training"}
    assert text.count("Not shown.") == 1
    assert text.index("Training dynamics") < text.index("Make one with coda-evaluate")


def test_unfinished_and_unscorable_samples_are_pointed_out(tmp_path, report):
    samples = answers()[:-1]
    samples[0]["correct"] = None
    content, text = report({"A": broken(write(tmp_path / "a", samples), "summary.json", '{"complete": false}')})
    missing = content["missing"]["A"]
    assert "b: between 3 and 4 samples per problem" in missing
    assert 0 < text.index("<strong>Unfinished.</strong> A: the evaluation in") < text.index("<nav")


@pytest.mark.slow
def test_runs_with_budgets_form_one_curve(tmp_path):
    runs = {"GRPO": write_samples(tmp_path / "grpo")}
    for budget in (64, 128):
        runs[f"L1@{budget}"] = write_samples(tmp_path / str(budget), token_factor=budget / 100)
    page = build_report(runs, "GRPO", tmp_path / "report")
    figure = (page.parent / "figures" / "accuracy_against_tokens.svg").read_text()
    assert "<!-- L1 -->" in figure and "<!-- L1@64 -->" not in figure  # one entry in the legend
    assert set(read_tables(page)["figures"]["accuracy_against_tokens"]["data"]["b"]) == set(runs)


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        ({"benchmarks": {"b": {"accuracy": 0.5}}}, "summary.json, b: `tokens` is missing"),
        ({"b": {"accuracy": 0.5, "tokens": 9}}, "summary.json has no results: write"),
        ([{"benchmark": "b", "accuracy": 0.5, "tokens": 9}], "summary.json has no results: write"),
        ({"benchmarks": {"b": {"accuracy": 92.9, "tokens": 10}}}, "must be a share, 0 to 1: divide percent by 100"),
        ({"benchmarks": {"b": {"accuracy": 0.1, "tokens": -10}}}, "`tokens` is -10, but must be a number from 0"),
    ],
)
def test_a_summary_that_cannot_be_used_is_named(tmp_path, summary, message):
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(ValueError, match=message):
        load_run("A", [tmp_path])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", '{"model": ', "summary.json is damaged (JSONDecodeError("),
        ("trainer_state.json", '{"log_hist', "trainer_state.json is damaged (JSONDecodeError("),
        ("trainer_state.json", "[1]", "trainer_state.json is damaged (TypeError("),
        ("trainer_state.json", '{"log_history": [{"loss": 1}]}', "trainer_state.json is damaged (KeyError('step'))"),
    ],
)
def test_good_samples_are_shown_beside_a_damaged_file(tmp_path, report, name, content, message):
    shown, _ = report({"A": broken(write_samples(tmp_path / "a"), name, content)})
    assert any(message in sentence for sentence in shown["missing"]["A"])
    assert column(shown["tables"]["accuracy"], "b", "A")["value"] > 0
    (tmp_path / "alone").mkdir()
    with pytest.raises(ValueError, match=re.escape(message)):
        load_run("A", [broken(tmp_path / "alone", name, content)])


@pytest.mark.parametrize("prompt", [7, [], [7], [{"role": "user"}], {"text": "x"}, [{"content": [{"type": "text"}]}]])
def test_samples_with_a_prompt_that_is_no_text_are_shown(report, prompt):
    content, _ = report({"A": [each | {"prompt": prompt} for each in answers()]})
    assert any("restatements cannot be counted" in sentence for sentence in content["missing"]["A"])


@pytest.mark.filterwarnings("error")
@pytest.mark.slow
def test_answers_and_references_of_no_tokens_are_shown(tmp_path, request):
    runs = {"none": write_samples(tmp_path / "a", token_factor=0), "some": write_samples(tmp_path / "b")}
    for reference in runs:
        tables = read_tables(build_report(runs, reference, tmp_path / "report"))["tables"]
        request.getfixturevalue("undrawn")
        assert column(tables["tokens"], "b", "none")["text"] == "0.0"
    assert column(tables["tokens"], "b", "Δ none")["text"] == "−100%"
    summaries = {
        name: write_summary(tmp_path / f"{name}-sum", b={"accuracy": 0.5, "tokens": spent})
        for name, spent in (("none", 0), ("some", 9))
    }
    tables = read_tables(build_report(summaries, "none", tmp_path / "report"))["tables"]
    assert column(tables["tokens"], "b", "Δ some")["text"] == "–"  # no number is so many percent of none


def test_a_benchmark_may_be_called_average(report):
    content, _ = report({"A": answers(benchmark="Average") + answers(benchmark="other")})
    assert content["tables"]["accuracy"]["columns"] == ["", "Average", "other", "Average of all"]


@pytest.mark.slow
def test_a_second_report_leaves_nothing_of_the_first(tmp_path):
    mine = tmp_path / "page" / "figures" / "mine.png"
    full_run = write_log(write_samples(tmp_path / "a", problems=8))
    page = build_report({"A": full_run}, None, tmp_path / "page")
    mine.write_text("kept")
    assert "are in tables.json" in page.read_text() and (page.parent / "figures" / "gates.pdf").exists()
    build_report({"A": write_log(tmp_path / "b")}, None, page.parent)
    left = {path.relative_to(page.parent).as_posix() for path in page.parent.rglob("*") if path.is_file()}
    drawn = {
        f"figures/{key}.{ending}" for key in ("gates", "dynamics", "evaluation") for ending in ("svg", "png", "pdf")
    }
    kept = {"index.html", "tables.json", "figures/mine.png", "tables/training.md", "tables/training.tex"}
    assert left == kept | drawn


def run_command(monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["report.py", *arguments.split()])
    runpy.run_path(str(ROOT / "recipes" / "report.py"), run_name="__main__")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("gone", "error: run 'gone': there is no folder gone: check the path"),
        ("empty", "error: run 'empty': empty holds neither samples.jsonl nor summary.json (an evaluation) nor"),
        (".", "trainer_state.json (a training run): name those in it (begun, damaged, log, run, twice)"),
        ("log --out site", "error: site/index.html is no report, and would be overwritten: choose another `out`"),
        ("begun", "run 'begun': the evaluation in begun has no answers yet"),  # that was refused, or has just begun
        ("A=damaged --reference B", "error: reference='B' is not among the runs: A"),  # before samples are read
        ("A=damaged B=gone", "error: run 'B': there is no folder gone: check the path"),
        ("A=log --out log/trainer_state.json", "File exists: 'log/trainer_state.json'"),
        ("A=log A=log", "two of its folders hold a training log"),
        ("A=run A=run", "two of its folders hold samples of b"),
        ("A=run B=log --difficulty_run B", "difficulty_run='B' has no samples"),
        ("A=twice", "sample 0 of problem '0' in 'b' is there twice"),
        ("A@seed-0=run A@seed-1=run B@seed-2=log", "error: no seed is in all runs (A: 0, 1; B: 2): name seeds alike"),
        ("A@seed0=run A@seed1=run", "run 'A@seed0': a seed is the end of a name, spelled NAME@seed-SEED"),
        ("A@Seed-0=run", "run 'A@Seed-0': a seed is the end"),
        ("A@seed-0/B=run", "run 'A@seed-0/B': a seed is the end"),
        ("A@seed-0@checkpoint-5=run", "run 'A@seed-0@checkpoint-5': a seed is the end"),
        ("4B/A=run 8B/A@seed-0=run 8B/B@seed-1=run", "error: model '8B': no seed is in all runs"),
        ("A=log A@seed-0=run", "run 'A' of seed '0' is given with and without its seed"),
        ("A=log --group AIME", "error: --group 'AIME': give a name and its benchmarks, such as AIME=aime24,aime25"),
    ],
)
def test_what_the_command_cannot_do_is_one_line(tmp_path, monkeypatch, arguments, message):
    for name in ("empty", "site"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    write(tmp_path / "begun", [])
    write_log(tmp_path / "log")
    write_samples(tmp_path / "run")
    write(tmp_path / "twice", answers() + answers()[:1])
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "samples.jsonl").write_text("damaged\n" * 2)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run_command(monkeypatch, arguments)
    assert message in ended.value.code and "\n" not in ended.value.code


def test_the_best_budget_is_drawn_at_its_price():
    """Each budget is the best from its own price down to the next one's; it was drawn one interval lower."""
    tokens, correct = np.array([20, 80, 80, 80]), np.array([1.0, 1.0, 0.0, 0.0])
    curve = budget_curve(np.zeros(4, dtype=int), correct, tokens)
    moves = best_budgets(curve)
    axis = Figure().subplots()
    draw_best_budgets(axis, moves)
    (line,) = axis.lines
    assert line.get_drawstyle() == "steps-pre" and len(moves) == 2
    x, y = line.get_xdata() / 100_000, line.get_ydata()  # in points per 1,000 tokens
    for price in (2 * moves[0][0], *(0.9 * price for price, _ in moves)):
        (shown,) = (y[i] for i in range(1, len(x)) if x[i] <= price < x[i - 1])
        assert shown == best_budget(curve, price)


def test_texts_are_not_kept_in_memory(tmp_path):
    path = tmp_path / "samples.jsonl"
    write_lines(path, [sample(i, sample=0, completion="word " * 10_000) for i in range(100)])  # 5 MB
    tracemalloc.start()
    load_samples(path, "rung", COUNTS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


def test_what_the_trainer_logs_is_shown(tiny_model, tmp_path, report):
    sets = {"easy_rungs": PROMPTS.select(range(4)), "hard": PROMPTS.select(range(4))}
    settings = {
        "coda_tau_easy": 0.9,
        "eval_strategy": "steps",
        "eval_steps": 1,
        "save_strategy": "steps",
        "save_steps": 2,
    }
    trainer = train(tiny_model, tmp_path / "run", odd, PROMPTS, eval_dataset=sets, max_steps=2, **settings)
    check_settings(tmp_path / "run", fixed_settings(trainer.args), resumes=False)  # as `coda-train`
    content, _ = report({"GRPO": answers(), "run": [write_samples(tmp_path / "coda"), tmp_path / "run"]}, "GRPO")
    bands = content["tables"]["difficulty_bands"]["rows"]
    assert {row[0]["text"] for row in bands} == {"easy (success ≥ 90%)", "medium", "hard (success ≤ 25%)"}
    figures = content["figures"]
    assert set(figures["gates"]["data"]) == {"easy gate w_easy", "hard gate w_hard"}
    shown = ["base reward", "easy penalty", "hard bonus", "completion length (tokens)"]
    assert list(figures["dynamics"]["data"]) == shown
    assert set(figures["evaluation"]["data"]) == {
        f"{name}: {quantity}" for name in sets for quantity in ("reward", "completion length (tokens)")
    }
    assert figures["evaluation"]["data"]["hard: reward"]["run"]["steps"] == [1, 2]


def test_the_report_says_where_its_thresholds_are_from(tmp_path, report):
    settings, own = write_log(tmp_path / "log") / "settings.json", {"coda_tau_easy": 0.9, "coda_tau_hard": 0.1}
    pair = {"GRPO": answers(), "CODA": [write_samples(tmp_path / "coda"), tmp_path / "log"]}
    for found, runs, said in (
        ({"lr": 1}, pair, "the defaults, as no settings.json sets others."),  # of another script
        (own, pair, "those of the training of CODA."),
        (own, pair | {"VLP": answers()}, "those of the training of CODA, elsewhere the defaults."),
    ):
        settings.write_text(json.dumps(found))
        assert f"Thresholds are {said}" in report(runs, "GRPO")[1]


def test_numbers_are_rounded_for_reading_and_kept_for_counting():
    cell = number(0.123456, scale=100, digits=1)
    assert (cell.text, cell.value) == ("12.3", pytest.approx(12.3456))
    assert number(-0.04, digits=1, signed=True).text == "0.0"
    assert number(float("nan")).text == "–"
    assert [tokens(value).text for value in (8.25, 123.4)] == ["8.3", "123"]


@pytest.mark.parametrize(
    ("low", "high", "better", "tone"),
    [
        (0.1, 2, True, "better"),
        (0.1, 2, False, "worse"),
        (-0.1, 2, True, "noise"),
        (0.1, 2, None, ""),
        (None, None, True, ""),
    ],
)
def test_the_tone_of_a_difference(low, high, better, tone):
    assert difference(Estimate(1.0, low, high), higher_is_better=better).tone == tone


def test_an_interval_close_to_0_is_not_said_to_hold_it():
    """The sentence said "−8.1 to 0.0" above a table with [−8.05, −0.03]."""
    words = in_words(difference(Estimate(-4.0, -8.05, -0.03)), difference(Estimate(-30.0, -34.0, -25.0), 0, "%"))
    assert words == "30% fewer tokens and accuracy −4.0 points, 95% interval −8.05 to −0.03"


def test_the_main_results_may_have_intervals(tmp_path, report):
    runs, path = {"GRPO": answers(), "CODA": answers(0.5)}, tmp_path / "report" / "tables" / "main_results.tex"
    report(runs, "GRPO")
    tex = path.read_text()
    assert r"\tiny" not in tex and r"\approx" not in tex and tex.count(r"\begin{tabular}") == 1
    tables = report(runs, "GRPO", intervals=True)[0]["tables"]
    details = dict(zip(tables["details"]["columns"], tables["details"]["rows"][0], strict=True))
    assert details["pass@1"] == column(tables["accuracy"], "b", "GRPO")  # on the same resamples
    tex = path.read_text()
    assert tex.count(r"\tiny [") == 6 and r"$\approx$ 0.0" in tex and tex.count(r"\begin{tabular}") == 2


def test_benchmarks_are_chosen_and_grouped(tmp_path, report):
    runs = {}
    for name, factor in (("GRPO", 1), ("CODA", 0.5)):
        runs[name] = sum((answers(factor, benchmark=benchmark) for benchmark in ("aime24", "aime25", "x")), start=[])
    values = {name: {"accuracy": 0.25, "tokens": spent} for name, spent in (("aime24", 10), ("aime25", 20), ("x", 1))}
    runs["summed up"] = write_summary(tmp_path / "summary", **values)
    groups = {"AIME": ["aime24", "aime25"]}
    content, _ = report(runs, "GRPO", groups=groups, benchmarks=["aime24", "aime25"])
    assert content["tables"]["accuracy"]["columns"] == ["", "aime24", "aime25", "Average"]
    drawn = content["figures"]["accuracy_against_tokens"]["data"]
    assert set(drawn) == {"AIME"} and drawn["AIME"]["summed up"]["tokens"]["value"] == 15
    rows = content["tables"]["reflection"]["rows"]
    shown = [[cell["text"] for cell in row[:4]] for row in rows[:2]]
    assert shown == [["AIME", "GRPO", "40", "160"], ["AIME", "CODA", "40", "160"]]
    for wrong, message in (
        ({"benchmarks": ["aime26"]}, "benchmarks has 'aime26', on which no run was evaluated; leave it out"),
        ({"groups": {"AIME": ["aime26"]}}, "group 'AIME' has 'aime26', on which no run was evaluated; shown"),
        ({"groups": {"aime24": ["aime25"]}}, "group 'aime24' has the name of a benchmark that is not in it"),
        ({"change_of": "VLP"}, "change_of='VLP' is not among the runs: GRPO, CODA, summed up"),
    ):
        with pytest.raises(ValueError, match=message):
            report(runs, "GRPO", **wrong)


def test_checkpoints_are_shown_over_their_steps(tmp_path, report):
    last = [write_samples(tmp_path / "coda", 0.5), write_log(tmp_path / "log")]  # of 40 steps
    runs = {"GRPO": answers(), "CODA": last}
    checkpoints = {f"CODA@checkpoint-{step}": answers(factor) for step, factor in ((20, 0.75), (0, 1))}
    content, _ = report(runs | checkpoints, "GRPO")
    course = content["figures"]["checkpoints"]["data"]["b"]["CODA"]
    assert course["steps"] == [0, 20, 40]
    assert [point["value"] for point in course["tokens"]] == pytest.approx([61, 45.75, 30.5], abs=0.5)
    assert [row[1]["text"] for row in content["tables"]["checkpoints"]["rows"]] == ["0", "20", "40"]
    assert [row[0]["text"] for row in content["tables"]["accuracy"]["rows"]] == ["GRPO", "CODA", "Δ CODA"]
    alone, _ = report(checkpoints)
    assert set(alone["tables"]) == {"checkpoints"}


def solved(right, tokens):
    """Two samples of each of eight problems, of which the first `right` are solved."""
    return [sample(i, correct=i < right, tokens=tokens, sample=k) for i in range(8) for k in range(2)]


def test_seeds_are_averaged_and_their_differences_paired(tmp_path, report):
    runs = {"start": solved(1, 80)}
    for seed, right, spent, fewer in ((0, 4, 100, 50), (1, 6, 110, 44), (2, 2, 120, 60)):
        log = write_log(tmp_path / f"log-{seed}") / "trainer_state.json"
        history = json.loads(log.read_text())["log_history"][seed:]  # of which the last seed lacks the first steps
        history = [entry | {"completions/mean_length": 10.0 * seed} for entry in history]
        log.write_text(json.dumps({"log_history": history}))
        runs[f"GRPO@seed-{seed}"] = solved(right, spent)
        runs[f"CODA@seed-{seed}"] = [write(tmp_path / f"coda-{seed}", solved(right + 1, fewer)), log.parent]
    content, text = report(runs, "GRPO", intervals=True)
    tables, t = content["tables"], 4.302653 / 3**0.5  # of three seeds
    for key, row, value, spread in (
        ("accuracy", "Δ start", -37.5, 25),
        ("tokens", "GRPO", 110, 10),
        ("tokens", "Δ CODA", -160 / 3, 10 / 3**0.5),
    ):
        found = column(tables[key], "b", row)
        ends = [value, value - t * spread, value + t * spread]
        assert [found["value"], found["low"], found["high"]] == pytest.approx(ends, rel=1e-5), row
    share = column(tables["accuracy"], "b", "GRPO")
    assert (share["value"], share["low"], share["high"]) == (50, 0, 100)  # not 112
    assert [row[0]["text"] for row in tables["tokens"]["rows"]] == ["start", "GRPO", "CODA", "Δ start", "Δ CODA"]
    assert column(tables["tokens"], "b", "start") == {"text": "80", "value": 80, "low": 80, "high": 80}
    counts = tables["details"]["columns"].index("Problems")
    assert {row[counts]["text"] for row in tables["details"]["rows"]} == {"8"}
    lengths = content["figures"]["dynamics"]["data"]["completion length (tokens)"]["CODA"]
    assert (lengths["steps"], lengths["values"]) == (list(range(3, 41)), [10.0] * 38)
    assert [seed["steps"][0] for seed in lengths["seeds"]] == [1, 2, 3]
    assert "CODA against GRPO: on " in text and "Means over 3 seeds (0, 1, 2)" in text
    assert "over trainings" not in text and ". ." not in text
    drawn = content["figures"]["accuracy_against_tokens"]["data"]["b"]["GRPO"]["tokens"]
    assert drawn == {name: column(tables["tokens"], "b", "GRPO")[name] for name in ("value", "low", "high")}
    curves = {"dynamics", "gates", "regimes", "evaluation"} & content["figures"].keys()
    assert curves and text.count("Pale curves are single seeds.") == len(curves), "and not beneath tables and bars"
    assert "<h3>start</h3>" in text and "<h3>CODA@seed-2</h3>" in text
    tex = (tmp_path / "report" / "tables" / "main_results.tex").read_text()
    assert "means over 3 seeds" in tex and r"95\% intervals over seeds" in tex


def test_seeds_may_have_other_problems(report):
    """Buckets were averaged by their place: those of few problems begin with another."""
    runs = {f"{name}@seed-{seed}": answers() for name in ("GRPO", "CODA") for seed in range(2)}
    content, text = report(runs | {"CODA@seed-1": answers()[:16]}, "GRPO")
    drawn = content["figures"]["token_ratio"]["data"]["CODA"]
    shown = [row[0]["text"] for row in content["tables"]["difficulty_buckets"]["rows"]]
    assert [bucket["name"] for bucket in drawn] == shown and "0–10%" not in shown
    assert "Not in every seed: 0–10% CODA" in text
    assert "A Δ rests on fewer pairs of problems than a run has: CODA@seed-1 4 in b." in text
    _, text = report({"GRPO": answers()[:16], "CODA": answers()[:16]}, "GRPO")
    assert "Not in every seed" not in text


def test_runs_with_other_seeds_are_compared_over_those_that_both_have(report):
    runs = {f"GRPO@seed-{seed}": solved(4, spent) for seed, spent in enumerate((100, 240, 300))}
    runs |= {f"CODA@seed-{seed}": solved(4, spent) for seed, spent in ((2, 150), (0, 80))}
    content, text = report(runs, "GRPO")
    tokens = content["tables"]["tokens"]
    assert [column(tokens, "b", run)["value"] for run in ("GRPO", "CODA")] == pytest.approx([640 / 3, 115])
    change = column(tokens, "b", "Δ CODA")
    assert [change["value"], change["high"] - change["value"]] == pytest.approx([-35, 12.706205 * 15], rel=1e-5)
    bands = content["tables"]["difficulty_bands"]
    assert bands["rows"][0][bands["columns"].index("Tokens")]["value"] == 200  # of seeds 0 and 2
    assert "Means over seeds (GRPO: 0, 1, 2; CODA: 2, 0)" in text
    assert "Differences, and numbers by difficulty, rest on the seeds that the runs have in common." in text


def test_checkpoints_and_budget_curves_are_means_over_seeds(report):
    runs = {f"A@checkpoint-{step}@seed-{seed}": solved(2, 9 + step + seed) for step in (1, 2) for seed in (0, 2)}
    content, _ = report(runs | {f"A@seed-{seed}": solved(4, 10 + 10 * seed) for seed in (0, 2)})
    course = content["figures"]["checkpoints"]["data"]["b"]["A"]
    assert course["steps"] == [1, 2] and [point["value"] for point in course["tokens"]] == [11, 12]
    best = content["tables"]["best_budgets"]
    easy = dict(zip(best["columns"], best["rows"][0], strict=True))
    moves = content["figures"]["budget_curves"]["data"]["easy"]["A"]["best_budgets"]
    assert [move["budget"] for move in moves] == [10, 30]  # half of the answers end at either
    budget = next(cell for name, cell in easy.items() if name.startswith("n* at"))
    assert (easy["Pr (%)"]["value"], budget["value"], budget["low"]) == (100, 5, None)  # 10 and 0 tokens


def test_curves_that_only_some_seeds_logged_are_left_out(tmp_path, report):
    logs = {seed: write_log(tmp_path / seed, gates=seed == "0") for seed in "01"}
    figures = report({f"A@seed-{seed}": folder for seed, folder in logs.items()})[0]["figures"]
    assert "gates" not in figures and figures["dynamics"]["data"]["base reward"]["A"]["seeds"]
    samples = write(tmp_path / "samples", solved(4, 9))
    content, _ = report({"A@seed-0": [samples, logs["0"]], "A@seed-1": solved(4, 9)})
    assert set(content["tables"]) >= {"accuracy"} and "training" not in content["tables"]


def test_bands_and_problems_of_only_some_seeds_are_named(report):
    runs = {"A@seed-0": solved(8, 9), "A@seed-1": solved(4, 9), "A@seed-2": solved(8, 9)[:12]}
    content, text = report(runs)
    assert "Sorted problems: 8 (8 of b) or 6 (6 of b). Not in every seed: hard of A." in text
    assert "Problems: b (8) or b (6)." in text
    assert {row[0]["text"] for row in content["tables"]["difficulty_bands"]["rows"]} == {"easy (success ≥ 75%)"}


def test_runs_that_sort_set_the_seeds_of_all(report):
    runs = {f"GRPO@seed-{seed}": solved(4, spent) for seed, spent in enumerate((100, 240, 300))}
    runs |= {f"CODA@seed-{seed}": solved(4, 80) for seed in (0, 2)} | {"start": solved(5, 50)}
    bands = report(runs, "GRPO", difficulty_run="start")[0]["tables"]["difficulty_bands"]
    assert [column(bands, "Tokens", bands["rows"][0][0]["text"])["value"]] == [200]
    assert "Sorted by" not in bands["columns"]


def test_a_model_of_one_seed_beside_one_of_several_counts_as_one(tmp_path, report):
    runs = {f"4B/A@seed-{seed}": solved(4 + seed, 9) for seed in range(2)} | {"8B/A": solved(4, 9)}
    report(runs, None)
    assert "means over 2 and 1 seeds." in (tmp_path / "report" / "tables" / "main_results.tex").read_text()
    tables = [path.read_text() for path in (tmp_path / "report").rglob("*.tex")]
    labels = re.findall(r"\\label{(.*)}", "".join(tables))
    assert len(set(labels)) == len(labels) > 9 and "tab:4B-main_results" in labels  # they may be in one document


def test_seeds_that_agree_by_chance_have_an_interval_over_problems(report):
    """Two seeds of one accuracy had an interval without width, and a difference beyond noise."""
    halves = [sample(i, correct=k == 0, tokens=9, sample=k) for i in range(8) for k in range(2)]
    runs = {"A@seed-0": solved(4, 9), "A@seed-1": halves}
    content, _ = report(runs | {"start": solved(5, 9)}, "start")
    for row in ("A", "Δ A"):
        found = column(content["tables"]["accuracy"], "b", row)
        assert found["low"] < found["value"] < found["high"], row


def test_seeds_that_agree_but_for_rounding_have_no_interval_without_problems_enough():
    cell = percent(average([Estimate(1.0), Estimate(1 - 2e-16)]))
    assert (cell.text, cell.interval) == ("100.0", "")


def test_seeds_with_other_benchmarks_show_no_answer_of_one_seed(report):
    """The first seed's sentence stood on a page of means."""
    runs = {f"{name}@seed-{seed}": answers() for name in ("GRPO", "CODA") for seed in range(2)}
    runs["GRPO@seed-1"] = [one | {"benchmark": "other"} for one in answers()]
    content, text = report(runs, "GRPO")
    assert "No second run with samples to compare with." in text and "CODA against GRPO: on " not in text
    assert "b: only in other seeds, so in no mean" in content["missing"]["GRPO@seed-1"]
    assert "Not evaluated: GRPO." in text


def test_markdown_and_latex_escape_what_they_must():
    table = Table(
        "key", "Title", "100% of $x_1$", ["a|b", "Δ & λ"], [[Cell("x_y"), Cell("−1%", "−2, 0", tone="noise")]]
    )
    assert "| a\\|b | Δ & λ |" in markdown(table)
    assert "| x_y | ≈\xa0−1% [−2,\xa00] |" in markdown(table), "a line breaks before the interval, not in it"
    tex = latex(table)
    assert r"a\textbar{}b & $\Delta$ \& $\lambda$ \\" in tex
    assert r"x\_y & $\approx$ $-$1\% {\scriptsize [$-$2, 0]} \\" in tex
    assert r"\caption{100\% of \$x\_1\$}" in tex
    tex = latex(Table("key", "Title", "CODA α 0.4", ["<20%", "τ→1"], [[Cell("λ"), Cell("≠")]]))
    assert all(character.isascii() for character in tex), "pdflatex stops at a Greek letter, and prints < as ¡"
    assert r"\caption{CODA $\alpha$ 0.4}" in tex and r"$<$20\% & $\tau$$\to$1 \\" in tex and r"$\lambda$ &" in tex


def test_the_command_line_joins_folders_of_one_name(tmp_path, monkeypatch, capsys, undrawn):
    write_samples(tmp_path / "GRPO")
    write_samples(tmp_path / "eval", token_factor=0.5)
    write_log(tmp_path / "train")
    monkeypatch.chdir(tmp_path)
    run_command(monkeypatch, "GRPO CODA=eval CODA=train --reference GRPO --out report")
    page = (tmp_path / "report" / "index.html").as_uri()
    assert f"Report: {page}" in capsys.readouterr().out
    content = json.loads((tmp_path / "report" / "tables.json").read_text())
    assert content["missing"]["CODA"] == []
    assert "gates" in content["figures"]
    (tmp_path / "train").rename(tmp_path / "seed=1")
    run_command(monkeypatch, "seed=1")
    assert f"Report, in place of the earlier one: {page}" in capsys.readouterr().out
