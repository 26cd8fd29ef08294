"""Writes a report on one or more runs: `coda_trl/report`.

python recipes/report.py GRPO=runs/grpo CODA=runs/coda CODA=runs/coda-eval --reference GRPO --out report
"""

from coda_trl.report.__main__ import main

if __name__ == "__main__":
    main()
