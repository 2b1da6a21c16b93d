from __future__ import annotations

import base64
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_jupyter.errors import LocalProtocolError
from acp_jupyter.protocol import jsonrpc
from acp_jupyter.protocol.jsonrpc import (
    Batch,
    InvalidRequest,
    Noise,
    Notification,
    Overlong,
    Receiver,
    Request,
    Response,
)

GOOD = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}\n'
GOOD_FRAME = Notification("session/update", {"sessionId": "s", "update": {}})

SUITE = {
    name: base64.b64decode(data)
    for name, data in json.loads(
        (Path(__file__).parent / "golden" / "jsontestsuite.json").read_text()
    )["files"].items()
}
# The two large ones of that suite are made here.
SUITE["n_structure_100000_opening_arrays"] = b"[" * 100_000
SUITE["n_structure_open_array_object"] = b'[{"":' * 50_000 + b"\n"

MESSAGES: list[bytes] = [
    GOOD.strip(),
    b'{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}',
    b'{"jsonrpc":"2.0","id":"2","error":{"code":-32603,"message":"Internal error"}}',
    b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"rawInput":{"a":[1,2.5e3,null,true]}}}',
    '{"jsonrpc":"2.0","method":"x","params":{"t":"żółć \\ud83d\\ude00 \U0001f600"}}'.encode(),
    b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":null}]',
    b"[info] starting {",
    b'{"jsonrpc":"2.0","id":3,"result":"\xff"}',
    b'{"jsonrpc":"2.0","id":3,"result":"\\ud800"}',
    b"[" * 200 + b"]" * 200,
    b"\xef\xbb\xbf{}",
    b"NaN",
    b"",
]


def frames_of(line: bytes) -> list[Any]:
    return Receiver().receive(line + b"\n")


def only(line: bytes) -> Any:
    (frame,) = frames_of(line)
    return frame


def in_pieces(data: bytes, cuts: list[int]) -> list[Any]:
    receiver = Receiver()
    frames: list[Any] = []
    start = 0
    for end in [*sorted(cuts), len(data)]:
        frames += receiver.receive(data[start:end])
        start = end
    return frames + receiver.receive_eof()


# -- cuts ---------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(MESSAGES), max_size=8),
    st.booleans(),
    st.lists(st.integers(0, 2000), max_size=20),
)
def test_any_cut_of_the_bytes_gives_the_same_frames(
    lines: list[bytes], final_newline: bool, cuts: list[int]
) -> None:
    data = b"\r\n".join(lines) + (b"\n" if final_newline else b"")
    whole = in_pieces(data, [])
    assert in_pieces(data, list(range(len(data)))) == whole
    assert in_pieces(data, [cut for cut in cuts if cut < len(data)]) == whole


def test_each_whole_line_is_handed_to_the_log_before_its_frame() -> None:
    seen: list[bytes] = []
    receiver = Receiver(seen.append)
    receiver.receive(b"noise\n" + GOOD[:10])
    assert seen == [b"noise"]
    receiver.receive(GOOD[10:] + b"last")
    receiver.receive_eof()
    assert seen == [b"noise", GOOD.strip(), b"last"]


# -- any line -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SUITE))
def test_target_1_no_file_of_the_json_test_suite_ends_the_connection(name: str) -> None:
    receiver = Receiver()
    frames = receiver.receive(SUITE[name] + b"\n" + GOOD)
    assert frames[-1] == GOOD_FRAME
    # Only one file looks a little like a message: it has an "id".
    answers = [frame for frame in frames if isinstance(frame, Response | Request)]
    assert len(answers) == (name == "y_object_long_strings")


@pytest.mark.timeout(60)
def test_target_1_a_hundred_thousand_mutated_lines_raise_nothing() -> None:
    rng = random.Random(20_240)
    files = [data for data in SUITE.values() if len(data) < 500]
    alphabet = b'{}[]",:\\\x00\xff\xed0123456789.eE-+ntfu \t\r'
    receiver = Receiver()
    useful = 0
    for _ in range(100_000):
        line = bytearray(rng.choice(MESSAGES if rng.random() < 0.5 else files))
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(line))
            action = rng.random()
            if action < 0.4:
                line[at : at + 1] = bytes([rng.choice(alphabet)])
            elif action < 0.7:
                line[at:at] = bytes([rng.choice(alphabet)])
            else:
                del line[at : at + rng.randint(1, 6)]
        frames = receiver.receive(bytes(line).replace(b"\n", b" ") + b"\n" + GOOD)
        assert frames[-1] == GOOD_FRAME
        useful += len(frames) > 1 and not isinstance(frames[0], Noise)
    assert 2_000 < useful < 98_000  # the mutations hit both sides


@pytest.mark.parametrize(
    "line",
    [
        b"Starting agent...",
        b"null",
        b"true",
        b"17",
        b'"text"',
        b"{}",
        b'{"level":"info","msg":"hello"}',
        b'{"method":1}',
        b"\x1b[31mred\x1b[0m",
        b"{'single': 'quotes'}",
    ],
)
def test_f1_what_is_no_message_is_noise(line: bytes) -> None:
    frame = only(line)
    assert isinstance(frame, Noise)
    assert frame.raw == line
    assert frame.ids == ()


def test_f1_of_a_long_line_only_the_start_is_kept() -> None:
    frame = only(b"x" * 1_000_000)
    assert len(frame.raw) == jsonrpc.RAW_KEPT


# -- batches ------------------------------------------------------------------------------------


def test_f2_a_batch_has_its_entries_in_order_and_counts_those_that_are_no_messages() -> None:
    line = b'[{"method":"a"},{"id":7,"result":1},{"id":"x","method":"b","params":[]},5,[],{}]'
    batch = only(line)
    assert isinstance(batch, Batch)
    assert batch.frames == (
        Notification("a", None),
        Response(7, result=1),
        Request("x", "b", []),
    )
    assert (batch.useless, batch.raw) == (3, line)


def test_f2_an_empty_batch_is_an_invalid_request() -> None:
    noise, invalid = frames_of(b"[]")
    assert isinstance(noise, Noise)
    assert isinstance(invalid, InvalidRequest)
    assert invalid.id is None


def test_f2_a_batch_of_a_million_scalars_is_told_once() -> None:
    batch = only(b"[" + b"1," * 999_999 + b"1]")
    assert isinstance(batch, Batch)
    assert (batch.frames, batch.useless, len(batch.raw)) == ((), 1_000_000, jsonrpc.RAW_KEPT)


# -- encodings ----------------------------------------------------------------------------------


def test_f3_invalid_utf8_is_shown_as_replacement_characters_and_noted() -> None:
    noise, answer = frames_of(b'{"jsonrpc":"2.0","id":2,"result":{"text":"a\xff\xe2\x82z"}}')
    assert isinstance(noise, Noise)
    assert noise.ids == ()  # the answer could be read: it must not fail
    assert answer == Response(2, result={"text": "a\ufffd\ufffdz"})


def test_f3_text_glued_before_an_answer_names_the_request_that_fails() -> None:
    frame = only(b'[warn] slow {"jsonrpc":"2.0","id":2,"result":{}}')
    assert isinstance(frame, Noise)
    assert frame.ids == (2,)


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (b'x{"id": "12" , "result": 1}', (12,)),
        (b'{"id":3,"error":{"code":1,"message":"\x00"}}', (3,)),
        (b'{"id":3,"result":{}}{"id":4,"result":{}}', (3, 4)),
        (b'{"id":3,"result":', (3,)),
        (b'{"result":"' + b"x" * 300_000 + b'\x00","id":9}', (9,)),
        (b'{"id":3,"method":"x"', ()),  # no answer
        (b'{"id":33333333333333333333,"result":{}', ()),
        (b'{"id":-3,"result":{}', ()),
        (b'{"id":1.5,"result":{}', ()),
    ],
)
def test_f3_an_unreadable_answer_names_its_ids(line: bytes, ids: tuple[int, ...]) -> None:
    frame = only(line)
    assert isinstance(frame, Noise)
    assert frame.ids == ids


@pytest.mark.parametrize(
    ("escape", "text"),
    [
        ("\\ud800", "\ufffd"),
        ("\\udc00x", "\ufffdx"),
        ("\\ud800\\ud800", "\ufffd\ufffd"),
        ("\\ud83d\\ude00", "\U0001f600"),
        ("\\ud83d\\ude00\\ud83d", "\U0001f600\ufffd"),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_character(escape: str, text: str) -> None:
    line = f'{{"method":"m","params":{{"{escape}":"{escape}"}}}}'.encode()
    frames = frames_of(line)
    assert frames[-1] == Notification("m", {text: text})
    assert len(frames) == (1 if text == "\U0001f600" else 2)
    json.dumps(frames[-1].params).encode()  # it can be sent on


@pytest.mark.parametrize(
    "line",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD.strip() + b"\r\n",
        b"\n\r\n  \n\t\n" + GOOD,
        b"\xef\xbb\xbf\n" + GOOD,
        b"  " + GOOD,
        b"\x0c" + GOOD,
        GOOD.strip(),
        b"\xef\xbb\xbf" + GOOD.strip() + b"\r",
    ],
)
def test_f4_bom_crlf_blank_lines_and_a_missing_newline_are_accepted_silently(line: bytes) -> None:
    receiver = Receiver()
    assert receiver.receive(line) + receiver.receive_eof() == [GOOD_FRAME]


# -- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ident", "meant"),
    [
        (0, (0, True)),
        ("0", (0, False)),
        ("12", (12, False)),
        (False, (None, False)),
        (True, (None, False)),
        (None, (None, False)),
        (1.0, (None, False)),
        ({}, (None, False)),
        ([1], (None, False)),
        ("", (None, False)),
        ("x", (None, False)),
        ("-1", (None, False)),
        ("1.0", (None, False)),
        ("²", (None, False)),
        ("٣", (None, False)),
        ("9" * 5000, (None, False)),
    ],
)
def test_f5_ids_match_as_integers_or_their_text_only(
    ident: Any, meant: tuple[int | None, bool]
) -> None:
    assert jsonrpc.match_id(ident) == meant


@pytest.mark.parametrize("ident", [b"{}", b"[1]", b"null", b"1.5", b"true", b'"x"'])
def test_f6_an_answer_with_any_id_is_a_response_that_matching_decides_about(ident: bytes) -> None:
    frame = only(b'{"id":' + ident + b',"result":1}')
    assert isinstance(frame, Response)
    assert jsonrpc.match_id(frame.id)[0] is None


def test_f6_an_error_without_an_id_is_a_response_too() -> None:
    frame = only(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}')
    assert frame == Response(None, error={"code": -32700, "message": "Parse error"})


# -- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"id":1,"result":1,"error":{"code":1,"message":"m"}}', "both"),
        (b'{"id":1}', "neither"),
        (b'{"id":1,"error":null}', "neither"),
        (b'{"id":1,"error":"boom"}', "no object: boom"),
        (b'{"id":1,"error":[1]}', "no object"),
        (b'{"id":1,"error":false}', "no object"),
    ],
)
def test_f7_a_malformed_answer_says_what_is_wrong_with_it(line: bytes, problem: str) -> None:
    frame = only(line)
    assert isinstance(frame, Response)
    assert problem in frame.problem
    assert frame.error is None


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (b'{"id":1,"result":null}', Response(1, result=None)),
        (b'{"id":1,"result":{},"error":null}', Response(1, result={})),
        (b'{"id":1,"result":null,"error":{"code":1}}', Response(1, error={"code": 1})),
        (b'{"id":1,"method":null,"params":null,"result":{}}', Response(1, result={})),
    ],
)
def test_f7_nulls_written_for_what_is_absent_are_understood(line: bytes, frame: Response) -> None:
    assert only(line) == frame


# -- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ident", [b"null", b"1.5", b"true", b"[]", b"{}"])
def test_f12_a_request_with_an_unusable_id_can_only_be_refused(ident: bytes) -> None:
    frame = only(b'{"id":' + ident + b',"method":"x"}')
    assert isinstance(frame, InvalidRequest)
    assert frame.id is None


@pytest.mark.parametrize("method", [b"null", b"1", b"{}"])
def test_f12_a_request_whose_method_is_no_string_is_refused_by_its_id(method: bytes) -> None:
    frame = only(b'{"id":"a","method":' + method + b"}")
    assert isinstance(frame, InvalidRequest)
    assert frame.id == "a"


def test_requests_and_notifications_keep_their_params_whatever_they_are() -> None:
    assert only(b'{"id":1,"method":"m","params":[1]}') == Request(1, "m", [1])
    assert only(b'{"id":"u-1","method":"m"}') == Request("u-1", "m", None)
    assert only(b'{"method":"m","params":null}') == Notification("m", None)


# -- numbers and depth --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"9" * 4301,
        b"[" * 127 + b"]" * 127,
        b'{"a":' * 127 + b"1" + b"}" * 127,
        b"[" * 100_000 + b"]" * 100_000,
        b'"\xff",NaN',
    ],
)
def test_f9_values_beyond_json_and_deep_nesting_are_noise(value: bytes) -> None:
    receiver = Receiver()
    line = b'{"jsonrpc":"2.0","id":4,"result":[' + value + b"]}\n"
    noise, good = receiver.receive(line + GOOD)
    assert isinstance(noise, Noise)
    assert noise.ids == (4,)  # the request fails instead of waiting for ever
    assert good == GOOD_FRAME


def test_f9_what_is_just_within_the_limits_is_read() -> None:
    deep = b"[" * 126 + b"]" * 126  # and the message, and its params
    assert isinstance(only(b'{"method":"m","params":[' + deep + b"]}"), Notification)
    big = only(b'{"method":"m","params":[' + b"9" * 4300 + b"]}")
    assert isinstance(big.params[0], int)
    wide = only(b'{"method":"m","params":[' + b"{}," * 1000 + b"{}]}")
    assert isinstance(wide, Notification)


# -- long lines ---------------------------------------------------------------------------------


def test_f10_a_line_beyond_the_limit_is_thrown_away_while_it_streams_in() -> None:
    receiver = Receiver()
    piece = b"x" * 2**16
    tracemalloc.start()
    frames: list[Any] = []
    for _ in range(300 * 16):  # 300 MiB
        frames += receiver.receive(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 64 * 2**20
    assert frames == [Overlong(256 * 2**20, fatal=True)]
    assert receiver.receive(b"\n" + GOOD) == [GOOD_FRAME]


def test_f10_a_line_between_the_limits_is_told_at_its_end_and_the_next_one_works() -> None:
    receiver = Receiver()
    size = jsonrpc.MAX_LINE + 1
    frames: list[Any] = []
    for start in range(0, size, 2**20):
        frames += receiver.receive(b"x" * min(2**20, size - start))
    assert frames == []
    assert receiver.receive(b"\n" + GOOD) == [Overlong(size, fatal=False), GOOD_FRAME]


@pytest.mark.parametrize("extra", [0, 1])
def test_f10_the_limit_is_exact_in_one_piece_and_in_two(extra: int) -> None:
    frame = b'{"method":"m","params":"' + b"x" * (jsonrpc.MAX_LINE - 26 + extra) + b'"}'
    assert len(frame) == jsonrpc.MAX_LINE + extra
    for cuts in ([], [100]):
        for before in (b"", b"\n"):
            (got,) = in_pieces(before + frame + b"\n", cuts)
            assert isinstance(got, Overlong if extra else Notification)


def test_f10_an_overlong_last_line_without_a_newline_is_told_at_the_end() -> None:
    receiver = Receiver()
    assert receiver.receive(b"x" * (jsonrpc.MAX_LINE + 1)) == []
    assert receiver.receive_eof() == [Overlong(jsonrpc.MAX_LINE + 1, fatal=False)]
    assert receiver.receive_eof() == []


def test_f10_a_line_that_arrives_byte_by_byte_costs_little_more_than_its_size() -> None:
    receiver = Receiver()
    tracemalloc.start()
    for _ in range(300_000):
        receiver.receive(b"xy")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2 * 600_000


# -- what we send -------------------------------------------------------------------------------


@pytest.mark.obligation("C75", "C76")
def test_a_sent_message_is_one_line() -> None:
    line = jsonrpc.encode(jsonrpc.request(1, "m", {"text": "a\nb\u2028\x00é"}))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert only(line.strip()) == Request(1, "m", {"text": "a\nb\u2028\x00é"})


def test_a_lone_surrogate_in_a_users_text_is_sent_as_a_replacement_character() -> None:
    line = jsonrpc.encode(jsonrpc.notification("m", {"\udc80": "a\ud800\n"}))
    assert frames_of(line.strip()) == [Notification("m", {"\ufffd": "a\ufffd\n"})]


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    "value",
    [object(), {(1, 2): 3}, 10**5000, circular(), ["\ud800", float("nan")]],
    ids=["object", "tuple key", "huge integer", "circular", "NaN"],
)
def test_what_json_cannot_express_is_refused_before_anything_is_sent(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        jsonrpc.encode({"jsonrpc": "2.0", "id": 1, "result": value})


def test_the_envelopes_are_json_rpc() -> None:
    assert jsonrpc.result("a", None) == {"jsonrpc": "2.0", "id": "a", "result": None}
    assert jsonrpc.error(None, -32600, "m") == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": "m"},
    }
    assert jsonrpc.error(1, 5, "m", {"a": 1})["error"]["data"] == {"a": 1}
    assert "id" not in jsonrpc.notification("m", {})
