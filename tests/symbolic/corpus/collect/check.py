"""`check`: tries the corpus again by brute force on small integers."""

from __future__ import annotations

from tests.symbolic.corpus.collect.rows import corpus, symbols_in
from tests.symbolic.corpus.collect.small_integers import brute_force


def main() -> None:
    rows = corpus()
    for row in rows:
        assert set(symbols_in(row["ask"], *row["given"])) <= set(row["symbols"]), row
        example, counterexample = brute_force(row)
        assert row["truth"] != "yes" or not counterexample, row
        assert row["truth"] != "no" or not example, row
    print(f"{len(rows)} questions: no contradiction on small integers")
