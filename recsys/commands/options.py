"""Command-line options made from the fields of `TrainConfig`."""

import inspect
import re
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import MISSING
from dataclasses import Field
from dataclasses import fields
from typing import Annotated
from typing import Any
from typing import get_args
from typing import get_origin
from typing import get_type_hints

import typer
from typer.core import TyperCommand

from recsys.config.fields import field_texts
from recsys.config.train_config import TrainConfig
from recsys.errors.arguments import Repeated
from recsys.errors.shown import shortened
from recsys.errors.shown import shown
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject

_FIELDS = {
    "Run": (
        *("data", "out", "warm_start", "seed", "backend"),
        *("select", "epochs", "patience", "refit", "refit_towers"),
        *("checkpoint_steps", "metrics_k", "track"),
    ),
    "Model": (
        *("architecture", "preset", "gate", "num_experts", "k"),
        *("gate_options", "expert_units", "expert_dropout", "head_units"),
        *("bottom_units", "shared_experts", "split_experts"),
        *("task_experts", "task_groups", "num_levels", "execution"),
        *("embedding_dim", "interaction", "cross_layers", "unknown_rate"),
        *("scenario_model", "position_model", "hash_feature", "hash_tables"),
        "target_statistics",
    ),
    "Vocabularies, day by day": (
        *("count_days", "evict_after", "max_rows", "evict_by"),
    ),
    "Permutation local search (gates with a +)": (
        *("search_epochs", "search_entropy_weight", "search_normalized"),
        "search_schedule",
    ),
    "Tasks": (
        *("task_weights", "task_options", "weighting"),
        "standardize_targets",
    ),
    "Retrieval": (
        *("retrieval", "retrieval_loss", "retrieval_loss_options"),
        *("retrieval_weight", "retrieval_dim"),
        *("retrieval_correction", "retrieval_ids", "retrieval_penalty"),
        *("retrieval_label", "retrieval_exclude_seen"),
        "retrieval_exclude_seen_targets",
    ),
    "Sequence tower, for retrieval": (
        *("tower", "tower_width", "tower_blocks", "tower_heads"),
        *("tower_dropout", "tower_id_dropout"),
        *("tower_gate", "tower_experts", "tower_k"),
        *("tower_temperature", "tower_spectral", "tower_tokens"),
        "tower_precision",
        *("tower_learning_rate", "tower_weight_decay", "tower_epochs"),
        *("tower_patience", "ranker"),
    ),
    "Optimizer": (
        *("optimizer", "learning_rate", "rate_decay", "epoch_average"),
        "batch_size",
        *("table_optimizer", "table_learning_rate", "min_table_rows"),
    ),
    "Reading of rows": ("train_rows", "streaming", "shuffle_buffer"),
    "Devices": ("distribute", "expert_devices"),
}
GROUPS = {field: title for title in _FIELDS for field in _FIELDS[title]}

OTHERS = "Further options"


def group_of(field: str) -> str:
    """Returns the heading of a field of `TrainConfig`.

    Example:
    >>> group_of("learning_rate")
    'Optimizer'
    """
    return GROUPS.get(field, OTHERS)


# A field cannot have the name of a keyword.
_FLAGS = {"warm_start": "--from"}


def with_config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an option for each field of `TrainConfig`.

    Their help is the text below each field. The command gets what was given on
    the command line, and `None` for what was not.

    Args:
        command: A function that takes the fields as `**fields`, last.
    """
    parameters = list(inspect.signature(command).parameters.values())[:-1]
    hints, texts = get_type_hints(TrainConfig), field_texts(TrainConfig)
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_option(field, hints[field.name], texts[field.name]),
        )
        for field in sorted(fields(TrainConfig), key=_place)
    ]
    signature = inspect.Signature([*parameters, *options])
    command.__signature__ = signature  # type: ignore[attr-defined]
    return command


def given_fields(options: JsonMapping) -> JsonObject:
    """Returns the fields that were given, with pairs parsed as mappings.

    Args:
        options: What a command of `with_config_options` gets.

    Raises:
        ValueError: A pair is not NAME=VALUE, a weight not a number, or a name
            given twice.
    """
    values = {
        name: value for name, value in options.items() if value is not None
    }
    reads: dict[str, Callable[[str], object]] = {
        "gate_options": str,
        "retrieval_loss_options": str,
        "task_groups": str,
        "task_options": str,
        "task_weights": float,
    }
    for name, read in reads.items():
        if name in values:
            values[name] = named_values(name, values[name], read)
    return values


def named_values(
    name: str,
    pairs: Sequence[str],
    read: Callable[[str], object] = str,
    repeats: bool = False,
) -> JsonObject:
    """Parses what was given to an option that may be given several times.

    Args:
        name: Name of the option, for the error message.
        pairs: Texts NAME=VALUE.
        read: Turns a value's text into the value.
        repeats: Whether a NAME may be given again. Its values are `Repeated`
            then: `typed_arguments` knows which of them are lists. Defaults to
            `False`.

    Raises:
        ValueError: A text is not of this form, or gives a NAME again.

    Example:
    >>> named_values("task_weights", ["watch=0.9", "rating=0.1"], float)
    {'watch': 0.9, 'rating': 0.1}
    >>> named_values("option", ["ids=user", "ids=item"], repeats=True)
    {'ids': ('user', 'item')}
    """
    values: dict[str, list[Any]] = {}
    for pair in pairs:
        key, value = _pair(name, pair, read)
        entries = values.setdefault(key, [])
        entries.append(value)
        if len(entries) > 1 and not repeats:
            both = " and ".join(f"{key}={value}" for value in entries)
            raise ValueError(
                f"`{name}` must be given once for each name. Received: "
                f"{shortened(both, 300)}"
            )
    return {
        key: entries[0] if len(entries) == 1 else Repeated(entries)
        for key, entries in values.items()
    }


def _option(field: Field[Any], hint: Any, text: str) -> Any:
    """The annotation that makes a parameter an option."""
    flag = _FLAGS.get(field.name, "--" + field.name.replace("_", "-"))
    if get_origin(hint) is dict:
        return Annotated[
            list[str] | None,
            typer.Option(
                flag.removesuffix("s"),
                metavar="NAME=VALUE",
                help=text,
                rich_help_panel=group_of(field.name),
            ),
        ]
    default = field.default
    if field.default_factory is not MISSING:
        default = " ".join(map(str, field.default_factory()))
    shown = default not in (MISSING, None)
    if bool in get_args(hint):
        flag += f"/--no-{flag.removeprefix('--')}"
    return Annotated[
        hint | None,
        typer.Option(
            flag,
            help=text,
            show_default=str(default) if shown else False,
            rich_help_panel=group_of(field.name),
        ),
    ]


def _place(field: Field[Any]) -> int:
    """Position of a field in the help: by groups, in their order."""
    names = list(GROUPS)
    return names.index(field.name) if field.name in names else len(names)


def described_arguments(text: str) -> dict[str, str]:
    """Returns what a docstring says about each argument.

    Args:
        text: The docstring, as `inspect.getdoc` returns it.

    Example:
    >>> text = inspect.getdoc(named_values)
    >>> described_arguments(text)["name"]
    'Name of the option, for the error message.'
    """
    arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): ((?:.|\n {8})+)", arguments, re.M)
    return {name: " ".join(about.split()) for name, about in entries}


def _pair(
    name: str, text: str, read: Callable[[str], object]
) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    try:
        if key and separator:
            return key, read(value)
    except ValueError:
        pass
    expected = "NAME=NUMBER" if read is float else "NAME=VALUE"
    raise ValueError(f"`{name}` must be {expected}. Received: {shown(text)}")


class SingleOptions(TyperCommand):
    """A command that refuses an option that is given twice, but for lists.

    Otherwise the last of them would hold, and the others be dropped without a
    word. Its help lists the options under the headings that they name as
    `rich_help_panel`, each name in full in a terminal of any width.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, options = self.make_parser(ctx).parse_args(args=list(args))
        for option in options:
            if options.count(option) > 1 and not getattr(
                option, "multiple", True
            ):
                ctx.fail(
                    f"`{option.opts[0]}` must be given once. "
                    f"Received: {options.count(option)} times"
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options, group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                kind = parameter.param_type_name
                title = getattr(parameter, "rich_help_panel", None) or (
                    f"{kind.capitalize()}s"
                )
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)
