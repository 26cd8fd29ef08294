"""Evaluates a model on benchmarks: `coda_trl/evaluate.py`.

python recipes/evaluate.py --model_name_or_path MODEL --benchmarks svamp gsm8k math500 --output_dir runs/coda-eval
"""

from coda_trl.evaluate import main

if __name__ == "__main__":  # vLLM's processes import this file
    main()
