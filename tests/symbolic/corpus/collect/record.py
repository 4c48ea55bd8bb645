"""`record RAW`: runs all programs and writes each question that torch asked."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.symbolic.corpus.collect import (
    data_programs,
    models,
    networks,
    operator_samples,
    tensor_programs,
)
from tests.symbolic.corpus.collect.tracing import Tracer


def main(raw: str) -> None:
    started = time.time()
    tracer = Tracer()
    for stage, run in (
        ("networks", networks.run),
        ("tensor programs", tensor_programs.run),
        ("sizes from data", data_programs.run),
        ("exports", networks.run_exports),
        ("transformers", models.run),
        ("op_db", operator_samples.run),
    ):
        run(tracer)
        tracer.report(f"after {stage}")
    for what, count in tracer.failures.most_common():
        if not what.startswith("op_db"):
            print(f"  stopped early ({count}): {what}")
    rows = tracer.recorder.rows
    Path(raw).write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} questions recorded in {time.time() - started:.0f} s -> {raw}")
