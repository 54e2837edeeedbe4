"""The pure parts: addresses, options, what is public, when to retry, what continues a body, what was compressed."""

from __future__ import annotations

import pickle
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioaudio import HTTPOptions
from aioaudio.fetch.http.answer import Answer
from aioaudio.fetch.http.coding import Inflater, inflater_for
from aioaudio.fetch.http.guard import is_public
from aioaudio.fetch.http.retry import retry_after, wait_seconds
from aioaudio.fetch.http.url import URL, as_address, host_of, is_same_site, joined, name_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org/talk.mp3", "https://example.org/talk.mp3"),
        ("HTTP://Example.org:80/a", "http://example.org/a"),
        ("https://user:secret@example.org:8443/a%2Fb?token=secret#secret", "https://example.org:8443/a%2Fb?..."),
        ("http://[::1]:8000/a b", "http://[::1]:8000/a%20b"),
        ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
    ],
)
def test_a_url_is_named_without_its_secrets(url: str, name: str) -> None:
    source = URL(url, headers={"Authorization": "secret"})
    assert source.name == name
    assert "secret" not in repr(source)
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(
    "url", ["https://", "http:///a", "http://a:99999/secret?secret", "http://a\n/", "http://u:secret@/", "ftp://a/b"]
)
def test_what_is_no_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="a URL") as raised:
        URL(url)
    assert "secret@" not in str(raised.value)
    assert "?secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["https://h/a%2Fb?sig=a%2Fb%3D&x=%7E", "http://h/?a+b"])
def test_what_is_spelt_right_is_sent_as_it_stands(url: str) -> None:
    assert str(as_address(url)) == url


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b?c=1", "https://h/b?c=1"),
        ("b", "https://h/x/b"),
        ("//other/b", "https://other/b"),
        ("http://other/b", "http://other/b"),
    ],
)
def test_redirects_are_relative_to_where_they_stand(location: str, target: str) -> None:
    assert str(joined(as_address("https://h/x/a?secret"), location)) == target


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://h/a", "https://H:443/b", True),
        ("http://h/a", "https://h/b", True),
        ("http://h:8080/a", "https://h/b", False),
        ("https://h/a", "https://h:8443/a", False),
        ("https://h/a", "https://h.evil/a", False),
        ("https://h/a", "https://sub.h/a", False),
    ],
)
def test_secrets_are_for_the_same_site(one: str, other: str, same: bool) -> None:
    assert is_same_site(as_address(one), as_address(other)) == same


PRIVATE = """
    0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1
    192.168.0.1 198.18.0.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
    :: ::1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1
    2001::1 2001:db8::1 2002:7f00:1::1 2002:a00:1::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1
    100::1 4000::1 0 127.1 0x7f.1 2130706433 localhost
""".split()


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", "1.1.1.1 93.184.216.34 ::ffff:1.1.1.1 64:ff9b::101:101 2606:4700::1111 2002:101:101::1".split()
)
def test_what_is_public_is_known(address: str) -> None:
    assert is_public(address)


def test_retry_after_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after("7") == 7
    assert retry_after("Thu, 01 Jan 2026 00:00:30 GMT", now) == 30
    assert retry_after("Thu, 01 Jan 2025 00:00:30 GMT", now) == 0
    for nonsense in (None, "", "-1", "soon", "1e9", "9" * 30):
        assert retry_after(nonsense, now) is None


def test_waits_double_up_to_a_bound_and_heed_the_server() -> None:
    options = HTTPOptions(backoff=1, max_backoff=10)
    assert [wait_seconds(options, n, None, lambda: 0) for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert wait_seconds(options, 1, None, lambda: 1) == 0.5
    assert wait_seconds(options, 1, 5, lambda: 0) == 5
    assert wait_seconds(options, 1, 3600, lambda: 0) == 10
    assert wait_seconds(options, 10_000, None) <= 10


FIRST = {"Content-Length": "100", "ETag": '"a"', "Last-Modified": "yesterday"}
LATER = {"Content-Range": "bytes 40-99/100", "ETag": '"a"', "Last-Modified": "yesterday", "Content-Length": "60"}


@pytest.mark.parametrize(
    ("status", "changed", "fits"),
    [
        (206, {}, True),
        (206, {"Content-Range": "bytes 40-99/*"}, True),
        (200, {}, False),
        (416, {}, False),
        (206, {"Content-Range": "bytes 0-99/100"}, False),
        (206, {"Content-Range": "bytes 40-99/101"}, False),
        (206, {"Content-Range": "?"}, False),
        (206, {"ETag": '"b"'}, False),
        (206, {"ETag": 'W/"a"'}, False),
        (206, {"Last-Modified": "today"}, False),
        (206, {"Content-Encoding": "gzip"}, False),
    ],
)
def test_only_the_rest_of_the_same_body_continues_it(status: int, changed: dict[str, str], fits: bool) -> None:
    assert (Answer.of(FIRST).misfit(status, LATER | changed, 40) is None) == fits


def test_a_weak_etag_says_nothing_of_bytes() -> None:
    assert Answer.of({"ETag": 'W/"a"'}).validator is None
    assert Answer.of({"ETag": 'W/"a"', "Last-Modified": "yesterday"}).validator == "yesterday"


@given(
    st.binary(max_size=5000),
    st.sampled_from([("gzip", 31), ("x-gzip", 31), ("deflate", 15), ("Deflate", -15)]),
    st.integers(1, 500),
    st.integers(1, 300),
)
def test_what_was_compressed_comes_out_whole(data: bytes, coding: tuple[str, int], step: int, repeat: int) -> None:
    data = data * repeat
    packer = zlib.compressobj(wbits=coding[1])
    packed = packer.compress(data) + packer.flush()
    if coding[1] == 31:
        packed, data = packed * 2, data * 2
    inflater = inflater_for(coding[0])
    assert inflater is not None
    out = []
    for start in range(0, len(packed), step):
        assert start == 0 or coding[1] == 31 or not inflater.is_complete
        inflater.feed(packed[start : start + step])
        while block := inflater.take():
            assert len(block) <= 256 * 1024
            out.append(block)
    assert b"".join(out) == data
    assert inflater.is_complete


def test_what_is_compressed_otherwise_is_refused() -> None:
    assert inflater_for(None) is inflater_for("identity") is None
    assert isinstance(inflater_for("GZIP"), Inflater)
    with pytest.raises(ValueError, match="br"):
        inflater_for("br")


@pytest.mark.parametrize(
    "wrong",
    [
        {"connect_timeout": 0},
        {"read_timeout": -1},
        {"total_timeout": "1"},
        {"retries": -1},
        {"retries": 1.5},
        {"backoff": float("nan")},
        {"max_connections_per_host": 0},
        {"headers": {"A": "b\r\nC: secret"}},
        {"headers": {"Range": "bytes=0-"}},
        {"headers": ["secret"]},
        {"auth": ("secret",)},
        {"user_agent": "a\n"},
        {"proxy": "socks5://user:secret@h"},
        {"allow_private": False, "proxy": "http://h"},
        {"allow_private": False, "trust_env": True},
        {"allow_host": "example.org"},
    ],
)
def test_wrong_options_fail_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        HTTPOptions(**wrong)
    assert "secret" not in str(raised.value)


def test_options_show_no_secrets() -> None:
    options = HTTPOptions(auth=("user", "secret"), headers={"X-Key": "secret"}, proxy="http://user:secret@h:1")
    assert "secret" not in repr(options)


@given(st.text())
def test_addresses_parse_or_are_refused(text: str) -> None:
    try:
        address = as_address(f"http://{text}")
    except ValueError:
        return
    assert host_of(as_address(name_of(address))) == host_of(address)
