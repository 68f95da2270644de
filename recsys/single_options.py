from typing import Any

from typer.core import TyperCommand


class SingleOptions(TyperCommand):
    """A command that refuses an option that is given twice, but for lists.

    Otherwise the last of them would hold, and the others be dropped without a
    word.
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
