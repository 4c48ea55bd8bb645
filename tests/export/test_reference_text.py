"""The statements of reference/export_auto_dynamic_shapes.md, one test each; its caveats, solved."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import Dim
from anyshape.errors import BadShapeSpec, ConstraintViolation, ExportInputError


class Foo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


def inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(6), torch.randn(6)


class Narrowed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 3 else x


class Fixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(2, 3)


def ranges(exported: anyshape.Exported) -> dict[str, tuple[int | None, int | None]]:
    return {n: (s.range.lower, s.range.upper) for n, s in exported.symbols.items()}


# -- the usage -------------------------------------------------------------------------------------


def test_auto_is_dynamic_and_refines_ranges_without_complaining():
    exported = anyshape.export(Narrowed(), (torch.randn(6),), dynamic_shapes={"x": (Dim.AUTO,)})
    assert ranges(exported) == {"s0": (4, None)}


def test_auto_sets_replacements_by_equality():
    exported = anyshape.export(Foo(), inputs(), dynamic_shapes={"x": Dim.AUTO, "y": Dim.AUTO})
    assert exported.symbols["s0"].places == ("x.shape[0]", "y.shape[0]")
    assert len(exported.symbols) == 1


def test_auto_is_even_static_without_complaining():
    exported = anyshape.export(Fixed(), (torch.randn(6),), dynamic_shapes={"x": (Dim.AUTO,)})
    assert exported.symbols == {}
    with pytest.raises(ExportInputError, match=r"x.shape\[0\] is 8, where it is static: 6"):
        exported(torch.randn(8))


@pytest.mark.parametrize("said", [None, 6, Dim.STATIC])
def test_none_int_and_static_are_static(said: object):
    exported = anyshape.export(Narrowed(), (torch.randn(6),), dynamic_shapes={"x": (said,)})
    assert exported.symbols == {}
    with pytest.raises(ExportInputError):
        exported(torch.randn(7))


def test_an_int_that_is_not_the_size_is_an_error():
    with pytest.raises(ConstraintViolation, match=r"x\.shape"):
        anyshape.export(Narrowed(), (torch.randn(6),), dynamic_shapes={"x": (5,)})


def test_a_dim_complains_if_its_range_is_invalid():
    with pytest.raises(ConstraintViolation) as caught:
        anyshape.export(Narrowed(), (torch.randn(6),), dynamic_shapes={"x": (Dim("n", max=9),)})
    assert "return x * 2 if x.shape[0] > 3 else x" in str(caught.value)
    assert "n = Dim('n', min=4, max=9)" in str(caught.value)


def test_a_dim_complains_if_related_dims_are_unspecified():
    with pytest.raises(ConstraintViolation) as caught:
        anyshape.export(Foo(), inputs(), dynamic_shapes={"x": (Dim("n"),), "y": None})
    assert "y.shape[0] is 6, and the spec does not say so" in str(caught.value)
    exported = anyshape.export(Foo(), inputs(), dynamic_shapes=caught.value.suggested)
    assert exported.symbols["n"].places == ("x.shape[0]", "y.shape[0]")


def test_a_derived_dim_is_strict():
    n = Dim("n", max=10)
    with pytest.raises(ConstraintViolation):
        anyshape.export(
            Foo(), (torch.randn(5), torch.randn(5)), dynamic_shapes={"x": (n,), "y": (2 * n - 5,)}
        )


def test_what_is_not_named_is_static():
    exported = anyshape.export(
        lambda x: x.sum(1), (torch.randn(3, 4),), dynamic_shapes={"x": {0: Dim("n")}}
    )
    exported(torch.randn(9, 4))
    with pytest.raises(ExportInputError, match=r"x.shape\[1\] is 5, where it is static: 4"):
        exported(torch.randn(9, 5))


def test_auto_static_and_dim_in_one_tensor():
    """`{0: AUTO, 1: None, 2: Dim("dx")}`, as the text's example has it."""
    exported = anyshape.export(
        lambda x: x * x.shape[2],
        (torch.randn(3, 32, 5),),
        dynamic_shapes={"x": {0: Dim.AUTO, 1: None, 2: Dim("dx")}},
    )
    assert str(exported.inputs.conditions[-1].value["sizes"]) == "('s0', 32, 'dx')"


# -- caveat 1 --------------------------------------------------------------------------------------

ONE_NAMED = {"x": (Dim.AUTO,), "y": None}


def test_an_auto_input_equal_to_a_static_one_is_reported_not_silently_static():
    with pytest.warns(UserWarning, match=r"x.shape\[0\] is Dim.AUTO and came out static"):
        exported = anyshape.export(Foo(), inputs(), dynamic_shapes=ONE_NAMED)
    assert exported.symbols == {}
    assert "tied to y.shape[0]" in exported.notes[0]
    assert exported.suggested is not None
    assert exported.suggested.spec == {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    again = anyshape.export(Foo(), inputs(), dynamic_shapes=exported.suggested)
    assert again.symbols["s0"].places == ("x.shape[0]", "y.shape[0]")


def test_it_is_promoted_where_that_is_allowed():
    exported = anyshape.export(Foo(), inputs(), dynamic_shapes=ONE_NAMED, promote=True)
    assert exported.symbols["s0"].places == ("x.shape[0]", "y.shape[0]")
    for size in (0, 1, 2, 9):
        x, y = torch.randn(size), torch.randn(size)
        torch.testing.assert_close(exported(x, y), x + y)


def test_promotion_leaves_alone_what_has_nothing_to_do_with_it():
    def program(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return (x + y) * z.sum()

    exported = anyshape.export(
        program, (*inputs(), torch.randn(6)), dynamic_shapes={"x": (Dim.AUTO,)}, promote=True
    )
    assert exported.symbols["s0"].places == ("x.shape[0]", "y.shape[0]")
    with pytest.raises(ExportInputError, match=r"z.shape\[0\] is 5, where it is static: 6"):
        exported(torch.randn(5), torch.randn(5), torch.randn(5))


# -- caveat 2 --------------------------------------------------------------------------------------


def test_auto_and_dims_compose():
    spec = {"x": (Dim.AUTO,), "y": {0: Dim("dx", min=3, max=6)}}
    exported = anyshape.export(Foo(), inputs(), dynamic_shapes=spec)
    assert ranges(exported) == {"dx": (3, 6)}
    assert set(exported.symbols["dx"].places) == {"x.shape[0]", "y.shape[0]"}
    for size in (3, 4, 5, 6):
        x, y = torch.randn(size), torch.randn(size)
        torch.testing.assert_close(exported(x, y), x + y)
    for size in (2, 7):
        with pytest.raises(ExportInputError, match=r"where 3 <= dx <= 6"):
            exported(torch.randn(size), torch.randn(size))
    with pytest.raises(ExportInputError, match=r"is 4, where dx is 3"):
        exported(torch.randn(4), torch.randn(3))


def test_a_word_for_the_whole_function_is_refused():
    with pytest.raises(BadShapeSpec, match="for the whole function"):
        anyshape.export(Foo(), inputs(), dynamic_shapes=Dim.AUTO)
