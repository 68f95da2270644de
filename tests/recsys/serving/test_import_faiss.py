import os
import sys
from typing import Any

import pytest

from recsys.serving.import_faiss import import_faiss

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")


class Seeing:
    """Sees the environment in which faiss is looked for."""

    def __init__(self) -> None:
        self.policies: list[str | None] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name == "faiss":
            self.policies.append(os.environ.get("OMP_WAIT_POLICY"))
            raise ModuleNotFoundError(name=name)


@pytest.mark.parametrize("given", [None, "active"])
def test_its_threads_sleep_while_they_wait(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    else:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    seeing = Seeing()
    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(sys, "meta_path", [seeing, *sys.meta_path])
    with pytest.raises(ModuleNotFoundError):
        import_faiss()
    assert seeing.policies == [given or "passive"]
    assert os.environ.get("OMP_WAIT_POLICY") == given
