"""Work in threads, and in order; on a CPU, threads that compute alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

Given = TypeVar("Given")
Made = TypeVar("Made")


def ahead(
    work: Callable[[Given], Made],
    given: Iterable[Given],
    workers: int,
    waiting: int,
    threads: Callable[[int], ThreadPoolExecutor] = ThreadPoolExecutor,
) -> Generator[Made]:
    """Map in threads and in order, at most so many results ahead of whoever takes them."""
    pool, results = threads(workers), deque[Future[Made]]()
    try:
        for one in given:
            results.append(pool.submit(work, one))
            if len(results) > waiting:
                yield results.popleft().result()
        while results:
            yield results.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def single_threads(count: int) -> ThreadPoolExecutor:
    """Start threads that compute alone each, and leave the caller's as they are.

    For OpenMP torch sets a number per thread, but for MKL one for all: it is set back once every
    thread has started.
    """
    before, started = torch.get_num_threads(), Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # a new thread takes the number for all when it is first needed
        torch.set_num_threads(1)
        started.wait()

    pool = ThreadPoolExecutor(count)
    for _ in range(count):
        pool.submit(begin)
    started.wait()
    torch.set_num_threads(before)
    return pool
