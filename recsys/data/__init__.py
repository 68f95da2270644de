"""Data: raw downloads, the common split format, and what checks it."""

from recsys.data.dataset import Dataset as Dataset
from recsys.data.datasets.synthetic import synthetic as synthetic
from recsys.data.formats.table import read_table as read_table
from recsys.data.formats.table import write_table as write_table
from recsys.data.from_table import dataset_from_table as dataset_from_table
from recsys.data.image_dataset import ImageDataset as ImageDataset
from recsys.data.image_dataset import Images as Images
from recsys.data.load import load as load
from recsys.data.negative_sampling import with_negatives as with_negatives
from recsys.data.prepare import prepare as prepare
from recsys.data.schema import Schema as Schema
from recsys.data.split import Split as Split
from recsys.errors import DataError as DataError
