"""Functions and types of C extensions, files, time, environment and text."""

from __future__ import annotations

import array
import base64
import bisect
import collections
import contextlib
import csv
import ctypes
import datetime
import decimal
import fractions
import hashlib
import heapq
import io
import itertools
import json
import logging
import math
import operator
import os
import pickle
import random
import re
import sqlite3
import struct
import sys
import tempfile
import time
import uuid
import warnings
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.graph_breaks.opaque import LOG, note
from tests.graph_breaks.table import program, rows_and_flag, rows_and_number


@program()
def struct_of_an_item(x: Tensor) -> tuple[bytes, Tensor]:
    y = (x * 2 + 1).relu()
    packed = struct.pack("<f", y.sum().item())
    z = y - len(packed)
    return packed, z.abs() * 2


@program()
def checksum_of_bytes(x: Tensor) -> tuple[int, Tensor]:
    y = x * 4 + 3
    number = zlib.crc32(struct.pack("<4f", *y[0].tolist()))
    z = y * (number % 5)
    return number, z.sum(1) - 1


@program()
def digest_of_text(x: Tensor) -> tuple[str, Tensor]:
    y = (x + 2) * x
    digest = hashlib.sha256(repr(y.flatten().tolist()).encode()).hexdigest()
    z = y + int(digest[:2], 16)
    return digest, z.relu().sum(0)


@program()
def json_there_and_back(x: Tensor) -> Tensor:
    y = x.abs() + 0.25
    text = json.dumps({"rows": y.tolist()})
    z = torch.tensor(json.loads(text)["rows"])
    return (y - z).sum() + z.mean() * 2


@program()
def pickle_there_and_back(x: Tensor) -> Tensor:
    y = x * 2 - 1
    again = pickle.loads(pickle.dumps(y.tolist()))
    z = torch.tensor(again) * 2
    return z + y.relu()


@program()
def ctypes_function(x: Tensor) -> Tensor:
    y = x * 3 + 1
    number = ctypes.c_int32(int(y.sum().item() * 4)).value
    z = y - number
    return z.relu().mean(0)


@program()
def database(x: Tensor) -> tuple[Any, Tensor]:
    y = x.relu() + 1
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table t (v real)")
        connection.executemany("insert into t values (?)", [(v,) for v in y[:, 0].tolist()])
        found = connection.execute("select sum(v), count(*) from t").fetchone()
    z = y * found[0] - found[1]
    return found, z.sum()


@program()
def regular_expression(x: Tensor) -> tuple[list[str], Tensor]:
    y = (x * 2 + 1).abs()
    words = re.findall(r"\d+", f"a{y.shape[0]}b{int(y.sum().item())}c")
    z = y * len(words)
    return words, z - int(words[0])


@program()
def scanner_of_text(x: Tensor) -> Tensor:
    scanner = re.compile(r"[a-z]").scanner("a1b2c3")  # pyright: ignore[reportAttributeAccessIssue] undocumented
    y = x + 1
    while scanner.search() is not None:
        y = y * 2 - 1
        y = y.clamp(-9, 9)
    return y.sum(0) + 1


@program()
def now(x: Tensor) -> tuple[bool, Tensor]:
    y = x * 2 + 1
    year = datetime.datetime.now().year
    z = y * 2 - 1
    return year > 2000, z.relu() + y


@program()
def timer(x: Tensor) -> tuple[bool, Tensor]:
    start = time.perf_counter()
    y = (x * 2 + 1).relu()
    middle = time.perf_counter()
    z = (y - 1).sum(0) * 2
    return start <= middle <= time.perf_counter(), z


@program()
def clocks_of_all_kinds(x: Tensor) -> tuple[bool, Tensor]:
    y = x * x + 1
    times = [time.time(), time.monotonic(), time.process_time(), time.time_ns() / 1e9]
    z = y.sqrt() * len(times) - 1
    return all(each > 0 for each in times), z.sum(1)


def _set_environment(call: int) -> None:
    os.environ["ANYSHAPE_TEST_BREAKS"] = str(call % 3)


@program(before=_set_environment)
def environment_variable(x: Tensor) -> Tensor:
    y = x * 2 + 1
    level = int(os.environ.get("ANYSHAPE_TEST_BREAKS", "0"))
    z = y * level - 1
    return z.relu().sum(1)


@program(before=_set_environment)
def environment_decides(x: Tensor) -> Tensor:
    y = (x + 2) * 2
    if os.getenv("ANYSHAPE_TEST_BREAKS") == "1":
        y = y.relu() - 3
        y = y * y
    return y.sum(0) - 1


@program(before=_set_environment)
def environment_is_written(x: Tensor) -> tuple[str, Tensor]:
    y = x.abs() * 2 + 1
    os.environ["ANYSHAPE_TEST_BREAKS"] += str(len(y))
    z = y.sum(1) - 2
    return os.environ["ANYSHAPE_TEST_BREAKS"], z.relu()


@program()
def random_number(x: Tensor) -> Tensor:
    y = x * 2 + 1
    if random.random() < 0.5:
        y = -y + 3
        y = y.relu()
    return y.sum(0) * 2


@program()
def random_choice_and_shuffle(x: Tensor) -> Tensor:
    y = x.abs() + 1
    order = list(range(len(y)))
    random.shuffle(order)
    z = y[order] * random.choice([1, 2, 3])
    return z - y.mean(0)


@program()
def random_object(x: Tensor) -> Tensor:
    generator = random.Random(5)
    y = x * 2 - 1
    y = y * generator.randint(1, 4) + 1
    return (y.relu() + generator.gauss(0, 1)).round().sum(0)


@program()
def printed_text(x: Tensor) -> Tensor:
    y = x * 2 + 1
    print("shape", tuple(y.shape), "sum", y.sum().item())
    z = (y - 1).relu()
    print(f"{z.mean().item():.3f}", file=sys.stdout)
    return z.sum(1) * 2


@program(one_side="what is printed is formatted at the end, by eager operations")
def printed_tensor(x: Tensor) -> Tensor:
    y = (x + 1) * 4
    print(y[0])
    z = y.relu() - 2
    print("then", z.sum())
    return z * y


@program()
def written_to_a_stream(x: Tensor) -> tuple[str, Tensor]:
    y = x * 4 + 1
    stream = io.StringIO()
    stream.write(f"{len(y)} rows;")
    z = y.relu() * 2
    print(z.sum().item(), file=stream, end="")
    return stream.getvalue(), z - 1


@program()
def written_to_a_file(x: Tensor) -> tuple[str, Tensor]:
    y = x.relu() * 2 + 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "out.txt")
        path.write_text(str(int(y.sum().item() * 4)), encoding="utf-8")
        z = y * 2 - 1
        text = path.read_text(encoding="utf-8")
    return text, z + int(text)


@program()
def csv_row(x: Tensor) -> tuple[str, Tensor]:
    y = x * 2 + 0.5
    stream = io.StringIO()
    csv.writer(stream).writerows(y.tolist())
    z = y.abs().sum(1)
    return stream.getvalue(), z * 2


@program()
def saved_and_loaded(x: Tensor) -> Tensor:
    y = x * 3 + 1
    stream = io.BytesIO()
    torch.save(y, stream)
    stream.seek(0)
    z = torch.load(stream) * 2
    return (z - y).relu() + 1


@program()
def warned_of(x: Tensor) -> Tensor:
    y = x * 2 + 1
    warnings.warn(f"{len(y)} rows", stacklevel=2)
    z = y.relu() - 1
    return z.sum(0) * 2


class _ToTheLog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        LOG.append((record.levelname, record.getMessage()))


_logger = logging.getLogger("anyshape_tests_graph_breaks")
_logger.addHandler(_ToTheLog())
_logger.propagate = False


@program()
def logged(x: Tensor) -> Tensor:
    y = x * 2 + 1
    _logger.warning("sum %s", y.sum().item())
    z = y.relu() - 1
    _logger.debug("mean %s", z.mean())
    return z.sum(0) * 2


@program()
def heap_of_items(x: Tensor) -> Tensor:
    y = (x * 2 - 1).sum(1)
    heap = y.tolist()
    heapq.heapify(heap)
    least = heapq.heappop(heap)
    z = y - least
    return z.sqrt() * 2 + 1


@program()
def bisected(x: Tensor) -> Tensor:
    y = x.abs().sum(1) + 1
    place = bisect.bisect([1.0, 3.0, 5.0], y[0].item())
    z = y * (place + 1)
    return z.relu() - place


@program()
def decimal_number(x: Tensor) -> tuple[str, Tensor]:
    y = x * 2 + 1
    number = decimal.Decimal(y.sum().item()).quantize(decimal.Decimal("0.1"))
    z = y - float(number)
    return str(number), z.relu().sum()


@program()
def fraction_of_an_item(x: Tensor) -> tuple[int, Tensor]:
    y = x * 2 + 0.25
    part = fractions.Fraction(y.sum().item())
    z = y * part.denominator
    return part.numerator, z.abs().sum(0)


@program()
def mathematics_on_items(x: Tensor) -> Tensor:
    y = (x + 2).abs() + 1
    scale = math.floor(math.hypot(y[0, 0].item(), 3.0)) + math.gcd(len(y), 6)
    z = y * scale
    return z.relu().sum(1) - scale


@program()
def items_in_an_array(x: Tensor) -> Tensor:
    y = x * 2 + 1
    numbers = array.array("f", y[:, 0].tolist())
    numbers.append(float(len(numbers)))
    z = torch.tensor(numbers.tolist())
    return z.sum() * y - 1


@program()
def text_in_base64(x: Tensor) -> tuple[str, Tensor]:
    y = (x.abs() * 4).long() + 1
    text = base64.b64encode(bytes(v % 256 for v in y[0].tolist())).decode()
    z = y * len(text) + 1
    return text, z.sum(0)


@program()
def counted_items(x: Tensor) -> tuple[Any, Tensor]:
    y = (x * 2).round() + 1
    common = collections.Counter(y.flatten().tolist()).most_common(1)
    z = y - common[0][0]
    return common, z.abs().sum(1)


@program()
def sorted_items(x: Tensor) -> Tensor:
    y = x.sum(1) * 2 + 1
    order = sorted(range(len(y)), key=y.tolist().__getitem__)
    z = y[order]
    return (z[1:] - z[:-1]) * 2


@program()
def sum_of_items_by_tools(x: Tensor) -> Tensor:
    y = x.abs() + 1
    totals = list(itertools.accumulate(y[:, 0].tolist(), operator.mul))
    z = torch.tensor(totals) + y[:, 1]
    return z.log2().floor() * 2


@program()
def formatted_item(x: Tensor) -> tuple[str, Tensor]:
    y = x * 2 + 1
    text = format(y.sum().item(), "08.3f")
    z = y - len(text)
    return text, z.relu().sum(0)


@program()
def identifier_made(x: Tensor) -> tuple[str, Tensor]:
    y = x * 2 + 1
    name = uuid.uuid5(uuid.NAMESPACE_DNS, f"rows-{len(y)}")
    z = y.relu() - name.version if name.version else y
    return str(name), z * 2


@program(rows_and_number)
def size_in_bytes(x: Tensor, n: int) -> Tensor:
    y = x * n + 1
    size = sys.getsizeof("a" * n)
    z = y - (size - sys.getsizeof(""))
    return z.relu() * 2


@program(rows_and_flag)
def native_call_in_one_branch(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    if flag:
        note("flag", y)
        y = y * len(struct.pack("<i", 3))
        y = y - 1
    return y.relu().sum(1)


@program()
def module_looked_up(x: Tensor) -> Tensor:
    y = x * 2 + 1
    scale = sys.modules["math"].floor(y.sum().item())
    z = y * scale
    return z.relu() - 1


@program()
def recursion_limit_and_frames(x: Tensor) -> tuple[str, Tensor]:
    y = x * 2 + 1
    name = sys._getframe().f_code.co_name
    z = y.relu() - len(name)
    return name, z * 2
