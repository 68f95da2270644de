from recsys.features.feature import Feature


class Image(Feature):
    """Images, the one feature of their data set.

    They are no column of a table: `recsys.data.image_dataset` checks them.
    """

    type = "image"
