"""What a GPU's instructions give, for this processor."""

from __future__ import annotations

import re

_HEAD = "  %d = fpext float %x to double\n"
#: In float64, times how much off they may be.
_EXACT = {
    "ex2.approx.f32": "call double @llvm.exp2.f64(double %d)",
    "ex2.approx.ftz.f32": "call double @llvm.exp2.f64(double %d)",
    "rcp.approx.ftz.f32": "fdiv double 1.0, %d",
    "rsqrt.approx.f32": "fdiv double 1.0, %root",
}
_SATURATED = """\
  %above = fcmp ogt float %x, 0.0
  %least = select i1 %above, float %x, float 0.0
  %below = fcmp olt float %least, 1.0
  %y = select i1 %below, float %least, float 1.0
"""


#: Two floats as bf16: their bits, rounded by integers.
_PAIR = (
    "".join(
        f"""\
  %{name}.bits = bitcast float %{name} to i32
  %{name}.down = lshr i32 %{name}.bits, 16
  %{name}.odd = and i32 %{name}.down, 1
  %{name}.most = add i32 %{name}.bits, 32767
  %{name}.sum = add i32 %{name}.most, %{name}.odd
  %{name}.nan = fcmp uno float %{name}, %{name}
  %{name}.kept = select i1 %{name}.nan, i32 2147418112, i32 %{name}.sum
"""
        for name in ("low", "high")
    )
    + """\
  %first = lshr i32 %low.kept, 16
  %second = and i32 %high.kept, -65536
  %y = or i32 %first, %second
"""
)


def for_host(text: str, off: float = 0.0) -> str:
    """The text with other code for these instructions; their results are off by a part of them."""
    text = re.sub(r'  %y = call i32 asm "cvt.rn.bf16x2[^\n]*\n', _PAIR, text)

    def body(found: re.Match[str]) -> str:
        name = found[1]
        if name == "cvt.sat.f32.f32":
            return _SATURATED
        root = "  %root = call double @llvm.sqrt.f64(double %d)\n" if "sqrt" in name else ""
        exact = f"  %e = {_EXACT[name]}\n  %o = fmul double %e, {1.0 + off!r}\n"
        if "ftz" not in name:
            return f"{_HEAD}{root}{exact}  %y = fptrunc double %o to float\n"
        flushed = (
            "  %f = fptrunc double %o to float\n  %a = call float @llvm.fabs.f32(float %f)\n"
            "  %tiny = fcmp olt float %a, 0x3810000000000000\n"
            "  %y = select i1 %tiny, float 0.0, float %f\n"
        )
        return f"{_HEAD}{root}{exact}{flushed}"

    text = re.sub(r'  %y = call float asm "(\S+) [^\n]*\n', body, text)
    declared = [f"declare double @llvm.{name}.f64(double)" for name in ("exp2", "sqrt")]
    declared.append("declare float @llvm.fabs.f32(float)")
    return text + "".join(f"\n{each}" for each in declared if each not in text)
