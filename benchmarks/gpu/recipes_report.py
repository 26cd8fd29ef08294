"""What a run of `recipes.py` comes to: its steps by kind, and a table."""

import statistics

from rich.console import Console
from rich.table import Table

from coda_trl.dry_run.memory import GIB

GENERATION = ("rollout", "weight transfer")  # phases in which vLLM's share counts


def summarise(result: dict) -> list[dict]:
    """
    One row a kind of step: the slowest process counts, and of several steps of a kind the median. The first step of
    all is left out where there is another of its kind.
    """
    rows = []
    ranks = result["ranks"]
    done = min((len(rank["steps"]) for rank in ranks), default=0)
    kinds = [step["kind"] for step in ranks[0]["steps"][:done]] if ranks else []
    for kind in dict.fromkeys(kinds):
        chosen = [number for number, other in enumerate(kinds) if other == kind]
        timed = chosen[1:] if chosen[0] == 0 and len(chosen) > 1 else chosen
        phases = {
            phase: statistics.median(
                max(rank["steps"][number]["phases"][phase]["seconds"] for rank in ranks) for number in timed
            )
            for phase in ranks[0]["steps"][timed[0]]["phases"]
            if phase != "between"
        }
        tokens = statistics.median(
            sum(
                sum(s["lengths"]) + s["prompt_length"] * len(s["lengths"])
                for s in (rank["steps"][n] for rank in ranks)
            )
            for n in timed
        )
        generated = statistics.median(sum(rank["steps"][n]["generated_tokens"] for rank in ranks) for n in timed)
        update = sum(seconds for phase, seconds in phases.items() if phase not in GENERATION)
        per_micro_batch = (update - phases["optimizer"]) / result["micro_batches"]
        step = per_micro_batch * result["recipe_micro_batches"] + phases["optimizer"]
        peaks = [
            {
                phase: {
                    key: max(rank["steps"][n]["phases"][phase].get(key, 0) for n in chosen)
                    for key in ("allocated", "reserved", "card")
                }
                for phase in phases
            }
            for rank in ranks
        ]
        rows.append(
            {
                "kind": kind,
                "steps": len(timed),
                "seconds": phases,
                "tokens": tokens,
                "update_tokens_per_second": tokens / update,
                "rollout_tokens_per_second": generated / phases["rollout"] if generated else None,
                "peaks": peaks,
                "update_hours": step * result["recipe_steps"] / 3600,
            }
        )
    return rows


def print_result(console: Console, result: dict) -> None:
    """The table of a run, and how far the estimate of its memory is off."""
    title = f"{result['recipe']} on {result['processes']} ({result['sharding']}), rollouts {result['rollouts']}"
    if "server" in result:
        title += f", {result['server']['cards']} more serve"
    console.rule(title)
    if result["error"]:
        console.print(f"{result['error']}\n{result['log']}", markup=False)
    if not result["rows"]:
        return
    table = Table(
        "Steps", "Phase", title="Seconds of the slowest process, peak memory of each in GiB", title_justify="left"
    )
    for heading in ("seconds", "allocated", "reserved", "card"):
        table.add_column(heading, justify="right")
    for row in result["rows"]:
        for phase, seconds in row["seconds"].items():
            memory = [
                " ".join(f"{peaks[phase][key] / GIB:.1f}" for peaks in row["peaks"])
                for key in ("allocated", "reserved", "card")
            ]
            table.add_row(row["kind"], phase, f"{seconds:.2f}", *memory)
        table.add_section()
    console.print(table)
    for row in result["rows"]:
        generated = row["rollout_tokens_per_second"]
        console.print(
            f"{row['kind']}: {row['update_tokens_per_second']:,.0f} tokens/s in the update"
            + (f", {generated:,.0f} in the rollout" if generated else "")
            + f"; {result['recipe_steps']} steps of {result['recipe_micro_batches']} micro-batches take "
            f"{row['update_hours']:.1f} h without rollouts at this speed"
        )
    print_peak(console, result, "training", "Backward pass")
    if result["rollouts"] == "generated" and "server" not in result:  # beside a server nothing but the state counts
        print_peak(console, result, "generation", "Generation")
    if "server" in result and result["server"]["card_peaks"]:  # none on a CPU
        peaks = " ".join(f"{peak / GIB:.1f}" for peak in result["server"]["card_peaks"])
        console.print(f"Cards of the server: {peaks} GiB measured")


def peak_memory(peaks: list[dict], moment: str) -> tuple[int, int]:
    """
    Memory of the fullest card: what had to fit, and what PyTorch held besides for later.

    What CUDA, NCCL and vLLM take is what a card shows beyond PyTorch's memory. It is the same on every card; where one
    shows more, other programs run there.

    Args:
        peaks (`list[dict]`):
            Of each process, bytes that were `allocated`, `reserved` and in use on the `card`, by phase.
        moment (`str`):
            `"generation"` or `"training"`.
    """
    needed, held = 0, 0
    for phase in peaks[0]:
        if (phase in GENERATION) == (moment == "generation"):
            besides = min(process[phase]["card"] - process[phase]["reserved"] for process in peaks)
            needed = max(needed, besides + max(process[phase]["allocated"] for process in peaks))
            held = max(held, besides + max(process[phase]["reserved"] for process in peaks))
    return needed, held


def print_peak(console: Console, result: dict, moment: str, title: str) -> None:
    """Memory of the fullest card in generation or training, beside the estimate."""
    if result["rows"][0]["peaks"][0]["rollout"]["card"]:  # 0 without a GPU
        needed, held = map(max, zip(*(peak_memory(row["peaks"], moment) for row in result["rows"]), strict=True))
        estimate = result["estimate"][f"{moment}_peak"]
        difference = f"{estimate / needed - 1:+.0%}"
        console.print(
            f"{title}: {needed / GIB:.1f} GiB measured, {estimate / GIB:.1f} estimated ({difference}); "
            f"{held / GIB:.1f} with what PyTorch keeps for later"
        )
