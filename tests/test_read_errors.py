"""A read error is never taken for the end of a file, as FFmpeg would take it."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from media import MediaLibrary

import aioaudio

KINDS = ["wav", "aiff", "flac", "alac", "wavpack", "vorbis", "opus", "opus-webm", "mp3", "aac", "adts", "mp2", "ac3"]


class FailingFile(io.RawIOBase):
    """A file on a disk with a bad sector: EIO from `fails_at` on."""

    name = "on-a-bad-disk"

    def __init__(self, data: bytes, fails_at: int) -> None:
        self._data, self._fails_at, self._position = data, fails_at, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._position >= self._fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        block = self._data[self._position : min(self._fails_at, self._position + len(buffer))]
        buffer[: len(block)] = block
        self._position += len(block)
        return len(block)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_like_that_fails_raises(kind: str, media: MediaLibrary) -> None:
    data = media.make(kind, seconds=5.0).path.read_bytes()
    for share in (0.0, 0.3, 0.99):
        with pytest.raises(aioaudio.FetchError, match="on-a-bad-disk") as caught:
            await aioaudio.load(FailingFile(data, int(len(data) * share)))
        assert caught.value.errno == errno.EIO


# Reads of files whose path has "bad-disk" in it fail with EIO from the middle on; such pages are never in memory.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static off_t bad_from(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return -1;
    path[n] = 0;
    struct stat status;
    if (!strstr(path, "bad-disk") || fstat(fd, &status)) return -1;
    return status.st_size / 2;
}

ssize_t read(int fd, void *buffer, size_t count) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "read");
    off_t bad = bad_from(fd);
    if (bad >= 0) {
        off_t at = lseek(fd, 0, SEEK_CUR);
        if (at >= bad) { errno = EIO; return -1; }
        if (at + (off_t)count > bad) count = bad - at;
    }
    return real(fd, buffer, count);
}

static ssize_t checked(int fd, const struct iovec *iov, int n, off_t at, int flags, int *failed) {
    off_t bad = bad_from(fd);
    size_t wanted = 0;
    for (int i = 0; i < n; i++) wanted += iov[i].iov_len;
    *failed = bad >= 0 && at + (off_t)wanted > bad;
    if (*failed) errno = flags ? EAGAIN : EIO;
    return -1;
}

ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    if (!real) real = dlsym(RTLD_NEXT, "preadv2");
    int failed;
    checked(fd, iov, n, at, flags, &failed);
    return failed ? -1 : real(fd, iov, n, at, flags);
}

ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off_t at, int flags) {
    return preadv2(fd, iov, n, at, flags);
}
"""

CHILD = """
import asyncio, json, sys
import aioaudio

async def main():
    results = await asyncio.gather(*(aioaudio.load(path) for path in sys.argv[1:]), return_exceptions=True)
    print(json.dumps([[type(result).__name__, getattr(result, "errno", None), str(result)] for result in results]))

aioaudio.run(main())
"""


@pytest.mark.skipif(shutil.which("gcc") is None or sys.platform != "linux", reason="needs gcc, to build a failing disk")
def test_a_path_on_a_failing_disk_raises(media: MediaLibrary, tmp_path: Path) -> None:
    source, library = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    folder = tmp_path / "bad-disk"
    folder.mkdir()
    paths = [shutil.copy(media.make(kind, seconds=5.0).path, folder) for kind in KINDS]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, paths)],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        check=True,
        timeout=100,
    )
    results = json.loads(child.stdout)
    assert len(results) == len(KINDS)
    for kind, (name, number, message) in zip(KINDS, results, strict=True):
        assert (name, number) == ("FetchError", errno.EIO), (kind, message)
        assert "bad-disk" in message
