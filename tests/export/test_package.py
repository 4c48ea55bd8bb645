"""Packages: written whole, read by standard tools, loaded without the program, never trusted."""

from __future__ import annotations

import json
import zipfile
from collections import defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import Dim
from anyshape.errors import BadOption, BadPackage, CannotExport
from anyshape.export import Record
from anyshape.export import package as packages
from anyshape.export.operators import UnknownName, function_of, is_method, name_of
from tests import forks

FIXTURES = Path(__file__).parent / "packages"


@dataclass
class Answer:
    logits: Tensor
    size: int


Named = namedtuple("Named", ["a", "b"])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("shift", torch.full((4,), 0.5, dtype=torch.float64))
        self.transposed = nn.Parameter(torch.randn(4, 3).t())

    def forward(self, ids: Tensor, scale: float = 1.5) -> Any:
        x = self.embedding(ids) * scale + self.shift.float()
        with torch.no_grad():
            y = x @ self.transposed.t()
        return {
            "answer": Answer(self.head(x), ids.shape[1]),
            "named": Named(y, ids.shape[0]),
            "infinite": float("inf"),
            "dtype": x.to(torch.bfloat16),
        }


SPEC = {"ids": (Dim("batch", max=100), Dim("length", min=1))}


def make() -> tuple[Model, anyshape.Exported]:
    torch.manual_seed(0)
    model = Model().eval()
    return model, anyshape.export(model, (torch.ones(2, 3, dtype=torch.long),), dynamic_shapes=SPEC)


@pytest.fixture(name="package")
def _package(tmp_path: Path) -> Path:
    _, exported = make()
    exported.save(tmp_path / "model.zip")
    return tmp_path / "model.zip"


def test_it_loads_as_it_was_saved(package: Path):
    model, exported = make()
    loaded = anyshape.load(package)
    assert repr(loaded) == repr(exported)
    assert loaded.print_readable(False) == exported.print_readable(False)
    for batch, length in ((0, 1), (1, 1), (5, 7), (100, 2)):
        ids = torch.randint(0, 10, (batch, length))
        found, expected = loaded(ids), model(ids)
        assert type(found["answer"]) is Answer
        assert found["answer"].size == length
        torch.testing.assert_close(found["answer"].logits, expected["answer"].logits)
        torch.testing.assert_close(found["named"], expected["named"])
        assert found["infinite"] == float("inf")
        assert found["dtype"].dtype is torch.bfloat16
    assert loaded.state_dict().keys() == exported.state_dict().keys()
    weight = loaded.graph_module.get_parameter("transposed")
    assert not weight.is_contiguous()
    assert weight.requires_grad


def test_it_saves_again_as_the_same_bytes(package: Path, tmp_path: Path):
    anyshape.load(package).save(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == package.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["again.zip", "model.zip"]


def test_standard_tools_read_it(package: Path):
    safetensors = pytest.importorskip("safetensors.torch")
    with zipfile.ZipFile(package) as archive:
        assert archive.testzip() is None
        about = json.loads(archive.read("anyshape.json"))
        program = json.loads(archive.read("program.json"))
        weights = safetensors.load(archive.read("weights.safetensors"))
    assert about["format"] == "anyshape package"
    assert program["nodes"][-1]["op"] == "output"
    model, _ = make()
    torch.testing.assert_close(weights["embedding.weight"], model.embedding.weight.detach())
    assert weights["shift"].dtype is torch.float64
    assert "head.weight" not in weights, "shared weights are stored once"


def test_it_runs_in_a_process_without_the_program(package: Path, tmp_path: Path):
    model, _ = make()
    ids = torch.arange(6).reshape(3, 2)
    script = f"""
import sys, torch, anyshape
loaded = anyshape.load({str(package)!r})
found = loaded(torch.arange(6).reshape(3, 2))
assert "tests" not in sys.modules
answer, named = found["answer"], found["named"]
assert type(answer).__name__ == "Record" and answer.size == 2
assert named.b == 3 and type(named).__name__ == "Named"
print(answer.logits.double().sum().item())
"""
    (tmp_path / "script.py").write_text(script)
    run = forks.run(["script.py"], tmp_path)
    assert run.returncode == 0, run.stderr
    expected = model(ids)["answer"].logits.double().sum().item()
    assert float(run.stdout) == pytest.approx(expected)


def test_results_of_unknown_classes_are_records():
    record = Record("Output", [["logits", 1], ["loss", 2]], extra=3)
    assert (record.logits, record["loss"], record[0], record[:], record.extra) == (
        1,
        2,
        1,
        (1, 2),
        3,
    )
    assert repr(record) == "Output(logits=1, loss=2, extra=3)"
    with pytest.raises(AttributeError, match="Output has no attribute 'other'"):
        _ = record.other


# -- damaged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_cut_off(package: Path, share: float):
    data = package.read_bytes()
    package.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(BadPackage, match="damaged or cut off"):
        anyshape.load(package)


def test_what_is_no_package(tmp_path: Path):
    """Nobody is told that it is damaged, or to copy it again."""
    with pytest.raises(BadPackage, match="it is a folder"):
        anyshape.load(tmp_path)
    torch.save({"weight": torch.ones(2)}, tmp_path / "weights.pt")
    with pytest.raises(BadPackage, match=r"without anyshape\.json, which something else has"):
        anyshape.load(tmp_path / "weights.pt")
    with pytest.raises(FileNotFoundError):
        anyshape.load(tmp_path / "none.zip")


def test_a_package_that_may_not_be_read(package: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(package))

    monkeypatch.setattr(zipfile, "ZipFile", refused)
    with pytest.raises(PermissionError):
        anyshape.load(package)


def test_every_flipped_byte_is_noticed_or_harmless(package: Path):
    data = package.read_bytes()
    model, _ = make()
    ids = torch.arange(6).reshape(3, 2)
    expected = model(ids)["answer"].logits
    for at in range(0, len(data), 37):
        package.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            found = anyshape.load(package)(ids)["answer"].logits
        except BadPackage:
            continue
        torch.testing.assert_close(found, expected)


def rewritten(package: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    with zipfile.ZipFile(package) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    about, program = json.loads(parts["anyshape.json"]), json.loads(parts["program.json"])
    change(about, program)
    parts |= {
        "anyshape.json": json.dumps(about).encode(),
        "program.json": json.dumps(program).encode(),
    }
    with zipfile.ZipFile(package, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return package


def node(program: dict[str, Any], op: str) -> dict[str, Any]:
    return next(each for each in program["nodes"] if each["op"] == op)


def _set(where: str, key: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(about: dict[str, Any], program: dict[str, Any]) -> None:
        {"about": about, "program": program}.get(
            where, node(program, where) if where not in ("about", "program") else None
        )[key] = value  # pyright: ignore[reportOptionalSubscript]

    return change


HOSTILE = "__import__('os').abort()"
BAD: list[tuple[str, Callable[[dict[str, Any], dict[str, Any]], None], str]] = [
    ("format", _set("about", "format", "torch"), "its format is 'torch'"),
    ("newer", _set("about", "version", 99), "made by a later anyshape"),
    ("version", _set("about", "version", "1"), "its version is '1'"),
    ("no nodes", _set("program", "nodes", []), "no output"),
    ("nodes", _set("program", "nodes", 3), "no list of nodes"),
    ("function", _set("call_function", "target", "os.system"), "the operator 'os.system'"),
    ("load", _set("call_function", "target", "torch.load"), "the operator 'torch.load'"),
    ("eval", _set("call_function", "target", "builtins.eval"), "'builtins.eval'"),
    ("caller", _set("call_function", "target", "operator.call"), "'operator.call'"),
    ("method", _set("call_method", "target", "__reduce_ex__"), "the method '__reduce_ex__'"),
    ("name", _set("call_function", "name", HOSTILE), "the node"),
    ("parameter", _set("placeholder", "target", f"x={HOSTILE}"), "the parameter"),
    ("weight", _set("get_attr", "target", HOSTILE), "the weight"),
    ("arguments", _set("call_function", "kwargs", {HOSTILE: 1}), "the arguments of"),
    ("value", _set("call_function", "args", [{"pickle": "x"}]), "of the kind 'pickle'"),
    ("later node", _set("call_function", "args", [{"node": "nobody"}]), "the node 'nobody'"),
    ("kind", _set("call_function", "op", "call_module"), "the kind of node 'call_module'"),
    ("facts", _set("program", "facts", [HOSTILE]), "cannot read this"),
    (
        "conditions",
        _set("program", "conditions", [{"way": ["ids"], "kind": "eval", "value": 1}]),
        "the condition 'eval'",
    ),
    ("missing", lambda about, program: program.pop("weights"), "weights"),
    ("weights", lambda about, program: program["weights"].update({"a'b": {}}), "a'b"),
]


@pytest.mark.parametrize(("change", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_no_package_of_ours_is_refused(package: Path, change: Any, says: str):
    rewritten(package, change)
    with anyshape.config.patch(on_compile_error="warn"), pytest.raises(BadPackage) as caught:
        anyshape.load(package)
    assert says in str(caught.value)


def test_a_part_is_missing(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("anyshape.json", "{}")
    with pytest.raises(BadPackage, match=r"program\.json"):
        anyshape.load(tmp_path / "x.zip")
    with pytest.raises(FileNotFoundError):
        anyshape.load(tmp_path / "nothing.zip")


def test_native_code_is_only_for_those_who_trust_it(package: Path):
    with pytest.raises(BadOption, match="native_code"):
        anyshape.load(package, native_code="yes")


# -- operators by name -----------------------------------------------------------------------------


def test_names_of_operators_lead_back_to_them():
    functions = [torch.add, torch.nn.functional.gelu, torch.zeros, torch.linalg.inv, min, getattr]
    functions += [
        torch.ops.aten.add.Tensor,
        torch.nn.functional.linear,
        torch.einsum,
        torch.special.erf,
    ]
    for function in functions:
        assert function_of(name_of(function)) is function


@pytest.mark.parametrize(
    "name",
    [
        *("torch.load", "torch.save", "torch.hub.load", "torch.compile", "torch.jit.load", "os"),
        *(
            "torch.ops.load_library",
            "torch.ops.aten.from_file.default",
            "torch.from_file",
            "builtins.exec",
            "operator.attrgetter",
            "torch.cuda.is_available",
        ),
        "torch.utils.cpp_extension.load",
        "torch.ops.__init__",
        "torch.classes.load_library",
        "torch.from_file",
        "torch.set_printoptions",
    ],
)
def test_no_other_function_has_a_name(name: str):
    with pytest.raises(UnknownName):
        function_of(name)


def test_methods():
    assert is_method("relu")
    assert is_method("__add__")
    assert not any(map(is_method, ["__reduce_ex__", "__class__", "apply_", "nothing", "a b"]))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2


def test_a_folder_that_is_missing_is_said_by_the_callers_name(package: Path, tmp_path: Path):
    target = tmp_path / "missing" / "net.zip"
    with pytest.raises(FileNotFoundError) as caught:
        anyshape.load(package).save(target)
    assert caught.value.filename == str(target)


def test_code_of_the_program_cannot_be_saved(tmp_path: Path):
    exported = anyshape.export(lambda x: Doubled.apply(x), (torch.ones(3),))
    torch.testing.assert_close(exported(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(CannotExport, match="code of the program"):
        exported.save(tmp_path / "x.zip")
    assert list(tmp_path.iterdir()) == []


# -- packages of earlier versions ------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.zip")), ids=lambda file: file.stem)
def test_packages_of_earlier_versions_keep_loading(file: Path):
    loaded = anyshape.load(file)
    examples = json.loads(file.with_suffix(".json").read_text())
    for example in examples:
        ids = torch.tensor(example["ids"])
        found = loaded(ids)["answer"].logits
        torch.testing.assert_close(found, torch.tensor(example["logits"]))


def test_there_is_a_package_of_every_version():
    kept = {file.stem.rpartition("_")[2] for file in FIXTURES.glob("*.zip")}
    assert kept >= {f"v{version}" for version in range(1, packages.VERSION + 1)}


class Holder:
    """Things by names that a module has itself, and by one that it does not."""

    def __init__(self) -> None:
        for name in ("train", "type", "named", "state_dict"):
            setattr(self, name, nn.Linear(4, 4))
        self.forward = torch.randn(4)


class OwnNames(nn.Module):
    """Modules by names that the class has already: they are found in `_modules` alone."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("train", "type", "named", "state_dict"):
            setattr(self, name, nn.Linear(4, 4))
        self.__dict__["hidden"] = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        held: Any = self._modules
        x = held["train"](held["type"](held["named"](x)))
        return self.__dict__["hidden"](held["state_dict"](x))


holder, own_names = Holder(), OwnNames()


@pytest.mark.parametrize(
    "program",
    [
        lambda x: holder.train(holder.type(holder.named(x))) * holder.forward,  # pyright: ignore[reportAttributeAccessIssue] set by setattr
        own_names,
        lambda x: own_names(x) + holder.state_dict(x),  # pyright: ignore[reportAttributeAccessIssue] set by setattr
    ],
    ids=["of an object", "of a module", "of both, as globals"],
)
def test_weights_by_names_that_every_module_has(program: Any, tmp_path: Path):
    with torch.no_grad():
        exported = anyshape.export(program, (torch.ones(3, 4),), dynamic_shapes={"x": "n 4"})
        exported.save(tmp_path / "it.zip")
        for each in (exported, anyshape.load(tmp_path / "it.zip")):
            x = torch.randn(5, 4)
            torch.testing.assert_close(each(x), program(x))


class Counting(nn.Module):
    """Buffers that the program changes by augmented assignment, which sets the attribute anew."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(4), persistent=False)
        self.calls: Tensor
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.calls += x.shape[0]
        self.mean *= 0.5
        self.mean += x.sum(0)
        return x + self.mean * self.calls


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Counting(), Counting()

    def forward(self, x: Tensor) -> Tensor:
        self.second.calls -= 1
        return self.second(self.first(x)) + self.first.calls


@pytest.mark.parametrize("kind", [Counting, Nested])
def test_buffers_that_are_set_to_themselves(kind: type[nn.Module], tmp_path: Path):
    module, eager = kind(), kind()
    exported = anyshape.export(module, (torch.ones(3, 4),), dynamic_shapes={"x": "n 4"})
    assert all(not each.any() for each in module.buffers()), "an export changes nothing"
    exported.save(tmp_path / "it.zip")
    loaded = anyshape.load(tmp_path / "it.zip")
    for n in (3, 1, 0, 7):
        x = torch.randn(n, 4)
        expected = eager(x)
        for each in (exported, loaded):
            torch.testing.assert_close(each(x), expected)
    for name, value in eager.named_buffers():
        torch.testing.assert_close(loaded.state_dict()[name], value)
        torch.testing.assert_close(module.get_buffer(name), value)


class Sets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.last = x.sum(0)
        return x


seen: list[Tensor] = []
by_name: dict[str, Tensor] = {}


def _stores(x: Tensor) -> Tensor:
    by_name["x"] = x
    return x


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (Sets(), r"_buffers.*\['last'\]`, which it sets"),
        (Sets(), r"in place: `self.last.copy_\(value\)`"),
        (lambda x: [seen.append(x * 2), x], r"a call of `list.append` on `G\['seen'\]`"),
        (lambda x: [print(x.shape[0]), x], "a call of `print`"),
        (lambda x: {"rows": f"{x.shape[0]} rows"}, "a text that is made of a size"),
        (_stores, r"`G\['by_name'\]\['x'\]`, which it sets"),
        (lambda x: defaultdict(list, x=x), "a call of `defaultdict`"),
    ],
)
def test_what_is_more_than_data_is_said_in_the_programs_words(program: Any, says: str):
    with pytest.raises(CannotExport, match=says):
        anyshape.export(program, (torch.ones(3, 4),), dynamic_shapes={"x": "n 4"})
