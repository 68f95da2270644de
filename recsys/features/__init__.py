"""The kinds of features, one file each, by what `dataset.json` calls them."""

from recsys.features.bucket import Bucket as Bucket
from recsys.features.feature import Feature as Feature
from recsys.features.hash import Hash as Hash
from recsys.features.id import Id as Id
from recsys.features.ids import Ids as Ids
from recsys.features.image import Image as Image
from recsys.features.number import Number as Number
from recsys.features.sequence import Sequence as Sequence
from recsys.features.vector import Vector as Vector

FEATURES: dict[str, type[Feature]] = {
    kind.type: kind
    for kind in (Bucket, Hash, Id, Ids, Image, Number, Sequence, Vector)
}
