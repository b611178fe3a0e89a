"""Numba's `njit` with a cache that never stops a program: a cache that cannot be used costs time, and one warning.

Numba itself raises at import where no folder is writable, and at the first call where a file of the cache is damaged or the
disk is full.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.serialize import dumps

_told: list[str] = []  # the warning of this process


class _SealedFile(IndexDataCacheFile):
    """The files of a kernel. Each compiled kernel has a SHA-256, because damaged machine code ends the process."""

    def save(self, key: Any, data: Any) -> None:
        content = dumps(data)
        super().save(key, (hashlib.sha256(content).digest(), content))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        if found is None:
            return None
        digest, content = found
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("a checksum is wrong")
        return pickle.loads(content)  # written by this user, like all of Numba's cache


class _ForgivingCache(FunctionCache):
    """A kernel's cache. What cannot be read is compiled again and replaced; what cannot be written is left out."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        self._cache_file = _SealedFile(self._cache_path, base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a damaged pickle raises anything
            _warn(f"the cache of compiled kernels in {self.cache_path} is damaged", error)
        try:
            self.flush()
        except OSError:
            self.disable()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _warn(f"compiled kernels cannot be cached in {self.cache_path}", error)
            self.disable()


def _warn(problem: str, error: Exception) -> None:
    """Warn once in a process."""
    if not _told:
        _told.append(
            f"{problem} ({type(error).__name__}: {error}), so kernels are compiled again, which takes longer. "
            "Set NUMBA_CACHE_DIR to a writable folder with free space"
        )
        warnings.warn(_told[0], RuntimeWarning, stacklevel=2)


def njit(function: Callable[..., Any] | None = None, cache: bool = False, **options: Any) -> Any:
    """Compile a function as `numba.njit` does; the options are Numba's."""
    if function is None:
        return lambda function: njit(function, cache, **options)
    compiled = numba.njit(**options)(function)
    if cache:
        try:
            compiled._cache = _ForgivingCache(function)
        except (RuntimeError, OSError) as error:  # no folder can be written to
            _warn("there is no place for the cache of compiled kernels", error)
    return compiled
