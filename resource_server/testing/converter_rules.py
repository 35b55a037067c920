"""Rules of converters: order and totals of parts, ranges, sameness, and damaged documents."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from resource_server.conversion.pool import Conversion, ConverterPool
from resource_server.errors import ConversionError
from resource_server.manifest.wording import one_line
from resource_server.provider.conversion import ConversionRequest

_DAMAGES = 12
"""Number of truncated, and of altered, variants of each document."""
_MAX_RANGES = 5
_DIED = "the converter failed, or reached its limits"


class CheckedConverter:
    """A converter in a confined worker, with the rules that it has broken."""

    def __init__(
        self, reference: str, media_type: str, format: str, modules: Sequence[str | Path]
    ) -> None:
        self._reference = reference
        self._media_type = media_type
        self._format = format
        self._pool = ConverterPool(workers=1, modules=[os.fspath(folder) for folder in modules])
        self.violations: list[str] = []

    def check(self, name: str, document: bytes, *, in_parts: bool) -> None:
        """Check a document, parts of it, and damaged variants."""
        whole = self._converted(name, document)
        if isinstance(whole, ConversionError):
            self._break(name, f"is converted: {whole}")
            return
        if not whole.parts:
            self._break(name, "has at least one part")
        self._check_parts(name, whole)
        if self._converted(name, document) != whole:
            self._break(name, "gives the same parts each time")
        if in_parts:
            self._check_ranges(name, document, whole)
        self._check_damaged(name, document)

    def check_empty(self) -> None:
        """Check a document without a byte, and one of random bytes."""
        dice = random.Random(1)  # noqa: S311 - bytes, no secrets
        for name, data in (("an empty document", b""), ("random bytes", dice.randbytes(5000))):
            self._check_refusal(name, self._converted(name, data))

    def close(self) -> None:
        """End the worker."""
        self._pool.close()

    def _check_parts(self, name: str, conversion: Conversion) -> None:
        numbers = [part.number for part in conversion.parts]
        if any(number < 1 for number in numbers) or numbers != sorted(set(numbers)):
            self._break(name, f"counts its parts up from 1, each once, not {numbers[:10]}")
        totals = {part.total for part in conversion.parts if part.total is not None}
        if len(totals) > 1:
            self._break(name, f"has one total, not {sorted(totals)}")
        if totals and numbers and max(numbers) > max(totals):
            self._break(name, f"has no part {max(numbers)} of {max(totals)}")
        for part in conversion.parts:
            is_text = part.mime_type.startswith("text/") or part.mime_type.endswith("json")
            if is_text != isinstance(part.data, str):
                kind = "text" if isinstance(part.data, str) else "bytes"
                self._break(name, f"has no {kind} of type {part.mime_type}")

    def _check_ranges(self, name: str, document: bytes, whole: Conversion) -> None:
        """Check that a range of parts is that of the whole."""
        if len(whole.parts) < 2:
            return
        numbers = [part.number for part in whole.parts]
        for first, last in self._ranges(numbers):
            found = self._converted(name, document, first=first, last=last)
            if isinstance(found, ConversionError):
                self._break(name, f"has parts {first} to {last}: {found}")
                continue
            expected = [part.data for part in whole.parts if first <= part.number <= last]
            if [part.data for part in found.parts] != expected:
                self._break(name, f"gives parts {first} to {last} as in the whole document")
        beyond = self._converted(name, document, first=numbers[-1] + 1000, last=numbers[-1] + 1000)
        if isinstance(beyond, Conversion) and beyond.parts:
            self._break(name, f"has no part {numbers[-1] + 1000}")

    @staticmethod
    def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        for number in numbers[:_MAX_RANGES]:
            yield number, number
        yield numbers[-1], numbers[-1]
        yield numbers[0], numbers[-1]
        yield numbers[1], numbers[-1]

    def _check_damaged(self, name: str, document: bytes) -> None:
        """Check that what is truncated or altered is converted or refused, in time."""
        dice = random.Random(len(document))  # noqa: S311 - bytes, no secrets
        for _ in range(_DAMAGES):
            cut = document[: dice.randrange(len(document) + 1)]
            self._check_refusal(f"{name}, truncated", self._converted(name, cut))
            altered = bytearray(document)
            for _ in range(8):
                if altered:
                    altered[dice.randrange(len(altered))] = dice.randrange(256)
            self._check_refusal(f"{name}, altered", self._converted(name, bytes(altered)))

    def _check_refusal(self, name: str, outcome: Conversion | ConversionError) -> None:
        if isinstance(outcome, ConversionError) and (
            _DIED in str(outcome) or "takes longer" in str(outcome)
        ):
            self._break(name, f"is refused without an end of the worker: {outcome}")

    def _converted(
        self, name: str, document: bytes, *, first: int = 1, last: int | None = None
    ) -> Conversion | ConversionError:
        request = ConversionRequest(
            media_type=self._media_type, format=self._format, first=first, last=last
        )
        with tempfile.TemporaryFile() as file:
            file.write(document)
            file.flush()
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            try:
                return self._pool.convert(self._reference, file.fileno(), request)
            except ConversionError as error:
                return error

    def _break(self, name: str, rule: str) -> None:
        sentence = one_line(f"{name} {rule}")
        if sentence not in self.violations:
            self.violations.append(sentence)
