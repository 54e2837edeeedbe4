"""What bytes that are no audio look like, for error messages."""

from __future__ import annotations

__all__ = ["is_known", "looks_like"]

_MAGIC = (
    (b"version https://git-lfs", "a Git LFS pointer: the file itself was not fetched"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"RIFF", "a RIFF file, such as WAV"),
    (b"fLaC", "FLAC"),
    (b"OggS", "Ogg"),
    (b"caff", "a CAF file"),
    (b"ID3", "audio behind an ID3 tag"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"BM", "a BMP picture"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"{", "JSON"),
    (b"#EXTM3U", "a playlist, which could name any file"),
    (b"ffconcat", "an ffconcat script, which could name any file"),
)

_UNKNOWN = "bytes that begin"


def looks_like(head: bytes) -> str:
    """A few words on what the file that begins with `head` seems to be."""
    if not head.strip(b"\x00"):
        return "nothing but zeros"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:9].lower().startswith((b"<!doctype", b"<html")):
        return "an HTML page"
    if b"<svg" in text[:512].lower():
        return "an SVG picture"
    if text.startswith(b"<"):
        return "XML or HTML"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP picture"
    for magic, words in _MAGIC:
        if text.startswith(magic):
            return words
    start = head[:24]
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head[:512]):
        return f"text that begins {start.decode('ascii')!r}"
    return f"{_UNKNOWN} " + head[:8].hex(" ")


def is_known(head: bytes) -> bool:
    """Whether `looks_like` has more than the bytes themselves to say of a file that begins with `head`."""
    return not looks_like(head).startswith(_UNKNOWN)
