"""One script by three systems at once, which take turns: a step each, always of the same sizes."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "scripts"
_TOO_LONG = "a step of over"
_CHILD = Path(__file__).with_name("child.py")


@dataclass
class Ran:
    """What a system did with a script."""

    #: seconds of each step
    steps: list[float] = field(default_factory=list[float])
    #: seconds that processors worked for each of them: neighbours change it least
    processor: list[float] = field(default_factory=list[float])
    printed: str = ""
    graphs: int | None = None
    recompiles: int | None = None
    #: why it did not come to its end
    failed: str = ""


class Child:
    def __init__(self, system: str, script: str, steps: int, ranks: int, folder: Path) -> None:
        self.ran = Ran()
        self._folder = folder
        self._buffer = b""
        folder.mkdir()
        for name in ("go", "took"):
            os.mkfifo(folder / name)
        command = [sys.executable]
        if ranks > 1:
            command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command += [str(_CHILD), system, str(SCRIPTS / f"{script}.py"), "--steps", str(steps)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | self._variables(system),
            stdout=(folder / "stdout").open("wb"),
            stderr=(folder / "stderr").open("wb"),
        )
        # Both ways, so that opening them waits for nobody.
        self._go, self._took = (self._open(name) for name in ("go", "took"))

    def _open(self, name: str) -> BinaryIO:
        return os.fdopen(os.open(self._folder / name, os.O_RDWR), "r+b", 0)

    def _variables(self, system: str) -> dict[str, str]:
        found = {
            "GALLERY_TURNS": str(self._folder),
            "OMP_NUM_THREADS": "1",
            "ANYSHAPE_PROFILE": "0",
            # Nothing is there from earlier runs.
            "ANYSHAPE_CACHE_DIR": str(self._folder / "cache"),
            "TORCHINDUCTOR_CACHE_DIR": str(self._folder / "cache"),
        }
        return found | ({"TORCH_COMPILE_DISABLE": "1"} if system == "eager" else {})

    def step(self, seconds: float) -> bool:
        """Let it do one more step; False if there is none."""
        if self.ran.failed:
            return False
        self._go.write(b".")
        waited = 0.0
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._took], [], [], 0.2)
            waited += 0.2
            if ready:
                self._buffer += os.read(self._took.fileno(), 1 << 12)
            elif self._process.poll() is not None:
                return False
            elif waited > seconds:
                self.ran.failed = f"{_TOO_LONG} {seconds:.0f} s"
                self._process.kill()
                return False
        line, _, self._buffer = self._buffer.partition(b"\n")
        for kept, taken in zip((self.ran.steps, self.ran.processor), line.split(), strict=True):
            kept.append(float(taken))
        return True

    def finish(self) -> Ran:
        status = self._process.wait()
        self.ran.printed = (self._folder / "stdout").read_text()
        said = (self._folder / "stderr").read_text()
        if status and not self.ran.failed:
            self.ran.failed = said.strip().splitlines()[-1]
        found = re.search(r"^counts: (.*)$", said, re.MULTILINE)
        for name, count in (json.loads(found[1]) if found else {}).items():
            setattr(self.ran, name, count)
        return self.ran


def measure(
    script: str, steps: int, ranks: int, seconds: float, systems: Sequence[str]
) -> dict[str, dict[str, object]]:
    """By system. A step may take so many seconds at most."""
    with tempfile.TemporaryDirectory() as folder:
        children = {name: Child(name, script, steps, ranks, Path(folder, name)) for name in systems}
        going = list(children.values())
        while going:
            going = [child for child in going if child.step(seconds)]
        ran = {name: child.finish() for name, child in children.items()}
    most = max(len(each.steps) for each in ran.values())
    for each in ran.values():
        # What a script does behind its steps is not measured: it may take as long as it likes.
        if len(each.steps) == most and each.failed.startswith(_TOO_LONG):
            each.failed = ""
    return {name: asdict(each) for name, each in ran.items()}
