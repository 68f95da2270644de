from recsys.kind import Kind


class Feature(Kind):
    """A kind of feature: what a model may look at."""
