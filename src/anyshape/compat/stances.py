"""`torch.compiler.set_stance`: at once, in a `with` block, or for a function."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any, Final

from anyshape import api
from anyshape.compat.unmapped import note
from anyshape.dispatch.stance import Stance

_STANCES: Final = {
    "default": Stance.COMPILE,
    "force_eager": Stance.EAGER,
    "eager_on_recompile": Stance.EAGER_ON_MISS,
    "fail_on_recompile": Stance.FAIL_ON_MISS,
    "eager_then_compile": Stance.EAGER_FIRST,
    "aot_eager_then_compile": Stance.EAGER_FIRST,
}


class set_stance(ContextDecorator):
    """Holds from here on; as a context manager or decorator, only there."""

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}: {', '.join(_STANCES)}")
        wishes = {
            "skip_guard_eval_unsafe": skip_guard_eval_unsafe,
            "force_backend": force_backend is not None,
        }
        for name, is_wished in wishes.items():
            if is_wished:
                note(f"torch.compiler.set_stance({name}=...)")
        self._stance = _STANCES[stance]
        self._before = [api.set_stance(self._stance)]
        self._is_entered = False

    def __enter__(self) -> None:
        # The first time it holds already.
        if self._is_entered:
            self._before.append(api.set_stance(self._stance))
        self._is_entered = True

    def __exit__(self, *_: object) -> None:
        api.set_stance(self._before.pop())

    def __call__(self, func: Any) -> Any:
        api.set_stance(self._before.pop())
        self._is_entered = True
        return super().__call__(func)
