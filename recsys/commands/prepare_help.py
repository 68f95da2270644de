import inspect
import textwrap
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from recsys.commands.options import SingleOptions
from recsys.commands.options import described_arguments


class PrepareHelp(SingleOptions):
    """The command `prepare`, with the options of a data set in its help.

    `recsys prepare NAME --help` lists those of the data set NAME, as they are
    given to `--option`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # The help is written before the arguments are taken.
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the options, and those of the data set that is named."""
        from recsys.data.prepare import DATA_SETS

        super().format_options(ctx, formatter)
        named = [word for word in ctx.meta[_WORDS] if word in DATA_SETS]
        if not named:
            with formatter.section("Data sets"):
                formatter.write(_listed(DATA_SETS, formatter))
                formatter.write_text(
                    "recsys prepare NAME --help lists the options of each."
                )
            return
        name = named[0]
        records = _records(DATA_SETS[name])
        with formatter.section(f"Options of {name}, as --option NAME=VALUE"):
            if records:
                formatter.write_dl(records)
            else:
                formatter.write_text("None.")


_WORDS = f"{__name__}.words"


def _listed(names: Iterable[str], formatter: Any) -> str:
    """Names in lines that fit; no name is parted at its hyphens."""
    indent = " " * formatter.current_indent
    lines = textwrap.fill(
        ", ".join(names),
        formatter.width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return f"{lines}\n"


def _records(data_set: Callable[..., object]) -> list[tuple[str, str]]:
    """The options of a data set with what they mean."""
    documented = (
        data_set if inspect.isfunction(data_set) else type(data_set).__call__
    )
    texts = described_arguments(inspect.getdoc(documented) or "")
    options = list(inspect.signature(data_set).parameters.values())[3:]
    return [
        (
            option.name,
            " ".join(filter(None, [texts.get(option.name), _of(option)])),
        )
        for option in options
    ]


def _of(option: inspect.Parameter) -> str:
    """The default of an option, as the help writes that of others."""
    if option.default is option.empty:
        return "[required]"
    if option.default in (None, ()):
        return ""
    return f"[default: {option.default}]"
