from pathlib import Path

from recsys.reporting.run.overview import overview
from recsys.reporting.run.overview import scores_table
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained


def summary(run: Trained) -> Section:
    """Returns what the run is, and what it is better than.

    Args:
        run: The run.
    """
    shown = overview(run.run)
    facts = {"run": str(Path(run.run.folder).resolve()), **shown["facts"]}
    return Section(
        "Summary",
        "Losses and scores are exact over the whole splits. Constant: the "
        "best prediction that looks at no feature, in the test split.",
        [
            Table("The run", ["", ""], [list(fact) for fact in facts.items()]),
            scores_table(shown["scores"]),
        ],
        findings=shown["verdicts"],
    )
