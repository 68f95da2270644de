import os
import shutil
from dataclasses import replace
from pathlib import Path

from recsys.api.train import train
from recsys.config.train_config import TrainConfig
from recsys.data.formats.suffix import suffix_of
from recsys.data.items_file import ITEMS
from recsys.data.split_dataset import SCHEMA_FILE
from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import check_vacant
from recsys.data.split_dataset import read_schema
from recsys.data.split_files import split_files
from recsys.errors import DataError
from recsys.errors.shown import printable
from recsys.files.atomic import remove_all_unfinished
from recsys.files.atomic import replacing
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.output_lock import sole_writer
from recsys.runs.run import Run
from recsys.terminal.progress import announce


def train_by_part(
    config: TrainConfig | JsonMapping, resume: bool = False
) -> JsonObject:
    """Trains on the parts of a training split one after the other.

    The split is a folder of parts, such as one a day. Each part gets a run of
    its own, `runs/PART` in `config.out`, that goes on from the run of the part
    before, so that ids come and go between parts as `config` says
    (`recsys.features.id_turnover.IdTurnover`). The first one goes on from
    `config.warm_start`, where that is given. All are validated on the one
    validation split, so none is trained on it, too, unless `config` says so.
    `data/PART` is the data folder of a part: links to the
    files of the data folder, or copies where there can be no links.

    Args:
        config: A `TrainConfig`, or a mapping of its fields, for all runs. With
            `streaming`, the rows of each part are streamed.
        resume: Whether to go on where a training of the same configuration
            was interrupted: with the parts that have no finished run, of which
            there may be new ones. Defaults to `False`.

    Returns:
        By part, in their order, what `train` returns.

    Raises:
        DataError: The training split is a single file, the folder `config.out`
            is not empty and `resume` not given, or the data are wrong.
        ValueError: Several processes are to train.
        RunError: As for `train`.
        KeyboardInterrupt: After Ctrl-C.
    """
    if not isinstance(config, TrainConfig):
        config = TrainConfig.from_mapping(config)
    if config.distribute != "none":
        raise ValueError(
            "`distribute` must be 'none' to train part by part. "
            f"Received: distribute={config.distribute!r}"
        )
    if config.refit is None:
        config = replace(config, refit=False)
    out, metrics = Path(config.out), {}
    with sole_writer(out):
        if not resume:
            check_vacant(out)
        check_no_links(out)
        remove_all_unfinished(out)
        parts = _parts(Path(config.data))
        for number, (name, part) in enumerate(parts.items(), start=1):
            run = Run(run_of_part(out, name))
            if run.is_finished:
                metrics[name] = run.read_metrics()
            else:
                announce(f"Part {number} of {len(parts)}: {printable(name)}")
                data = _data_of(part, Path(config.data), out / "data" / name)
                of_part = replace(config, data=str(data), out=str(run.folder))
                metrics[name] = train(of_part, run.config.is_file())
            config = replace(config, warm_start=str(run.folder))
    return metrics


def run_of_part(out: str | Path, name: str) -> Path:
    """Returns the folder of the run of a part.

    Args:
        out: The `config.out` of all of them.
        name: The part's name, that of its file without the ending.
    """
    return Path(out, "runs", name)


def _parts(data: Path) -> dict[str, Path]:
    """The parts of the training split by their names, in their order."""
    read_schema(data)  # It says where there is no data folder.
    files = split_files(data, "train")
    if len(files) == 1:
        raise DataError.at(
            data,
            "a training split that is a folder of parts, such as one a day, "
            "to train part by part",
            f"one file, {files[0].name!r}",
        )
    return {file.name.removesuffix(suffix_of(file)): file for file in files}


def _data_of(part: Path, data: Path, folder: Path) -> Path:
    """Makes the data folder of a part, unless it is there."""
    if folder.is_dir():
        return folder
    with replacing(folder) as unfinished:
        unfinished.mkdir()
        _link(part, unfinished / f"train{suffix_of(part)}")
        for file in sorted(data.iterdir()):
            name = file.name.partition(".")[0]
            if file.name == SCHEMA_FILE or name in (*SPLITS[1:], ITEMS):
                _link(file, unfinished / file.name)
    return folder


def _link(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir()
        for file in source.iterdir():
            _link(file, target / file.name)
        return
    try:
        os.link(source, target)
    except OSError:  # Another file system, or one without links.
        shutil.copyfile(source, target)
