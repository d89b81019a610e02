"""Functions compiled for CUDA where a compiler is at hand, run plainly everywhere else.

Each new shape costs seconds of compiling, so batches are filled up to a few sizes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

SIZES = (8, 64, 512)  # of batches; beyond the last, its multiples
SHAPES = 64  # compiled versions of one function before torch gives up: many class lists, say


def can_compile() -> bool:
    """Say whether functions can be compiled for CUDA here."""
    if not torch.cuda.is_available():
        return False
    try:
        import triton  # noqa: F401
        from torch._dynamo import config
    except ImportError:
        return False
    config.recompile_limit = max(config.recompile_limit, SHAPES)
    return True


class Compiled:
    """A function that is compiled where that works; what fails to compile is run plainly."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self._plain = self._run = function
        self._proven = not can_compile()
        if not self._proven:
            self._run = torch.compile(function, dynamic=False)

    @property
    def works(self) -> bool:
        """Whether the compiled function runs."""
        return self._run is not self._plain

    def __call__(self, *given: object) -> Tensor:
        """Run the function; only the first call may find out that it does not compile."""
        if self._proven:
            return self._run(*given)
        try:
            found = self._run(*given)
        except torch.OutOfMemoryError:
            raise
        except Exception as problem:  # of the compiler, of its C compiler, of the generated code
            reason = str(problem).strip().splitlines() or [type(problem).__name__]
            logging.getLogger(__name__).warning("running without a compiler: %s", reason[0][:200])
            self._run = self._plain
            found = self._plain(*given)
        self._proven = True
        return found


def filled(batch: int) -> int:
    """Give the size that a batch is filled up to."""
    last = SIZES[-1]
    return next((size for size in SIZES if batch <= size), -(-batch // last) * last)


def fill(rows: Tensor) -> Tensor:
    """Append empty rows up to one of a few sizes."""
    missing = filled(len(rows)) - len(rows)
    return pad(rows, (0, 0) * (rows.ndim - 1) + (0, missing)) if missing else rows
