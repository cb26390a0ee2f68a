"""What all parameter groups are made of: their base, and the types of numbers with their bounds."""

from __future__ import annotations

from typing import Annotated

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Vec3 = tuple[float, float, float]
PositiveVec3 = tuple[Positive, Positive, Positive]
NonNegativeVec3 = tuple[NonNegative, NonNegative, NonNegative]
RateHz = Annotated[float, msgspec.Meta(ge=0.01, le=2000)]
DelayS = Annotated[float, msgspec.Meta(ge=0, le=2)]
MassKg = Annotated[float, msgspec.Meta(ge=1e-6)]
Moment = Annotated[float, msgspec.Meta(ge=1e-12)]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parameter groups: immutable, and an unknown key is an error."""
