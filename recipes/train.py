"""Trains a model with a recipe: `coda_trl/train.py`, for `accelerate launch` in a clone.

accelerate launch --config_file recipes/accelerate/zero3.yaml recipes/train.py --config recipes/qwen3-8b/coda.yaml
python recipes/train.py --config recipes/qwen3-8b/coda.yaml --dry_run
"""

import sys

from coda_trl.train import main

if __name__ == "__main__":  # vLLM's processes import this file
    sys.exit(main())
