"""Two files alone touch what other libraries keep to themselves.

Private is an attribute, method or import whose name begins with one underscore
and is not of this project, and what the lists below name.
"""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

import keras_moe.private_names
import recsys.private_names
from tests.house import PROJECT

pytestmark = pytest.mark.once("torch")

PACKAGES = ("keras_moe", "recsys", "studies")
ADAPTERS = (keras_moe.private_names, recsys.private_names)

# Modules without an underscore whose content may change at will.
MODULES = (
    "jax.experimental.multihost_utils",
    "jax.extend",
    "keras.src",
    "keras_tuner.src",
    "onnxruntime.capi",
    "tensorflow.python",
    "tf2onnx",
    "uvicorn.protocols",
)
# Attributes without an underscore that no reference of their library has.
ATTRIBUTES = {
    "compute_loss_and_updates",  # Keras's trainer on JAX
    "distribute_strategy",  # Keras's trainer on TensorFlow
    "get_bind_params",  # a primitive of JAX
    "jax_state_sync",  # Keras's trainer on JAX
    "mallopt",  # the C library
    "original_scope",  # Keras's `StatelessScope`
    "raw_ops",  # TensorFlow
}
# Documented, in spite of their names.
DOCUMENTED = {"os._exit", "_asdict", "_fields", "_replace"}
# Attributes of layers of this project that its other files read.
OWN = {
    "_described_count",
    "_gate_list",
    "_on_every_device",
    "_place",
    "_places",
    "_takes_pairs",
    "_values_of_layers",
}
ITSELF = ("self", "cls", "super()")


def is_private(name: str) -> bool:
    return re.match("_[^_]", name) is not None


@dataclass
class Names:
    """The names in a file.

    Attributes:
        read: The private attributes, and those listed, that it reads or
            writes: the line, of what, and the attribute's name.
        imported: The line and the full name of each import.
        defined: The private names that it gives to something of its own.
        classes: Those that each derived class at its first level defines.
    """

    read: list[tuple[int, str, str]] = field(default_factory=list)
    imported: list[tuple[int, str]] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    classes: dict[str, set[str]] = field(default_factory=dict)


def names_of(source: str) -> Names:
    tree = ast.parse(source)
    names = Names(defined=set(_defined(tree)))
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(lineno=line, value=value, attr=name)
                | ast.Call(
                    lineno=line,
                    func=ast.Name(
                        "getattr" | "hasattr" | "setattr" | "delattr"
                    ),
                    args=[value, ast.Constant(str(name)), *_],
                )
            ):
                if is_private(name) or name in ATTRIBUTES:
                    names.read.append((line, ast.unparse(value), name))
            case ast.Import(lineno=line, names=aliases):
                names.imported += [(line, alias.name) for alias in aliases]
            case ast.ImportFrom(lineno=line, module=module, names=aliases):
                names.imported += [
                    (line, f"{module}.{alias.name}") for alias in aliases
                ]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.bases:
            own = set(_defined(ast.Module(node.body, [])))
            names.classes |= {node.name: own} if own else {}
    return names


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(name, ast.Store())
                | ast.Attribute(ast.Name("self" | "cls"), name, ast.Store())
            ) if is_private(name):
                yield name


def violations(names: Names, project: set[str]) -> list[str]:
    """The private names of others in a file, each as `line: name`.

    Args:
        names: Those of the file.
        project: All private names that files of the project define.
    """
    found: list[tuple[int, str]] = []
    for line, value, name in names.read:
        known = project if value in ITSELF else names.defined | OWN
        whole = f"{value}.{name}"
        if name not in known and not {whole, name} & DOCUMENTED:
            found.append((line, whole))
    for line, module in names.imported:
        parts = module.split(".")
        listed = any(f"{module}.".startswith(f"{m}.") for m in MODULES)
        if listed or (parts[0] not in PACKAGES and any(map(is_private, parts))):
            found.append((line, module))
    return [f"{line}: {name}" for line, name in sorted(found)]


@cache
def files() -> dict[str, Names]:
    """The names in all files but the adapters, by their paths."""
    adapters = {Path(str(adapter.__file__)) for adapter in ADAPTERS}
    return {
        file.relative_to(PROJECT).as_posix(): names_of(
            file.read_text(encoding="utf-8")
        )
        for package in PACKAGES
        for file in sorted((PROJECT / package).rglob("*.py"))
        if file not in adapters
    }


@cache
def taken() -> set[str]:
    """The private names of others that the adapters touch."""
    found: set[str] = set()
    for adapter in ADAPTERS:
        source = inspect.getsource(adapter)
        read = names_of(source).read
        found |= {name for _, value, name in read if value not in ITSELF}
        found |= set(re.findall(r'"(_[a-z]\w*)"', source))  # For `getattr`.
    return found


def test_only_the_adapters_touch_private_names_of_others() -> None:
    project = set().union(*(names.defined for names in files().values()))
    found = [
        f"{path}:{violation}"
        for path, names in files().items()
        for violation in violations(names, project - taken())
    ]
    assert found == []


def test_what_the_adapters_touch_is_named_nowhere_else() -> None:
    assert {"_flatten_layers", "_retry_queue", "_velocity_hats"} <= taken()
    members = {
        f"{path}: {kind}.{name}"
        for path, names in files().items()
        for kind, own in names.classes.items()
        for name in own & taken()
    }
    assert members == set()


def test_every_name_that_is_allowed_is_defined_and_read_elsewhere() -> None:
    assert set().union(*(names.defined for names in files().values())) >= OWN
    read = {
        name
        for names in files().values()
        for _, value, name in names.read
        if name in OWN and value not in ITSELF
    }
    assert read == OWN


def overridden(kind: type, names: set[str]) -> set[str]:
    """Which of the names that a class defines its foreign bases have, too."""
    foreign = [
        base
        for base in kind.__mro__
        if base.__module__.partition(".")[0] not in PACKAGES
    ]
    return names.intersection(chain.from_iterable(map(vars, foreign)))


def test_no_class_overrides_a_private_name_of_its_base() -> None:
    found = {}
    for path, names in files().items():
        module = path.removesuffix(".py").replace("/", ".")
        for kind, own in names.classes.items():
            if not path.startswith("studies/"):
                derived = getattr(import_module(module), kind)
                found[f"{module}.{kind}"] = overridden(derived, own)
    assert len(found) > 20
    assert {kind: names for kind, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("model._loss_tracker", "model._loss_tracker"),
        ("self.model._flatten_layers()", "self.model._flatten_layers"),
        ("self._momentums", "self._momentums"),
        ("super()._clip_gradients(g)", "super()._clip_gradients"),
        ("dataset._cardinality = 3", "dataset._cardinality"),
        ("getattr(variable, '_layout', None)", "variable._layout"),
        ("hasattr(variable, '_layout')", "variable._layout"),
        ("torch._C", "torch._C"),
        ("tf.raw_ops.ResourceApplyAdam()", "tf.raw_ops"),
        ("model.jax_state_sync()", "model.jax_state_sync"),
        ("import torch._C", "torch._C"),
        ("from torch import _C", "torch._C"),
        ("from keras.src import tree", "keras.src.tree"),
        ("import keras.src", "keras.src"),
        ("from keras import src", "keras.src"),
        ("from jax._src import core", "jax._src.core"),
        ("from jax.extend.core import Literal", "jax.extend.core.Literal"),
        (
            "from jax.experimental import multihost_utils",
            "jax.experimental.multihost_utils",
        ),
        ("from tensorflow.python import ops", "tensorflow.python.ops"),
        ("from tf2onnx import tfonnx", "tf2onnx.tfonnx"),
    ],
)
def test_every_form_is_found(line: str, name: str) -> None:
    source = f"class Own:\n    def call(self):\n        {line}"
    assert violations(names_of(source), {"_own"}) == [f"3: {name}"]


@pytest.mark.parametrize(
    "source",
    [
        "self._own",
        "cls._own",
        "super()._own()",
        "gate._place",
        "os._exit(1)",
        "row._replace(width=3)",
        "value.__class__",
        "def _here():\n    pass\nother._here",
        "from keras_moe.ops._affine import affine",
        "import keras\nkeras.ops.shape(x)",
        "from jax.experimental.sparse import BCOO",
        "from tensorflow.core.protobuf import saved_model_pb2",
        "import keras_tuner.engine.trial",
        "from keras.srcset import this",
    ],
)
def test_what_is_public_or_of_the_project_is_not_found(source: str) -> None:
    assert violations(names_of(source), {"_own"}) == []


def test_a_private_name_that_a_class_overrides_is_found() -> None:
    class Base:
        _hook = 1

    class Derived(Base):
        _hook = 2
        _own = 3

    Base.__module__, Derived.__module__ = "elsewhere", "recsys.here"
    assert overridden(Derived, {"_hook", "_own"}) == {"_hook"}


def members(adapter: ModuleType) -> Iterator[tuple[str, str]]:
    for name, member in vars(adapter).items():
        if getattr(member, "__module__", None) == adapter.__name__:
            yield name, inspect.getdoc(member) or ""


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_function_says_what_it_uses_and_with_which_releases(
    adapter: ModuleType,
) -> None:
    documents = dict(members(adapter))
    assert len(documents) > 10
    for name, document in documents.items():
        # A name, why no public one will do, and releases of a library.
        assert "`" in document, name
        assert ";" in document, name
        assert re.search(
            r"[A-Za-z]\w*\s(\d+\.)+\d+(\s(to|and)\s(\d+\.)+\d+)?\.",
            document,
        ), name


@pytest.mark.parametrize(
    "package", ["keras", "tensorflow", "jax", "torch", "keras-tuner", "tf2onnx"]
)
def test_the_releases_of_a_library_end_below_the_next_minor(
    package: str,
) -> None:
    content = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(content)["project"]
    extras = project["optional-dependencies"].values()
    wanted = chain(project["dependencies"], *extras)
    bounds = [one for one in wanted if re.match(rf"{package}[><=]", one)]
    assert bounds
    for bound in bounds:
        assert re.search(r"<\d+\.\d+$", bound), bound
