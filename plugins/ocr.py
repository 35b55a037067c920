"""The words in pictures, by OCR: an example of a converter.

    pip install rapidocr onnxruntime

A package offers it by an entry point for each media type:

    [project.entry-points."resource_server.converters"]
    "image/png" = "ocr:convert"
    "image/jpeg" = "ocr:convert"

Then `file:///scans/letter.png?format=markdown` reads the words of a picture, and searches find
them; `format=webp` still scales it. The models come with the package: a worker has no network.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from resource_server.provider.conversion import ConversionRequest, Converter, Part

MEMORY_BYTES = 2 * 1024 * 1024 * 1024
"""What the worker may use: the models need more than the usual 512 MiB."""


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the words of a picture, line by line."""
    lines = _recognise()(file.read()).txts or ()
    yield Part("\n".join(lines) or "*No words were found in this picture.*")


@functools.cache
def _recognise() -> Callable[[bytes], Any]:
    # Imported by the worker only, which loads the models from the package.
    module: Any = importlib.import_module("rapidocr")
    onnx = "EngineConfig.onnxruntime"  # its threads would count as processes
    threads = {f"{onnx}.intra_op_num_threads": 1, f"{onnx}.inter_op_num_threads": 1}
    recognise: Callable[[bytes], Any] = module.RapidOCR(
        params={**threads, "Global.log_level": "critical"}
    )
    return recognise


_: Converter = convert
