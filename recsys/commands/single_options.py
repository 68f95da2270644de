from typing import Any

from typer.core import TyperCommand


class SingleOptions(TyperCommand):
    """A command that refuses an option that is given twice, but for lists.

    Otherwise the last of them would hold, and the others be dropped without a
    word. Its help lists the options under the headings that they name as
    `rich_help_panel`, each name in full in a terminal of any width.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in given:
            if given.count(option) > 1 and not getattr(
                option, "multiple", True
            ):
                ctx.fail(
                    f"`{option.opts[0]}` must be given once. "
                    f"Received: {given.count(option)} times"
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
