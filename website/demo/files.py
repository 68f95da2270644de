"""The files of the demonstration, by their paths on the site."""

from pathlib import Path

FOLDER = Path(__file__).parent
_RUNTIME = Path("build/npm/node_modules/onnxruntime-web/dist")
_MODEL = Path("build/demo")


def demo_files(root: Path) -> dict[str, Path]:
    """Returns the file for each path on the site.

    Args:
        root: Folder of the repository, where `make site` has trained the model
            and installed onnxruntime-web.

    Raises:
        FileNotFoundError: It has not.
    """
    files = {
        "demo/demo.js": FOLDER / "demo.js",
        "demo/ort.mjs": root / _RUNTIME / "ort.wasm.min.mjs",
    }
    for name in ("ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        files[f"demo/{name}"] = root / _RUNTIME / name
    for name in ("ranker.onnx", "retrieval.onnx", "demo.json", "expected.json"):
        files[f"demo/{name}"] = root / _MODEL / name
    for file in files.values():
        if not file.is_file():
            raise FileNotFoundError(
                f"{file} is missing: `make site` makes it, and the pages"
            )
    return files
