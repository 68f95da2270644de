from pathlib import Path
from typing import Any

from recsys.api.export import export_to
from recsys.api.promotion.checks import checks_of
from recsys.api.promotion.retrieval import run_retrieval_checks
from recsys.data import Dataset
from recsys.data import load
from recsys.errors import DataError
from recsys.errors import FileError
from recsys.errors import RunError
from recsys.errors.shown import shown
from recsys.exporting.served_scores import ServedScores
from recsys.files.folders import check_vacant
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.measuring.promotion.rules import PromotionRules
from recsys.reporting.promotion_page import promotion_page
from recsys.runs.run import Run
from recsys.serving.promotion import NO
from recsys.serving.promotion import YES
from recsys.serving.promotion import model_checksum
from recsys.serving.promotion import write_promotion
from recsys.serving.runner import holds_model
from recsys.tuning.yaml_file import read_yaml


def promote(
    old: str | Path,
    new: str | Path,
    data: str | Path,
    out: str | Path,
    rules: str | Path | None = None,
    split: str = "test",
) -> JsonObject:
    """Decides whether a new model takes over from an old one.

    Both are compared as they are served, on the same rows: the losses of all
    tasks and the calibration, by intervals over users; the retrieval, and
    where the data have propensities the off-policy value, likewise; the slices
    of rows where the new model is worst; the drift of features, ids, labels
    and predictions since training; latency and size. The new model is accepted
    if every check passes.

    Args:
        old: The model that is served: a run folder, an exported model, or a
            folder of versions, of which the highest counts.
        new: The other one, likewise. Runs are exported to `out/old` and
            `out/new`.
        data: Data folder of the day, whose labels neither was trained on.
        out: A new or empty folder: `promotion.json`, the page
            `promotion.html` with its figures, and the same as Markdown,
            `promotion.md`, are written there. The verdict is also written
            beside the new model, with its checksum, for `recsys serve
            --promoted-only`.
        rules: YAML file with fields of
            `recsys.measuring.promotion.rules.PromotionRules`. Its defaults
            unless given.
        split: Split of the data on which both are compared. The training data
            are the training split of the new run's data, where they are in
            place, and that of `data` otherwise.

    Returns:
        What `promotion.json` holds: "verdict", "yes" or "no"; "checks", each
        with section, name, whether it passed, value, limit and interval;
        "reasons", the names of those that did not pass; "rules"; and the
        places and checksums of both models.

    Raises:
        DataError: The data are missing or wrong, or not those of the models.
        FileError: There is no model, or the rules are wrong.
        RunError: `out` is not empty.
    """
    place = Path(out)
    checked = _read_rules(rules)
    dataset = load(data, streaming=False)
    if not isinstance(dataset, Dataset):
        raise DataError.at(data, "tables", "images")
    with sole_writer(place):
        check_vacant(place)
        trained = _training_data(new, dataset)
        folders = {
            "old": _served(Path(old), place / "old"),
            "new": _served(Path(new), place / "new"),
        }
        models = {name: ServedScores(folders[name]) for name in folders}
        for model in models.values():
            model.check_fits(dataset.schema.features, data)
        checks = checks_of(
            models["old"], models["new"], dataset, split, trained, checked
        )
        checks += run_retrieval_checks(old, new, dataset, split, checked)
        reasons = [check.name for check in checks if not check.passed]
        verdict = NO if reasons else YES
        content: JsonObject = {
            "verdict": verdict,
            "reasons": reasons,
            "checks": [check.to_json() for check in checks],
            "rules": checked.__dict__,
            "data": str(data),
            "split": split,
            "rows": len(dataset.split(split)),
            **{
                name: {
                    "place": str({"old": old, "new": new}[name]),
                    "checksum": model_checksum(folder),
                }
                for name, folder in folders.items()
            },
        }
        write_json(place / "promotion.json", content)
        promotion_page(content).write(place, "promotion.html", "promotion.md")
        write_promotion(
            folders["new"],
            verdict,
            {"reasons": reasons, "old": content["old"], "data": str(data)},
        )
    return content


def _read_rules(file: str | Path | None) -> PromotionRules:
    if file is None:
        return PromotionRules()
    content: Any = read_yaml(Path(file))
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise FileError.at(file, "rules by name", shown(content))
    try:
        return PromotionRules(**content)
    except (TypeError, ValueError) as error:
        raise FileError(f"{file}: {error}") from None


def _training_data(new: str | Path, dataset: Dataset) -> Dataset:
    """The data that the new model was trained on, if they can be had."""
    run = Run(new)
    if run.config.is_file():
        source = run.read_config().data
        if Path(source).is_dir():
            trained = load(source, streaming=False)
            if isinstance(trained, Dataset):
                return trained
    return dataset


def _served(place: Path, out: Path) -> Path:
    """The folder of a model as it is served."""
    if holds_model(place):
        return place
    if Run(place).config.is_file():
        folder, _ = export_to(place, out, version=False)
        return folder
    versions = {
        int(folder.name): folder
        for folder in (place.iterdir() if place.is_dir() else ())
        if folder.name.isdigit() and holds_model(folder)
    }
    if not versions:
        raise RunError(
            f"{place}: expected a run, an exported model, or versions of one. "
            f"Received: {'none of them' if place.exists() else 'no folder'}"
        )
    return versions[max(versions)]
