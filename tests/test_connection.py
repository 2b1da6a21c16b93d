"""The connection over a stream in memory: ids, order, withdrawals, limits."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from acp_jupyter.connection.connection import (
    LOG_LINE,
    NOISE_LIMIT,
    QUEUE_LIMIT,
    SERVED_LIMIT,
    Connection,
)
from acp_jupyter.errors import (
    ACPError,
    AgentExited,
    AgentUnresponsive,
    AuthenticationRequired,
    Refusal,
    RemoteProtocolError,
    RequestError,
)
from tests.conftest import trio_wait_until


class Stream:
    """A transport: what the test feeds is received, what the connection sends is kept."""

    def __init__(self):
        self._feed, self._received = trio.open_memory_channel(10_000)
        self.sent = bytearray()
        self.reads = trio.Event()  # unset: the agent does not read
        self.reads.set()
        self.broken = False
        self.feed_when_sent = None

    async def receive_some(self):
        return await self._received.receive()

    async def send_all(self, data):
        await self.reads.wait()
        if self.broken:
            raise AgentExited("agent 'x' closed its standard input.")
        self.sent += data
        if self.feed_when_sent is not None:
            self.feed(self.feed_when_sent)

    def feed(self, *messages):
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages]
        self._feed.send_nowait(b"".join(lines))

    def end(self):
        self._feed.send_nowait(b"")

    @property
    def messages(self):
        return [json.loads(line) for line in self.sent.splitlines()]


class Owner:
    """A handler that writes down what it is told and serves requests by ``served``."""

    def __init__(self):
        self.told = []
        self.noise = []
        self.failures = []
        self.batches = 0
        self.served = {}

    def on_notification(self, method, params):
        self.told.append((method, params))

    def on_noise(self, noise):
        self.noise.append(noise.reason)

    def on_failure(self, method, error):
        self.failures.append((method, error))

    def on_batch(self):
        self.batches += 1

    def on_overlong(self, error):
        self.noise.append(error.message)

    async def explain_end(self):
        return AgentExited("agent 'x' exited with code 17", returncode=17)

    async def serve_request(self, method, params):
        return await self.served[method](params)


@asynccontextmanager
async def connected():
    stream, owner = Stream(), Owner()
    connection = Connection(stream, owner, clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        yield connection, stream, owner
        connection.close(None)


async def sent(stream, count):
    """The first messages that were sent, once there are so many."""
    await trio_wait_until(lambda: len(stream.messages) >= count)
    return stream.messages


def answer(ident, result=None, **error):
    body = {"error": error} if error else {"result": result}
    return {"jsonrpc": "2.0", "id": ident, **body}


def request(ident, method, params=None):
    return {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}


def told(method, params=None):
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def test_answers_find_their_requests_in_any_order():
    async with connected() as (connection, stream, _):
        results = {}

        async def ask(name):
            results[name] = await connection.request(name, {"n": name})

        async with trio.open_nursery() as nursery:
            for name in ("a", "b", "c"):
                nursery.start_soon(ask, name)
            messages = await sent(stream, 3)
            assert len({message["id"] for message in messages}) == 3
            for message in reversed(messages):
                stream.feed(answer(message["id"], message["method"].upper()))
        assert results == {"a": "A", "b": "B", "c": "C"}


async def test_f6_a_second_answer_changes_nothing():
    async with connected() as (connection, stream, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent, stream, 1)
            stream.feed(answer(0, "too early"))
            await trio_wait_until(lambda: connection.ignored_answers == 1)
            results = []

            async def ask():
                results.append(await connection.request("a", {}))

            nursery.start_soon(ask)
            await sent(stream, 1)
            stream.feed(answer(0, "first"), answer(0, "second"), answer(0, code=1, message="third"))
        assert results == ["first"]
        await trio_wait_until(lambda: connection.ignored_answers == 3)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        ({"code": -32000, "message": "log in"}, AuthenticationRequired, "log in (-32000)"),
        ({"code": 400, "message": "bad", "data": "why"}, RequestError, "bad (400): why"),
        ({"code": 1, "message": "bad", "data": {"details": "why"}}, RequestError, "bad (1): why"),
        ({"code": None, "message": None}, RequestError, "no message (-32603)"),
        ({"message": "m" * 5000}, RequestError, "m" * 1000 + " (-32603)"),
    ],
)
async def test_an_error_answer_is_an_error_with_its_words(error, kind, text):
    async with connected() as (connection, stream, _):
        stream.feed_when_sent = answer(0, **error)
        with pytest.raises(kind) as caught:
            await connection.request("a", {})
        assert text in caught.value.message


async def test_notifications_come_in_order_before_anything_else_runs():
    async with connected() as (_, stream, owner):
        for start in range(0, 1000, 100):
            stream.feed(*(told("n", number) for number in range(start, start + 100)))
        await trio_wait_until(lambda: len(owner.told) == 1000)
        assert owner.told == [("n", number) for number in range(1000)]
        assert owner.batches <= 11


async def test_a_request_never_holds_up_what_comes_after_it():
    async with connected() as (_, stream, owner):
        release = trio.Event()

        async def slow(params):
            await release.wait()
            return "slow"

        async def fast(params):
            return "fast"

        owner.served = {"slow": slow, "fast": fast}
        stream.feed(request("s", "slow"), told("n", 1), request("f", "fast"))
        assert (await sent(stream, 1))[0] == answer("f", "fast")
        assert owner.told == [("n", 1)]
        release.set()
        assert (await sent(stream, 2))[1] == answer("s", "slow")


async def test_requests_that_wait_for_nothing_are_served_in_the_order_of_arrival():
    async with connected() as (_, stream, owner):
        order = []

        async def note(params):
            order.append(params)

        owner.served = {"note": note}
        stream.feed(*(request(number, "note", number) for number in range(100)))
        messages = await sent(stream, 100)
        assert order == list(range(100))
        assert [message["id"] for message in messages] == order


async def test_a_cancelled_wait_withdraws_the_request_and_its_late_answer_is_ignored():
    async with connected() as (connection, stream, _):
        with trio.move_on_after(10) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.request, "a", {})
                await sent(stream, 1)
                scope.cancel()
        messages = await sent(stream, 2)
        assert messages[1] == told("$/cancel_request", {"requestId": messages[0]["id"]})
        stream.feed(answer(messages[0]["id"], "late"))
        await trio_wait_until(lambda: connection.ignored_answers == 1)


async def test_withdrawing_a_method_names_all_its_requests_and_still_waits_for_them():
    async with connected() as (connection, stream, _):
        results = []

        async def ask(method):
            results.append(await connection.request(method, {}))

        async with trio.open_nursery() as nursery:
            for method in ("slow", "other", "slow"):
                nursery.start_soon(ask, method)
            messages = await sent(stream, 3)
            connection.withdraw("slow")
            slow = {m["id"] for m in messages if m["method"] == "slow"}
            withdrawn = (await sent(stream, 5))[3:]
            assert {m["params"]["requestId"] for m in withdrawn} == slow
            for message in messages:
                stream.feed(answer(message["id"], message["method"]))
        assert sorted(results) == ["other", "slow", "slow"]


@pytest.mark.obligation("C72", "C73")
@pytest.mark.parametrize("ident", ["one", 7])
async def test_a_request_that_the_agent_withdraws_is_answered_cancelled(ident):
    async with connected() as (_, stream, owner):
        ended = []

        async def endless(params):
            try:
                await trio.sleep_forever()
            finally:
                ended.append(params)

        owner.served = {"endless": endless}
        stream.feed(request(ident, "endless", 1))
        ids: list[object] = ["nobody", {}, True]
        odd_params: list[object] = [None, [], {}, *({"requestId": odd} for odd in ids)]
        for odd in odd_params:
            stream.feed(told("$/cancel_request", odd))
        stream.feed(told("n"))
        await trio_wait_until(lambda: owner.told)
        assert not ended
        stream.feed(told("$/cancel_request", {"requestId": ident}))
        message = (await sent(stream, 1))[0]
        assert message["id"] == ident
        assert message["error"]["code"] == -32800
        assert ended == [1]


async def test_refusals_and_failures_become_errors_of_the_request_alone():
    async with connected() as (_, stream, owner):

        async def refuse(params):
            raise Refusal("not here", code=-32002, data={"path": "x"})

        async def fail(params):
            raise ACPError("no luck", remedy="none")

        async def bug(params):
            raise ZeroDivisionError("secret detail")

        owner.served = {"refuse": refuse, "fail": fail, "bug": bug}
        stream.feed(*(request(method, method) for method in owner.served))
        errors = {m["id"]: m["error"] for m in await sent(stream, 3)}
        assert errors["refuse"] == {"code": -32002, "message": "not here", "data": {"path": "x"}}
        assert errors["fail"] == {"code": -32603, "message": "no luck"}
        assert errors["bug"] == {"code": -32603, "message": "ZeroDivisionError in the client"}
        assert [method for method, _ in owner.failures] == ["bug"]


async def test_f12_too_many_requests_at_once_are_refused_and_the_rest_is_served():
    async with connected() as (_, stream, owner):
        release = trio.Event()

        async def wait(params):
            await release.wait()
            return params

        owner.served = {"wait": wait}
        stream.feed(*(request(number, "wait", number) for number in range(SERVED_LIMIT + 10)))
        refused = await sent(stream, 10)
        assert [m["id"] for m in refused] == list(range(SERVED_LIMIT, SERVED_LIMIT + 10))
        assert all(m["error"]["message"] == "too many requests at once" for m in refused)
        release.set()
        assert len(await sent(stream, SERVED_LIMIT + 10)) == SERVED_LIMIT + 10


async def test_f1_the_noise_limit_counts_only_lines_running():
    async with connected() as (connection, stream, owner):
        for _ in range(3):
            stream.feed(b"noise\n" * (NOISE_LIMIT - 1), told("n"))
        await trio_wait_until(lambda: len(owner.told) == 3)
        assert connection.noise_count == 3 * (NOISE_LIMIT - 1)
        assert not connection.closed.is_set()
        stream.feed(b"noise\n" * NOISE_LIMIT)
        await connection.closed.wait()
        assert isinstance(connection.error, RemoteProtocolError)
        with pytest.raises(RemoteProtocolError, match="does not speak ACP"):
            await connection.request("a", {})


async def test_f23_what_an_agent_does_not_read_is_bounded():
    async with connected() as (connection, stream, _):
        stream.reads = trio.Event()
        part = "x" * 2**20
        for _ in range(QUEUE_LIMIT // 2**20):
            connection.notify("n", part)
        with pytest.raises(AgentUnresponsive, match="does not read") as caught:
            connection.notify("n", part)
        assert "%acp restart" in str(caught.value)
        stream.reads.set()  # it reads again, and can be talked to again
        await trio_wait_until(lambda: len(stream.sent) > QUEUE_LIMIT)
        connection.notify("again", None)
        await trio_wait_until(lambda: stream.messages[-1]["method"] == "again")


async def test_f23_giving_up_on_an_agent_that_does_not_read_is_still_a_cancellation():
    async with connected() as (connection, stream, _):
        stream.reads = trio.Event()
        with trio.move_on_after(10) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.request, "a", "x" * (QUEUE_LIMIT + 1))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        connection.withdraw("a")  # nor does this harm


async def test_f17_an_agent_that_closed_its_stdin_fails_whoever_waits():
    async with connected() as (connection, stream, _):
        stream.broken = True
        with trio.fail_after(3), pytest.raises(AgentExited, match="closed its standard input"):
            await connection.request("a", {})


async def test_f15_the_end_of_the_stream_fails_all_that_wait_with_its_reason():
    async with connected() as (connection, stream, _):
        errors = []

        async def ask():
            with pytest.raises(AgentExited) as caught:
                await connection.request("a", {})
            errors.append(caught.value.returncode)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await sent(stream, 3)
            stream.end()
        assert errors == [17, 17, 17]
        with pytest.raises(AgentExited):
            connection.notify("n", None)


async def test_f3_an_unreadable_answer_fails_the_request_that_it_names_and_no_other():
    async with connected() as (connection, stream, _):
        async with trio.open_nursery() as nursery:
            results = []

            async def ask(method):
                try:
                    results.append(await connection.request(method, {}))
                except RemoteProtocolError as error:
                    results.append(error.message)

            nursery.start_soon(ask, "a")
            await sent(stream, 1)
            nursery.start_soon(ask, "b")
            await sent(stream, 2)
            stream.feed(b'LOG {"jsonrpc": "2.0", "id": 0, "result": {}}\n')
            await trio_wait_until(lambda: results)
            assert "the agent's answer to a cannot be read" in results[0]
            stream.feed(answer(1, "fine"))
        assert results[1] == "fine"


async def test_f2_the_answers_in_a_batch_are_answers():
    async with connected() as (connection, stream, owner):
        results = []

        async def ask():
            results.append(await connection.request("a", {}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await sent(stream, 1)
            stream.feed([told("n", 1), answer(0, "fine"), told("n", 2)])
        assert results == ["fine"]
        assert owner.told == [("n", 1), ("n", 2)]


@pytest.mark.obligation("C81")
async def test_c81_in_version_2_a_batch_is_answered_by_one_array_when_all_is_done():
    async with connected() as (connection, stream, owner):
        connection.batches = True
        released = trio.Event()

        async def late(params):
            await released.wait()
            return {"late": params}

        async def soon(params):
            released.set()
            return {"soon": params}

        owner.served = {"late": late, "soon": soon}
        stream.feed([request("l", "late", 1), told("n", 1), request(7, "soon", 2), 5])
        (answers,) = await sent(stream, 1)
        assert {a["id"]: a.get("result") for a in answers} == {
            "l": {"late": 1},
            7: {"soon": 2},
            None: None,  # the entry that is no message
        }
        assert next(a for a in answers if a["id"] is None)["error"]["code"] == -32600
        assert owner.told == [("n", 1)]
        assert owner.noise == ["1 entries of a batch that are no messages"]


@pytest.mark.obligation("C81")
async def test_c81_answers_in_a_batch_of_version_2_are_matched_by_their_ids():
    async with connected() as (connection, stream, owner):
        connection.batches = True
        results = {}

        async def ask(name):
            results[name] = await connection.request(name, {})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
            messages = await sent(stream, 2)
            stream.feed([answer(m["id"], m["method"]) for m in reversed(messages)])
        assert results == {"a": "a", "b": "b"}
        assert owner.noise == []


@pytest.mark.obligation("C80")
async def test_c80_a_batch_without_requests_is_not_answered_and_an_empty_one_by_one_error():
    async with connected() as (connection, stream, owner):
        connection.batches = True
        owner.served = {"after": _echo}
        stream.feed([told("n", 1), told("n", 2)])
        stream.feed([])
        stream.feed(request(1, "after", "x"))
        empty, after = await sent(stream, 2)
        assert (empty["id"], empty["error"]["code"]) == (None, -32600)
        assert after == answer(1, "x")
        assert owner.told == [("n", 1), ("n", 2)]


@pytest.mark.obligation("C72")
async def test_c72_a_request_of_a_batch_that_is_withdrawn_is_answered_with_the_others():
    async with connected() as (connection, stream, owner):
        connection.batches = True
        owner.served = {"never": _never, "echo": _echo}
        stream.feed([request("n", "never"), request("e", "echo", 1)])
        stream.feed([told("$/cancel_request", {"requestId": "n"})])
        (answers,) = await sent(stream, 1)
        assert {a["id"]: a.get("error", {}).get("code") for a in answers} == {
            "n": -32800,
            "e": None,
        }


async def _echo(params):
    return params


async def _never(_params):
    await trio.sleep_forever()


async def test_f30_the_log_is_bounded_and_keeps_both_directions():
    async with connected() as (connection, stream, owner):
        for number in range(3000):
            stream.feed(told("n", number))
        stream.feed(told("long", "x" * 100_000))
        await trio_wait_until(lambda: len(owner.told) == 3001)
        connection.notify("mine", None)
        lines = list(connection.log)
        assert len(lines) == 2000
        assert lines[-1].sent
        assert b"mine" in lines[-1].line
        assert len(lines[-2].line) == LOG_LINE


async def test_targets_random_bytes_never_end_a_connection_that_still_speaks():
    async with connected() as (connection, stream, owner):
        for number in range(500):
            stream.feed(os.urandom(200).replace(b"\n", b" ") + b"\n", told("n", number))
        await trio_wait_until(lambda: len(owner.told) >= 500)
        assert [params for method, params in owner.told if method == "n"] == list(range(500))
        assert not connection.closed.is_set()
