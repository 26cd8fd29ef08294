"""The README with addresses in place of paths, for an index page. All else is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

PLACE = "https://github.com/coda-trl/coda-trl/{}/main/"
text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{PLACE.format('raw')}", text)
text = re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)", rf"\1{PLACE.format('blob')}", text)
setup(long_description=text, long_description_content_type="text/markdown")
