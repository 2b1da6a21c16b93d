"""Event streams, as servers and proxies write them."""

from __future__ import annotations

import pytest

from acp_jupyter.connection.sse import EventReader


def messages(*pieces):
    """What comes out, whole messages joined."""
    reader, found, held = EventReader(), [], b""
    for piece in pieces:
        for part, last in reader.feed(piece):
            held += part
            if last:
                found.append(held)
                held = b""
    return found


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: {}\n\n", [b"{}"]),
        (b"data:{}\r\n\r\ndata: []\r\n\r\n", [b"{}", b"[]"]),
        (b"data: 1\r\rdata: 2\r\r", [b"1", b"2"]),
        (b"data: {\ndata: }\n\n", [b"{ }"]),
        (b": comment\n\ndata: 1\n\n", [b"1"]),
        (b"event: message\nid: 7\nretry: 5\ndata: 1\n\n", [b"1"]),
        (b"\xef\xbb\xbfdata: 1\n\n", [b"1"]),
        (b"data\n\ndata:\n\ndatax: 3\n\ndata: 1\n\n", [b"1"]),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"data: an end that never comes\n", []),
        (b"x" * 1000 + b"\n" + b"y" * 100 + b": 1\ndata: 1\n\n", [b"1"]),
    ],
)
def test_an_event_is_the_same_in_any_cut(stream, expected):
    assert messages(stream) == expected
    assert messages(*(stream[i : i + 1] for i in range(len(stream)))) == expected
    for cut in range(len(stream)):
        assert messages(stream[:cut], stream[cut:]) == expected


def test_a_huge_message_is_passed_on_in_pieces_and_not_held():
    reader = EventReader()
    assert list(reader.feed(b"data: ")) == []
    for _ in range(100):
        assert list(reader.feed(b"x" * 65536)) == [(b"x" * 65536, False)]
    assert list(reader.feed(b"\n\n")) == [(b"", True)]
