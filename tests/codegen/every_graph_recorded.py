"""`pytest -p tests.codegen.every_graph_recorded tests/native/test_training.py`: other tests, where
every graph with gradients is an emulated CUDA graph from its first call on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import anyshape
from anyshape.backends.native import backend, cuda_graphs, paired_graphs, placed
from anyshape.backends.native.leases import SeenShape
from anyshape.backends.native.paired_graphs import PairedGraphs
from tests.codegen.emulated_graphs import EmulatedDevice


class _All(set[Any]):
    """Gradients of whatever has been asked for before."""

    def __contains__(self, item: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


def _is_hot(self: Any, key: Any, args: Sequence[Any]) -> bool:
    self._look(args)
    return self._key is not None and key not in self._refused and self._is_apart(args)


@pytest.fixture(autouse=True)
def every_graph_is_recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    device = EmulatedDevice()
    monkeypatch.setattr(backend, "_is_by_shape", lambda graph, _: placed.wants_cuda_graphs(graph))
    monkeypatch.setattr(cuda_graphs, "_why_not_on", lambda devices: "")
    for module in (cuda_graphs, paired_graphs):
        monkeypatch.setattr(module, "graph_device", lambda _: device)
    monkeypatch.setattr(PairedGraphs, "_is_hot", _is_hot)
    shape_of = PairedGraphs._shape

    def shape(self: PairedGraphs, key: Any) -> SeenShape:
        found = shape_of(self, key)
        found.returned = _All()
        return found

    monkeypatch.setattr(PairedGraphs, "_shape", shape)
    with anyshape.config.patch(cuda_graphs=True):
        yield
