"""Hooks for programs that are given functions made anew for each call.

Such functions are known by their code. Where a program tells one from others, by identity, as a key
or by its text, it is known by identity again.
"""

from __future__ import annotations

from typing import Any

from anyshape.capture.hooks.hooks import Hooks


class PinningHooks(Hooks):
    def same(self, a: object, b: object) -> bool:
        # To compare with None, as with a default, tells no functions apart.
        if a is not None and b is not None:
            self.tracer.pin((a, b))
        return super().same(a, b)

    def compare(self, name: str, a: object, b: object) -> object:
        self.tracer.pin((a, b))
        return super().compare(name, a, b)

    def contains(self, item: Any, container: object) -> bool:
        self.tracer.pin((item, container))
        return super().contains(item, container)

    def binary(self, name: str, a: object, b: object) -> object:
        self.tracer.pin((a, b))
        return super().binary(name, a, b)

    def item(self, obj: Any, key: object) -> Any:
        self.tracer.pin(key)
        return super().item(obj, key)

    def set_item(self, obj: Any, key: object, value: object) -> None:
        self.tracer.pin(key)
        super().set_item(obj, key, value)

    def delete_item(self, obj: Any, key: Any) -> None:
        self.tracer.pin(key)
        super().delete_item(obj, key)

    def key(self, key: object) -> Any:
        self.tracer.pin(key)
        return super().key(key)

    def members(self, value: object) -> object:
        self.tracer.pin(value)
        return super().members(value)

    def format(self, value: object, conversion: str | None, spec: str) -> str:
        self.tracer.pin(value)
        return super().format(value, conversion, spec)

    def observe(self, value: object, protocol: str) -> object:
        self.tracer.pin(value)
        return super().observe(value, protocol)

    def operand(self, value: object) -> Any:
        self.tracer.pin(value)
        return super().operand(value)

    def hashed(self, key: object) -> None:
        self.tracer.pin(key)
        super().hashed(key)
