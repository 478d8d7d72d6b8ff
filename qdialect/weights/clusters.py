"""
Where tasks run: in processes of this machine, or on a cluster of Dask.

https://distributed.dask.org. Tasks are plain functions of plain data, run by an executor of
`concurrent.futures`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Final, ParamSpec, TypeVar

from typing_extensions import override

from qdialect.support.extras import library

P = ParamSpec("P")
T = TypeVar("T")

TRIES: Final = 3
"""How often a task is tried, on other workers where there are some."""

_WORKER_BYTES: Final = 512 << 20
"""What a worker may take beside the buffers of its task."""

_KEPT_BYTES: Final = 1 << 30
"""What a worker keeps of freed memory: Dask lets glibc return it after each task."""

_MAPPED_BYTES: Final = 1 << 25
"""Arrays from this size on are mapped anew each time: the largest number that glibc takes."""

_WAITING: Final = 64
"""The results that are waited for at once."""


class _Cluster(Executor):
    """
    The workers of a cluster.

    Dask's own executor takes a result for an error if the worker is lost while it is sent.
    """

    def __init__(self, client: Any, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads

    @override
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = self._client.submit(fn, *args, **kwargs, pure=False, retries=TRIES - 1)
        return self._threads.submit(future.result)


@contextmanager
def executor(jobs: int, cluster: str | None, max_memory: int) -> Generator[Executor | None]:
    """
    What runs tasks: `jobs` processes, or the workers of a cluster; None for one process.

    `cluster` is the address of a scheduler, or `local:N` for N workers of this machine, each with
    one thread and a limit of memory. Raises MissingLibraryError without the extra `cluster`,
    ValueError for another text, and OSError if there is no scheduler at the address.
    """
    if cluster is None and jobs == 1:
        yield None
        return
    if cluster is None:
        # Forks of a process with threads may wait forever.
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            yield pool
        return
    distributed = library("distributed", "cluster")
    kind, _, number = cluster.partition(":")
    if kind != "local":
        with ThreadPoolExecutor(_WAITING) as threads, distributed.Client(cluster) as client:
            yield _Cluster(client, threads)
        return
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"'{cluster}' is neither the address of a scheduler nor local:N")
    settings: dict[str, Any] = {
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": _KEPT_BYTES,
        "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": _MAPPED_BYTES,
        # It samples the stack a hundred times a second.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.system-monitor.interval": "5s",
    }
    config = library("dask", "cluster").config
    with (
        config.set(settings),
        # Last to end: without a client, nothing is waited for.
        ThreadPoolExecutor(_WAITING) as threads,
        distributed.LocalCluster(
            n_workers=int(number),
            threads_per_worker=1,
            memory_limit=max_memory + _WORKER_BYTES,
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield _Cluster(client, threads)
