"""`python -m benchmarks.gallery [SCRIPT …]`: measure (all of them take half an hour), and write the
page. `--page` writes it of what was measured last."""

from __future__ import annotations

import argparse
import json

from benchmarks.gallery.child import SYSTEMS
from benchmarks.gallery.measure import ROOT, measure
from benchmarks.gallery.page import page
from benchmarks.gallery.scripts import SHOWN

RESULTS = ROOT / "benchmarks" / "results" / "gallery.json"
PAGE = ROOT / "docs" / "gallery.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gallery")
    parser.add_argument("scripts", nargs="*", choices=[[], *SHOWN], default=[])
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which of them to measure")
    parser.add_argument("--seconds", type=float, default=240, help="of a step, at most")
    asked = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [] if asked.page else asked.scripts or SHOWN:
        shown = SHOWN[name]
        print(f"{name} ...", flush=True)
        systems = asked.systems.split(",")
        found[name] = measure(name, shown.steps, shown.ranks, asked.seconds, systems)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(found, indent=1))
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
