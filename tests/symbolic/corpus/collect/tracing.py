"""Runs programs with symbolic sizes: on fake tensors, under torch.compile and torch.export."""

from __future__ import annotations

import collections
import contextlib
import logging
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch._dynamo.config
import torch.fx.experimental._config as fx_config
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from tests.symbolic.corpus.collect.recorder import Recorder

PROGRAM_SECONDS = 15

Program = Callable[..., Any]


class TooSlow(BaseException):
    """A program ran past its time limit; what it asked until then is kept."""


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(signum: Any, frame: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Tracer:
    """Runs programs, and counts those that stop early."""

    def __init__(self) -> None:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        torch._dynamo.config.fake_tensor_cache_enabled = False
        torch._dynamo.config.capture_scalar_outputs = True
        torch._dynamo.config.capture_dynamic_output_shape_ops = True
        self.recorder = Recorder()
        self.recorder.install()
        self.failures: collections.Counter[str] = collections.Counter()

    def fake(
        self,
        name: str,
        program: Program,
        *inputs: Any,
        unbacked: tuple[int, ...] = (),
        duck: bool = False,
        static: tuple[int, ...] = (),
    ) -> None:
        """On fake tensors of symbolic sizes; `unbacked`, `static`: which inputs are so."""
        self.recorder.begin(name)
        fx_config.use_duck_shape = duck
        env = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
        backed = DimDynamic.DUCK if duck else DimDynamic.DYNAMIC
        with self.noting_failure(name):
            fakes: list[Any] = []
            for i, x in enumerate(inputs):
                if not isinstance(x, torch.Tensor):
                    fakes.append(x)
                elif i in static:
                    fakes.append(mode.from_tensor(x, static_shapes=True))
                else:
                    kind = DimDynamic.UNBACKED if i in unbacked else backed
                    fakes.append(_symbolic(mode, x, kind, f"x{i}"))
            with _time_limit(PROGRAM_SECONDS), enable_python_dispatcher(), mode, torch.no_grad():
                program(*fakes)

    def each(self, name: str, programs: Iterable[Program], *inputs: Any, **options: Any) -> None:
        for i, program in enumerate(programs):
            self.fake(f"{name} {i}", program, *inputs, **options)

    def compiled(self, name: str, program: Program, *inputs: Any) -> None:
        self.recorder.begin(f"torch.compile {name}")
        fx_config.use_duck_shape = False
        torch._dynamo.reset()
        with (
            self.noting_failure(f"compile {name}"),
            _time_limit(3 * PROGRAM_SECONDS),
            torch.no_grad(),
        ):
            torch.compile(program, backend="eager", dynamic=True)(*inputs)

    def both(self, name: str, program: Program, *inputs: Any, **options: Any) -> None:
        self.fake(name, program, *inputs, **options)
        self.compiled(name, program, *inputs)

    def exported(self, name: str, program: Program, inputs: Any, dynamic_shapes: Any) -> None:
        self.recorder.begin(f"torch.export {name}", fresh=False)
        module = program
        if not isinstance(module, nn.Module):
            module, dynamic_shapes = _Wrapped(program), (dynamic_shapes,)
        with self.noting_failure(f"export {name}"):
            torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes, strict=False)

    @contextlib.contextmanager
    def noting_failure(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, TooSlow) as error:
            self.failures[f"{name}: {type(error).__name__}: {str(error)[:90]}"] += 1

    def report(self, stage: str) -> None:
        print(f"{stage}: {len(self.recorder.rows)} rows", flush=True)


class _Wrapped(nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, *args: Any) -> Any:
        return self.program(*args)


def _symbolic(mode: FakeTensorMode, x: torch.Tensor, kind: DimDynamic, name: str) -> torch.Tensor:
    context = StatelessSymbolicContext(
        dynamic_sizes=[kind] * x.dim(), constraint_sizes=[None] * x.dim()
    )
    return mode.from_tensor(x, symbolic_context=context, source=ConstantSource(name))
