"""`build RAW [LIMIT]`: writes the corpus anew, with recorded questions from RAW and those written
by hand in the old corpus, and prints the table for README.md.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from pathlib import Path

from tests.symbolic.corpus.collect.choose import chosen
from tests.symbolic.corpus.collect.rows import OUT, Row, corpus
from tests.symbolic.corpus.collect.truth import decide

SECOND_VERSIONS = 70
KEYS = ("family", "symbols", "given", "ask", "truth", "origin")
TRUTHS = ("yes", "no", "contingent", "undecided")


def main(raw: str, limit: str = "400") -> None:
    by_hand = [row for row in corpus() if _is_by_hand(row)]
    recorded = [json.loads(line) for line in Path(raw).read_text().splitlines()]
    rows = list(_decided(chosen(recorded, int(limit)), {_identity(row) for row in by_hand}))
    for row in by_hand:
        row["truth"] = decide(row)
        assert row["truth"] != "vacuous", row
        rows.append(row)
    lines = ({"id": f"q{i:04d}", **{k: row[k] for k in KEYS}} for i, row in enumerate(rows, 1))
    OUT.write_text("".join(json.dumps(line) + "\n" for line in lines))
    _print_table(rows)


def _decided(rows: list[Row], seen: set[tuple[str, ...]]) -> Iterator[Row]:
    """The new rows with their truth, and some again with sizes from 1 where that decides them."""
    second = 0
    for row in rows:
        if _identity(row) in seen:
            continue
        seen.add(_identity(row))
        row["origin"] += f" [{row['form']}]"
        row["truth"] = decide(row)
        if row["truth"] == "vacuous":
            continue
        yield row
        other = _with_range_from(row, 1)
        if row["truth"] in ("contingent", "undecided") and second < SECOND_VERSIONS and other:
            other["truth"] = decide(other)
            if other["truth"] in ("yes", "no"):
                other["origin"] += " [sizes from 1]"
                yield other
                second += 1


def _with_range_from(row: Row, low: int) -> Row | None:
    """The question again with the backed sizes that started at 0 starting at `low`."""
    symbols = {
        n: [low, r[1]] if n[0] == "s" and r[0] == 0 else r for n, r in row["symbols"].items()
    }
    return None if symbols == row["symbols"] else {**row, "symbols": symbols}


def _identity(row: Row) -> tuple[str, ...]:
    return row["ask"], *sorted(row["given"]), json.dumps(row["symbols"])


def _is_by_hand(row: Row) -> bool:
    return row["origin"].startswith("hand")


def _print_table(rows: list[Row]) -> None:
    print(f"| family | {' | '.join(TRUTHS)} | all | recorded | by hand |\n|---|{'---|' * 7}")
    for family in [*sorted({row["family"] for row in rows}), "all"]:
        here = [row for row in rows if family in ("all", row["family"])]
        truths = collections.Counter(row["truth"] for row in here)
        by_hand = sum(map(_is_by_hand, here))
        counts = [*(truths[t] for t in TRUTHS), len(here), len(here) - by_hand, by_hand]
        print(f"| {family} | {' | '.join(map(str, counts))} |")
