"""Which tests a plain run leaves out. Names of parametrised cases, the same in every process: the
parallel runner compares them. And no profile, here and in processes that tests start: what an
earlier run has seen changes how many graphs there are. Tests of the profile keep one in a folder of
their own."""

from __future__ import annotations

import argparse
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

os.environ["ANYSHAPE_PROFILE"] = "0"

_TESTS = Path(__file__).parent
_ROOT = _TESTS.parent
_SLOW = _TESTS / "slow"

#: Long enumerations, by file or folder. Of the cases of each test there, one in so many is for
#: every run of the tests, always the same ones; `make test-slow` runs the others.
ONE_IN: Final = {
    "api/test_containers_outside.py": 10,
    "api/test_escapes_ints.py": 16,
    "api/test_escapes_native.py": 16,
    "api/test_inputs_with_gaps.py": 5,
    "api/test_match.py": 10,
    "api/test_python_features.py": 5,
    "api/test_two_ways_to_one_state.py": 12,
    "capture/test_replay.py": 16,
    "codegen": 6,
    "compat": 4,
    "compat/test_installing.py": 5,
    "data_dependent": 3,
    "data_dependent/test_order_of_effects.py": 40,
    "data_dependent/test_programs.py": 12,
    "data_dependent/test_unbacked.py": 20,
    "events/trace/test_tlparse.py": 7,
    "export": 5,
    "export/test_fuzz.py": 20,
    "graph": 10,
    "graph_breaks": 6,
    "graph_breaks/test_fuzz.py": 12,
    "guards": 4,
    "native": 8,
    "native/test_opdb_families.py": 7,
    "ops": 8,
    "ops/test_effects.py": 30,
    "wrappers": 4,
}
#: The longest ones. Of what is left there, one in so many is for `make test-slow`, and
#: `make test-all` runs the others.
ONE_IN_OF_SLOW: Final = {
    "api/test_escapes_ints.py": 2,
    "api/test_escapes_native.py": 2,
    "codegen/test_nvptx.py": 2,
    "data_dependent": 2,
    "ops/test_effects.py": 4,
    "slow/test_autograd_state.py": 2,
    "slow/test_boundary.py": 2,
    "slow/test_emitted_facts.py": 2,
    "slow/test_escapes.py": 2,
    "slow/test_gradients.py": 2,
    "slow/test_graph_breaks.py": 2,
    "slow/test_mutation_of_state.py": 2,
    "slow/test_z3.py": 2,
}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-goldens",
        action="store_true",
        help="write the texts of tests/golden anew, to be reviewed as a diff",
    )
    parser.addoption(
        "--slow",
        action="store_true",
        help="run what a plain run leaves out: tests/slow, tests marked slow, more of samples",
    )
    parser.addoption(
        "--sample",
        action="store_true",
        help="of files and folders that are named, what a run of all the tests has of them",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="with --slow: also what the slow tests leave out",
    )
    parser.addoption(
        "--part",
        metavar="K/N",
        type=_part,
        help="the K-th of N parts of what would run: all parts together are all of it",
    )


@pytest.fixture
def own_counts() -> Iterator[None]:
    """`metrics()` knows of no function but those that the test compiles: others may live on."""
    import anyshape
    from anyshape.dispatch.entry import all_counts

    anyshape.reset()
    others = all_counts[:]
    all_counts.clear()
    yield
    all_counts[:0] = others


def _part(text: str) -> tuple[int, int]:
    which, _, parts = text.partition("/")
    if not (which.isdecimal() and parts.isdecimal() and 1 <= int(which) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part, such as 2/3")
    return int(which), int(parts)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == _SLOW and _is_plain(config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        kept = [item for item in items if _SLOW in item.path.parents or _is_slow(item)]
        if not config.getoption("--all"):
            kept = [item for item in kept if not _is_left(item, ONE_IN_OF_SLOW, 1)]
    elif _is_plain(config):
        kept = [item for item in items if not _is_slow(item)]
    else:
        kept = list(items)
    if (part := config.getoption("--part")) is not None:
        which, parts = part
        kept = [item for item in kept if _number(item, 2) % parts == which - 1]
    config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept


def _is_plain(config: pytest.Config) -> bool:
    """Whether all of the tests are asked for: whoever names some of them wants those."""
    if config.getoption("--sample"):
        return True
    named = (config.invocation_params.dir / each.partition("::")[0] for each in config.args)
    return not config.getoption("--slow") and any(path in (_TESTS, _ROOT) for path in named)


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None or _is_left(item, ONE_IN, 0)


def _is_left(item: pytest.Item, table: Mapping[str, int], digit: int) -> bool:
    """Whether a sample leaves a case out."""
    where = item.path.relative_to(_TESTS)
    places = (str(place) for place in (where, *where.parents))
    parts = next((table[place] for place in places if place in table), 1)
    return "[" in item.nodeid and _number(item, digit) % parts != 0


def _number(item: pytest.Item, digit: int) -> int:
    """By the name: whatever else is collected, the runs together have every case once."""
    return zlib.crc32(item.name.encode()) >> 8 * digit


def pytest_make_parametrize_id(config: pytest.Config, val: Any, argname: str) -> str | None:
    if isinstance(val, type) or not callable(val):
        return None
    name = getattr(val, "__qualname__", None) or getattr(val, "__name__", None)
    return _ADDRESS.sub("", name or repr(val))
