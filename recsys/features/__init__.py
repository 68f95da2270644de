"""The kinds of features, one file each, by what `dataset.json` calls them."""

from recsys.features.feature import Feature as Feature
from recsys.features.id import Id as Id
from recsys.features.image import Image as Image
from recsys.features.number import Number as Number

FEATURES: dict[str, type[Feature]] = {
    kind.type: kind for kind in (Id, Image, Number)
}
