"""What a user says about the shapes of arguments: named sizes, their ranges and relations.

In: a spec (`{"x": "batch seq 64", "mask": (batch, 2 * seq + 1)}`), the signature of the function,
the arguments of a call. Out: which size each dimension has in terms of the names, or what is wrong
and where.

    batch = Dim("batch", max=4096)
    contract = Contract(Shapes({"x": (batch, "_")}, batch % 8 == 0), signature, "f")
    contract.match({"x": x}, is_tensor)

It must not know what a graph or a guard is, and does not import torch.
"""

from anyshape.shapes.annotations import shapes_of_annotations
from anyshape.shapes.contract import CallShapes, Contract, ContractDim
from anyshape.shapes.dims import Dim, DimExpr, Marker, Relation
from anyshape.shapes.spec import Shapes

__all__ = [
    "CallShapes",
    "Contract",
    "ContractDim",
    "Dim",
    "DimExpr",
    "Marker",
    "Relation",
    "Shapes",
    "shapes_of_annotations",
]
