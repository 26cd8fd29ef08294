"""Writes the recipes, launch files and scripts that come with the package into a folder.

coda-recipes [FOLDER]
"""

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from .commands import command
from .ladder import CHECKPOINT

_PACKAGE = Path(__file__).parent
# In an installed package they lie inside it, in a clone beside it.
RECIPES = next(folder for folder in (_PACKAGE / "recipes", _PACKAGE.parent / "recipes") if folder.is_dir())


def copy_recipes(folder: Path) -> None:
    """Copies the folder `recipes` to one that must not exist, with the path of the installed ladder checkpoint."""
    shutil.copytree(RECIPES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.glob("ladder/*.yaml"):
        path.write_text(path.read_text().replace("coda_trl/ladder/checkpoint", CHECKPOINT))


@command
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default="recipes", help="New folder (default: %(default)s).")
    folder = parser.parse_args().folder
    try:
        copy_recipes(folder)
    except FileExistsError:
        sys.exit(f"error: {folder} exists: use the recipes in it, or name another folder")
    except OSError as problem:
        sys.exit(f"error: {problem}: name a folder that you may write")
    print(f"Recipes are in {folder}. To start: coda-train --config {shlex.quote(f'{folder}/ladder/coda.yaml')}")


if __name__ == "__main__":
    main()
