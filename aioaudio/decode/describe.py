"""What bytes that are no audio look like, for error messages."""

from __future__ import annotations

__all__ = ["looks_like"]

_MAGIC = (
    (b"version https://git-lfs", "a Git LFS pointer: the file itself was not fetched"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"{", "JSON"),
    (b"#EXTM3U", "a playlist"),
    (b"ffconcat", "an ffconcat script"),
)


def looks_like(head: bytes) -> str:
    """A few words on what the file that begins with `head` seems to be."""
    if not head.strip(b"\x00"):
        return "nothing but zeros"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:9].lower().startswith((b"<!doctype", b"<html")):
        return "an HTML page"
    if text.startswith(b"<"):
        return "XML or HTML"
    for magic, words in _MAGIC:
        if text.startswith(magic):
            return words
    start = head[:24]
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head[:512]):
        return f"text that begins {start.decode('ascii')!r}"
    return "bytes that begin " + head[:8].hex(" ")
