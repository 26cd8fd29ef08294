"""Runs the notebooks from the top and stores them with their outputs, without what differs from run to run.

python notebooks/execute.py [NOTEBOOK ...]       # run, and write the outputs into the notebooks
python notebooks/execute.py --smoke              # run in smoke mode, write nothing: do they work?

Notebooks that ask for a GPU are run only where there is one; elsewhere they are stored without outputs. Each runs in
an empty folder of its own.
"""

import argparse
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from tqdm import tqdm

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))
# Tag of cells whose output is not stored: progress tables, widgets.
NO_OUTPUT = "no-output"


def execute(path: Path, smoke: bool, timeout: int = 1800) -> NotebookNode:
    """
    Runs a notebook in an empty folder, and returns it with its outputs. With `smoke` it runs small and offline, with
    the ladder in place of larger models and data. A cell that fails, or takes `timeout` seconds, raises.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources=resources)
        return client.execute(env=os.environ | {"CODA_TRL_SMOKE": "1" if smoke else "0"})


def strip(notebook: NotebookNode, keep_outputs: bool = True) -> NotebookNode:
    """Removes, in place, what makes a diff unreadable: counters, times, widget states, progress bars and warnings."""
    kept = {key: value for key, value in notebook.metadata.items() if key in ("accelerator", "colab")}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = NotebookNode(kept, kernelspec=kernel, language_info={"name": "python"})
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = NotebookNode({"tags": tags} if tags else {})
        if cell.cell_type != "code":
            continue
        cell.execution_count = None
        keep = keep_outputs and NO_OUTPUT not in tags
        cell.outputs = [output for output in cell.outputs if keep and output.get("name") != "stderr"]
        for output in cell.outputs:
            if "metadata" in output:
                output.metadata = NotebookNode()
            if "execution_count" in output:
                output.execution_count = None
    return notebook


def needs_gpu(notebook: NotebookNode) -> bool:
    """Whether the notebook asks for a GPU, in the way Colab knows."""
    return notebook.metadata.get("accelerator") == "GPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, default=NOTEBOOKS, help="Notebooks (default: all).")
    parser.add_argument("--smoke", action="store_true", help="Run small and offline, and write nothing.")
    args = parser.parse_args()
    import torch

    for path in (progress := tqdm(args.notebooks, unit="notebook")):
        progress.set_postfix_str(path.name)
        if args.smoke:
            execute(path, smoke=True)
            continue
        notebook = nbformat.read(path, as_version=4)
        runs_here = torch.cuda.is_available() or not needs_gpu(notebook)
        notebook = execute(path, smoke=False) if runs_here else notebook
        nbformat.write(strip(notebook, keep_outputs=runs_here), path)


if __name__ == "__main__":
    main()
