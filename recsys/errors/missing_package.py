# Where a module comes from, of those that not every extra brings along.
_EXTRAS = {
    "faiss": "faiss",
    "jax": "jax",
    "jaxlib": "jax",
    "keras": "tensorflow",
    "lightgbm": "gbdt",
    "mlflow": "mlflow",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "httptools": "serve",
    "orbax": "orbax",
    "prometheus_client": "serve",
    "ray": "ray",
    "starlette": "serve",
    "tensorflow": "tensorflow",
    "tensorflow_recommenders": "tfrs",
    "tf_keras": "tfrs",
    "tf2onnx": "onnx",
    "torch": "torch",
    "umap": "report",
    "uvicorn": "serve",
    "wandb": "wandb",
}
_BACKENDS = ("jax", "jaxlib", "tensorflow", "torch")


def what_to_install(error: ModuleNotFoundError) -> str:
    """Returns what a user has to do about a package that is missing.

    Args:
        error: What an import has raised.

    Raises:
        ModuleNotFoundError: The same error, where a module of this package
            itself is missing: that is no package to be installed.

    Example:
    >>> error = ModuleNotFoundError("No module named 'umap'", name="umap")
    >>> print(what_to_install(error))
    The package umap is missing. Install the extra `report` of keras-moe: \
pip install 'keras-moe[report]', or '.[report]' in its folder.
    """
    package = (error.name or "").partition(".")[0]
    if package in ("", "recsys", "keras_moe"):
        raise error
    extra = _EXTRAS.get(package, "recsys")
    text = (
        f"The package {package} is missing. Install the extra `{extra}` of "
        f"keras-moe: pip install 'keras-moe[{extra}]', or '.[{extra}]' in its "
        "folder."
    )
    if package in _BACKENDS:
        text += " The environment variable KERAS_BACKEND names another backend."
    return text
