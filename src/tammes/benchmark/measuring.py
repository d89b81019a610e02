"""Time and memory of a piece of work on one device: medians, peaks, the machine's own ceiling."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

KERNEL = Path("/proc/self")


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """Time one call, from an idle device to an idle device."""
    synchronize(device)
    start = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - start


def median_ms(
    run: Callable[[], object], device: torch.device, repeats: int = 5, warm: int = 1
) -> float:
    """Give the median time of a call in milliseconds, after some that do not count."""
    for _ in range(warm):
        run()
    return 1e3 * statistics.median(seconds(run, device) for _ in range(max(1, repeats)))


def reset_peak(device: torch.device) -> None:
    """Start to watch memory anew, where the platform allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        (KERNEL / "clear_refs").write_text("5")  # Linux forgets the process's peak


def peak_gb(device: torch.device) -> float:
    """Say how much memory was in use at most: the device's own, or the whole process's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    try:
        lines = (KERNEL / "status").read_text().splitlines()
        return 1024 * float(next(x.split()[1] for x in lines if x.startswith("VmHWM"))) / 1e9
    except (OSError, StopIteration):
        return _peak_of_life()


def _peak_of_life() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    bytes_per = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per / 1e9


def matmul_tflops(device: torch.device, dtype: torch.dtype) -> float:
    """Measure what one large product reaches: the ceiling that all shares refer to."""
    size, repeats = (8192, 20) if device.type == "cuda" else (1536, 5)
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3 / median_ms(lambda: a @ b, device, repeats, 2) / 1e9


def machine(device: torch.device) -> str:
    """Name the chip that computes."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, {os.cpu_count()} CPU cores"
    return f"{_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit() -> str:
    """Name the commit of the working tree that this package lies in, if it lies in one."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
