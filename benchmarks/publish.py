"""Writes what the recorded results say into docs/results.md and the README, so that no figure is ever typed.

python benchmarks/publish.py            # rewrite both
python benchmarks/publish.py --check    # fail if they differ from the recorded results (the tests do this)

What is said of a benchmark is in its own module, *_page.py; here is what goes on which page, in which order.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from agreement_page import agreement_section, agreement_text
from claims_page import claim_rows, claims_summary
from core_page import core_section, core_text, lemma_section
from enumeration_page import enumeration_section, enumeration_text
from explain_speed import TIMED
from explain_speed_page import explain_speed_section, explain_speed_text
from fwshapley.files import written_whole
from inclusion_page import inclusion_section, inclusion_text
from label_noise_page import label_noise_section, label_noise_text
from learned_page import learned_section, learned_text
from noisy_page import noisy_section, noisy_text
from noisy_results import TITLES
from page_text import table
from peers_page import peers_section
from provenance import recompressed_shortly, recompressed_text
from refinement_page import refinement_section
from script import run_script
from table1_page import timing_section
from table2_page import times_section
from valuation_speed_page import valuation_speed_section, valuation_speed_text

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- results: made by benchmarks/publish.py -->", "<!-- end of results -->"

README_SECTION = """\
**The paper's claims, measured.** What title and abstract of FW-Shapley say, and what we found ([all
figures](docs/results.md)):

{claims}

{differs} {recompressed}

**Learned values.** {agreement} {enumeration} {explain_speed}

![Correlation by weighting](docs/figures/agreement.png)

{inclusion}**Wrong labels.** {label_noise}{noisy} {valuation_speed}

**Learned data values.** {learned}

**Sampled values.**

![Relative error against game calls](docs/figures/core.png)

{core}"""

DIFFERS = """\
Our setting is not the paper's: ResNet-18s are trained from scratch, where its own were pre-trained on ImageNet; how
long networks learn was our choice; its methods and rivals are by our code, but for what captum and cleanlab have."""

README_INCLUSION = """\
**Finding what matters.** {inclusion}

![Inclusion and exclusion curves](docs/figures/inclusion.png)

"""

RESULTS_HEAD = """\
# Results

Made from `benchmarks/results/*.json` by `python benchmarks/publish.py`; a test fails when they differ.

{recompressed}## The paper's claims, measured

{differs}

{claims_summary}

{claims}
"""


def load(name: str) -> dict[str, Any]:
    """One benchmark's recorded document."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def load_all(pattern: str) -> list[dict[str, Any]]:
    """All recorded documents whose names match, in their order."""
    return [load(path.stem) for path in sorted(RESULTS.glob(f"{pattern}.json"))]


def recorded(*names: str) -> bool:
    """Whether benchmarks have been run; not all of them were at the same time."""
    return all((RESULTS / f"{name}.json").exists() for name in names)


def claims() -> tuple[list[str], list[list[str]]]:
    """Return the claims of the paper, with what was recorded of each."""
    names = ("inclusion", "table1", "table2", "noisy_labels", "lemma", "enumeration", *TIMED)
    return claim_rows({name: load(name) for name in names if recorded(name)})


def readme_section() -> str:
    """What the first page says."""
    inclusion = README_INCLUSION.format(inclusion=inclusion_text(load("inclusion"))) if recorded("inclusion") else ""
    return README_SECTION.format(
        claims=table(*claims(), others="---"),
        differs=DIFFERS,
        recompressed=recompressed_shortly(load_all("*"), TITLES),
        agreement=agreement_text(load("agreement")),
        enumeration=enumeration_text(load("enumeration")),
        explain_speed=explain_speed_text([load(name) for name in TIMED if recorded(name)]),
        inclusion=inclusion,
        label_noise=label_noise_text(load("label_noise")),
        noisy=noisy_text(load("noisy_labels")) if recorded("noisy_labels") else "",
        valuation_speed=valuation_speed_text(load("valuation_speed")),
        learned=learned_text(load("learned_valuation")),
        core=core_text(load("core")),
    )


def results_page() -> str:
    """All of docs/results.md."""
    speeds = [load(name) for name in TIMED if recorded(name)]
    noisy, times = (load(name) if recorded(name) else None for name in ("noisy_labels", "table2"))
    head = RESULTS_HEAD.format(
        differs=DIFFERS,
        recompressed=recompressed_text(load_all("*")),
        claims_summary=claims_summary(claims()[1]),
        claims=table(*claims(), others="---"),
    )
    sections = [
        head,
        agreement_section(load("agreement")),
        inclusion_section(load("inclusion")) if recorded("inclusion") else "",
        timing_section(load("table1"), speeds) if recorded("table1") else "",
        enumeration_section(load("enumeration")),
        explain_speed_section(speeds, load("explain_speed_student")),
        peers_section(load("peers")),
        refinement_section(load("refinement")),
        label_noise_section(load("label_noise")),
        learned_section(load("learned_valuation")),
        noisy_section(noisy) if noisy else "",
        times_section(times) if times else "",
        valuation_speed_section(load("valuation_speed"), load_all("valuation_speed_gpu")),
        core_section(load("core")),
        lemma_section(load("lemma")),
    ]
    return "\n".join(section for section in sections if section)


def readme_page() -> str:
    """README with its results section made anew."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{readme_section()}\n{END}{after}"


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    check = parser.parse_args().check
    for path, text in ((README, readme_page()), (ROOT / "docs" / "results.md", results_page())):
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if check and current != text:
            sys.exit(f"{path.relative_to(ROOT)} differs from the recorded results: run python benchmarks/publish.py")
        if current != text:
            with written_whole(path) as temporary:
                temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
