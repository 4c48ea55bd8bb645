"""Several machines and one object store: processes with homes of their own, and a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KEY = "the key of the team in these tests"

pytest.importorskip("s3fs")
moto_server = pytest.importorskip("moto.server")

#: Runs a program, and tells what it counted.
COUNTING = """
import json, runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
import anyshape
from anyshape.support.lazy_dataclass import asdict
found = anyshape.metrics()
print("COUNTED", json.dumps({**asdict(found.native), "eager_calls": found.total.eager_calls}))
"""

PROGRAM = """
import random, sys
import torch
import anyshape

def f(x): return (x.exp() + 1).softmax(-1) * 2
def g(x): return torch.nn.functional.layer_norm(x, (x.shape[-1],)).sin() + x.exp()
def h(x): return (x * 2 + 1).relu().sum(0)
def i(x): return torch.nn.functional.gelu(x @ x.mT).softmax(-1)

functions = [f, g, h, i]
random.Random(sys.argv[1]).shuffle(functions)
with torch.no_grad():
    for function in functions:
        compiled = anyshape.compile(function, dynamic=True)
        for size in (3, 7):
            x = torch.randn(size, 5)
            torch.testing.assert_close(compiled(x), function(x))
"""


@pytest.fixture(scope="module")
def store() -> Iterator[Mapping[str, str]]:
    """What processes need in their environment to use an object store."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "who",
        "AWS_SECRET_ACCESS_KEY": "ever",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        files().mkdir("team")
        yield environment
    server.stop()


def files() -> Any:
    import s3fs

    return s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"], skip_instance_cache=True)


class Machine:
    """A home with nothing in it."""

    def __init__(self, home: Path, **variables: str) -> None:
        home.mkdir(parents=True)
        (home / "counting.py").write_text(COUNTING)
        (home / "program.py").write_text(PROGRAM)
        self.home = home
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ANYSHAPE_", "XDG_"))
        }
        self.environment = {
            **kept,
            "HOME": str(home),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT / "src"),
            "ANYSHAPE_CACHE_KEY": KEY,
            **variables,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "counting.py", *arguments],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[dict[str, Any], str]:
        return ended(self.start(*arguments))


def ended(process: subprocess.Popen[str]) -> tuple[dict[str, Any], str]:
    out, errors = process.communicate(timeout=380)
    assert process.returncode == 0, errors
    found = re.search(r"^COUNTED (.*)$", out, re.MULTILINE)
    assert found, out
    return json.loads(found[1]), errors


def test_a_second_machine_builds_nothing(store: Mapping[str, str], tmp_path: Path):
    demo = str(ROOT / "examples" / "demo.py")
    url = {"ANYSHAPE_CACHE_URL": "s3://team/demo", "ANYSHAPE_CACHE_TIMEOUT_SECONDS": "30"}
    first, _ = Machine(tmp_path / "first", **url).run(demo)
    assert first["builds"] > 0
    assert first["cache_uploads"] > 0
    second, errors = Machine(tmp_path / "second", **url).run(demo)
    assert second["builds"] == 0
    assert second["cache_hits_remote"] == first["cache_uploads"]
    assert "UserWarning" not in errors

    # Whoever may write there cannot make others run it.
    for path in files().find("team/demo/native"):
        data = files().cat_file(path)
        files().pipe_file(path, data[:-1] + bytes([data[-1] ^ 1]))
    third, errors = Machine(tmp_path / "third", **url).run(demo)
    assert third["builds"] == first["builds"]
    assert third["cache_refused"] == first["cache_uploads"]
    assert errors.count("is not loaded") == 1
    # And they have put it right.
    fourth, _ = Machine(tmp_path / "fourth", **url).run(demo)
    assert fourth["builds"] == 0

    other = Machine(tmp_path / "other", **url, ANYSHAPE_CACHE_KEY="the key of somebody else")
    fifth, errors = other.run(demo)
    assert fifth["cache_refused"] == first["cache_uploads"]
    assert fifth["builds"] == first["builds"]
    assert "another key" in errors


def test_sixteen_processes_build_each_kernel_once(store: Mapping[str, str], tmp_path: Path):
    """In any order: kernels that several functions have are built once too."""
    alone, _ = Machine(tmp_path / "alone").run("program.py", "0")
    machine = Machine(
        tmp_path / "home",
        ANYSHAPE_CACHE_URL="s3://team/sixteen",
        ANYSHAPE_CACHE_TIMEOUT_SECONDS="60",
    )
    started = [machine.start("program.py", str(number)) for number in range(16)]
    counted = [ended(process)[0] for process in started]
    assert sum(each["builds"] for each in counted) == alone["builds"]
    assert sum(each["cache_uploads"] for each in counted) > 0
    assert not list((machine.home / ".cache" / "anyshape" / "native").glob(".*"))


def test_a_process_that_is_killed_while_it_builds_blocks_nobody(tmp_path: Path):
    machine = Machine(tmp_path / "home")
    first = machine.start("program.py", "0")
    native = machine.home / ".cache" / "anyshape" / "native"
    while not list(native.glob(".lock-*")):
        assert first.poll() is None
        time.sleep(0.001)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    start = time.monotonic()
    counted, _ = machine.run("program.py", "0")
    assert counted["builds"] > 0
    assert time.monotonic() - start < 60


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for each in held:
            each.close()


@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_a_store_that_says_nothing(silent: int, tmp_path: Path, scheme: str):
    place = f"http://127.0.0.1:{silent}"
    url = f"{place}/team" if scheme == "http" else "s3://team/silent"
    machine = Machine(
        tmp_path / "home",
        ANYSHAPE_CACHE_URL=url,
        ANYSHAPE_CACHE_TIMEOUT_SECONDS="1",
        AWS_ENDPOINT_URL=place,
        AWS_ACCESS_KEY_ID="who",
        AWS_SECRET_ACCESS_KEY="ever",
    )
    start = time.monotonic()
    counted, errors = machine.run("program.py", "0")
    taken = time.monotonic() - start
    assert counted["builds"] > 0
    assert counted["cache_failures_remote"] <= 3
    assert errors.count("cannot be read") == 1, errors
    alone = Machine(tmp_path / "alone")
    start = time.monotonic()
    alone.run("program.py", "0")
    # Importing the store's library included.
    assert taken < 2 * (time.monotonic() - start) + 15


def test_two_versions_do_not_meet(store: Mapping[str, str], tmp_path: Path):
    """Code of other sources has another name, whatever version they say they are."""
    url = {"ANYSHAPE_CACHE_URL": "s3://team/versions", "ANYSHAPE_CACHE_TIMEOUT_SECONDS": "30"}
    first, _ = Machine(tmp_path / "first", **url).run("program.py", "0")
    other = tmp_path / "other"
    shutil.copytree(ROOT / "src", other, ignore=shutil.ignore_patterns("__pycache__"))
    second, _ = Machine(tmp_path / "second", **url, PYTHONPATH=str(other)).run("program.py", "0")
    assert second["builds"] == 0, "the same sources in another place"
    with (other / "anyshape" / "codegen" / "target.py").open("a") as file:
        file.write("\n# another version\n")
    third, _ = Machine(tmp_path / "third", **url, PYTHONPATH=str(other)).run("program.py", "0")
    assert third["builds"] == first["builds"]
    fourth, _ = Machine(tmp_path / "fourth", **url).run("program.py", "0")
    assert fourth["builds"] == 0


def test_a_profile_is_shared_and_signed(store: Mapping[str, str], tmp_path: Path):
    url = {"ANYSHAPE_CACHE_URL": "s3://team/profile", "ANYSHAPE_CACHE_TIMEOUT_SECONDS": "30"}
    program = """
import torch, anyshape
compiled = anyshape.compile(lambda x: x.sin() * 2)
with torch.no_grad():
    for size in (3, 4, 5):
        compiled(torch.ones(size))
print("GRAPHS", compiled.stats().graphs)
"""
    outputs: list[str] = []
    for name in ("first", "second"):
        machine = Machine(tmp_path / name, **url)
        script = tmp_path / "script.py"
        script.write_text(program)
        process = machine.start(str(script))
        out, errors = process.communicate(timeout=380)
        assert process.returncode == 0, errors
        outputs += re.findall("GRAPHS (.*)", out)
    assert outputs == ["2", "1"], "the second machine knows what changes"
    assert files().cat_file("team/profile/profile.json").startswith(b"anyshape signed")


def test_a_program_that_ends_at_once_has_shared_its_code(store: Mapping[str, str], tmp_path: Path):
    """Its code is still being made when its last line is done."""
    url = {"ANYSHAPE_CACHE_URL": "s3://team/short", "ANYSHAPE_CACHE_TIMEOUT_SECONDS": "30"}
    script = tmp_path / "short.py"
    script.write_text(
        "import torch, anyshape\n"
        "def f(x): return (x.exp() + 1).softmax(-1).sin()\n"
        "with torch.no_grad():\n"
        "    anyshape.compile(f, dynamic=True)(torch.ones(3, 5))\n"
    )
    first, errors = Machine(tmp_path / "first", **url).run(str(script))
    assert first["builds"] > 0
    assert "UserWarning" not in errors
    second, _ = Machine(tmp_path / "second", **url).run(str(script))
    assert second["builds"] == 0


def test_what_was_made_before_is_shared_once(store: Mapping[str, str], tmp_path: Path):
    url = {"ANYSHAPE_CACHE_URL": "s3://team/later", "ANYSHAPE_CACHE_TIMEOUT_SECONDS": "30"}
    machine = Machine(tmp_path / "first")
    machine.run("program.py", "0")
    machine.environment.update(url)
    uploads: list[int] = []
    for _ in range(2):
        counted, _ = machine.run("program.py", "0")
        assert counted["builds"] == 0
        uploads.append(len(files().find("team/later/native")))
    assert uploads[0] == uploads[1] > 0
    written = [each["LastModified"] for each in files().find("team/later", detail=True).values()]
    second, _ = Machine(tmp_path / "second", **url).run("program.py", "0")
    assert second["builds"] == 0
    machine.run("program.py", "0")
    again = files().find("team/later/native", detail=True).values()
    assert {each["LastModified"] for each in again} <= set(written), "it is not sent again"


def test_a_web_server_gives_and_takes_nothing(tmp_path: Path):
    team = tmp_path / "team"
    first, _ = Machine(tmp_path / "first", ANYSHAPE_CACHE_URL=f"file://{team}").run(
        "program.py", "0"
    )
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    server = subprocess.Popen(
        command, cwd=team, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://[^/]+", server.stdout.readline())
        assert found
        variables = {"ANYSHAPE_CACHE_URL": found[0], "ANYSHAPE_CACHE_TIMEOUT_SECONDS": "30"}
        second, errors = Machine(tmp_path / "second", **variables).run("program.py", "0")
        assert second["builds"] == 0 < first["builds"]
        assert "UserWarning" not in errors
        shutil.rmtree(team / "native")
        third, errors = Machine(tmp_path / "third", **variables).run("program.py", "0")
        assert third["builds"] == first["builds"]
        assert "UserWarning" not in errors
    finally:
        server.kill()
        server.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_full_disk(tmp_path: Path):
    machine = Machine(tmp_path / "home", ANYSHAPE_CACHE_DIR=str(tmp_path / "full" / "cache"))
    (tmp_path / "full").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path / "full")]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted")
    try:
        counted, _ = machine.run("program.py", "0")
        again, _ = machine.run("program.py", "0")
    finally:
        subprocess.run(["umount", str(tmp_path / "full")], check=True)
    assert counted["builds"] > 0
    assert again["builds"] > 0
