"""The live connection: frontends follow the notebook's agents, and act for their user.

A page that has our extension opens a comm (`LIVE_TARGET`) and gets the state of all agents, what
they work on, and on request the wire. The messages are those of the extension's ``protocol.ts``.

* Messages of pages arrive on the shell channel thread (`questions.comms`), so also while a cell
  runs; they are handed to the trio thread at once. Where no agent was started yet there is no such
  thread: then the little that is known is answered where the message arrives.
* A page gets the state when it differs from what it got last, ten times a second at most. Without
  a page nothing is made or sent.
* Pages go without a word when a browser is closed. One that says nothing any more is only kept
  among the last `LISTENING`; it is back as soon as it says something.
* Nothing that an agent says makes a request: only frontends can, their messages are signed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ..errors import ACPError, UsageError
from .pace import Pace

if TYPE_CHECKING:
    from ..questions.comms import CommTap
    from .host import Host
    from .live_documents import PageDocuments
    from .live_requests import Completer, Requests
    from .live_state import Snapshots
    from .live_wire import WireTail

LIVE_TARGET: Final = "acp.live"
"""Target of the comms that frontends open."""

HELLO_TARGET: Final = "acp.live.hello"
"""Target of the one comm that the kernel opens, and keeps listed, to say that they may."""

VERSION: Final = 1

STATE_INTERVAL: Final = 0.1
FOLLOW_INTERVAL: Final = 0.2
WIRE_INTERVAL: Final = 0.2
"""Seconds between two messages of a kind."""

LISTENING: Final = 16

_log = logging.getLogger(__name__)


@dataclass
class _Page:
    """A comm that a frontend has opened.

    Attributes:
        heard: grows; the page that said something last has the largest.
        greeted: it has said hello, and so wants the state.
        state: what it got last; ``None`` before the first.
        wires: by key of the links whose wire it wants.
    """

    comm_id: str
    heard: int
    greeted: bool = False
    state: list[dict[str, Any]] | None = None
    wires: dict[str, WireTail] = field(default_factory=dict)


class Live:
    """See the module.

    Args:
        host: whose agents it is about.
        tap: where messages arrive; ``None`` where the kernel's version is unknown to it: then they
            are answered when the main thread is free.
        complete: the surface's completion.
    """

    def __init__(self, host: Host, tap: CommTap | None, complete: Completer) -> None:
        self._host = host
        self._kernel = host.kernel
        self._tap = tap
        self._complete = complete
        self._folder = host.cwd
        self._lock = threading.RLock()
        self._pages: dict[str, _Page] = {}
        self._clock = count(1)
        self._hello: Any = None
        self._focus: dict[str, Any] = {}
        self._follow: dict[str, Any] | None = None
        self._states = Pace(host.portal, STATE_INTERVAL, self._publish_states)
        self._follows = Pace(host.portal, FOLLOW_INTERVAL, self._publish_follow)
        self._wires = Pace(host.portal, WIRE_INTERVAL, self._publish_wires)
        self._parts: tuple[Snapshots, Requests] | None = None
        self._documents: PageDocuments | None = None

    # -- the surface's side --------------------------------------------------------------------

    def open(self) -> None:
        """Let frontends open their comms."""
        if self._tap is not None:
            self._tap.serve(LIVE_TARGET, self._on_open)
        else:
            self._kernel.comm_manager.register_target(LIVE_TARGET, self._on_comm)

    def say_hello(self) -> None:
        """Tell the pages that are connected already; others find it in the kernel's list of comms.

        It belongs to no cell: programs that run notebooks warn of comms of a cell that they do not
        know.
        """
        from comm import create_comm

        hello = self._hello = create_comm(target_name=HELLO_TARGET, primary=False)
        self._kernel.comm_manager.register_comm(hello)
        if self._tap is not None:  # a page that does not know the target closes it: no matter
            self._tap.adopt(hello.comm_id, lambda _data: None, lambda: None)
        content = {"comm_id": hello.comm_id, "target_name": HELLO_TARGET, "data": {}}
        self._publish("comm_open", hello.comm_id, content)

    def close(self) -> None:
        """Take it away; pages are told."""
        manager = self._kernel.comm_manager
        if self._tap is not None:
            self._tap.serve(LIVE_TARGET, None)
        elif LIVE_TARGET in manager.targets:
            manager.unregister_target(LIVE_TARGET, self._on_comm)
        with self._lock:
            gone, self._pages = list(self._pages), {}
        if self._hello is not None:
            if self._tap is not None:
                self._tap.drop(self._hello.comm_id)
            self._hello.close()
            self._hello = None
        for comm_id in gone:
            if self._tap is not None:
                self._tap.drop(comm_id)
            self._publish("comm_close", comm_id, {"comm_id": comm_id, "data": {}})

    def touch(self) -> None:
        """Something about an agent may have changed. On the trio thread; often, so it is cheap."""
        if not self._pages:
            return
        self._states.ask()
        if any(page.wires for page in self._pages.values()):
            self._wires.ask()

    def documents(self) -> PageDocuments | None:
        """What is open in the pages; ``None`` where none can be asked. On the trio thread.

        Without the tap none can: the answer would wait for the cell that waits for it.
        """
        if self._tap is None or not self._listening():
            return None
        if self._documents is None:
            from .live_documents import PageDocuments

            server = self._host.kernel_server
            root = "" if server is None or server.served is None else server.served.server.info.root
            self._documents = PageDocuments(root, self._heard, self._ask)
        return self._documents if self._documents.root else None

    def _heard(self) -> dict[str, int]:
        with self._lock:
            return {page.comm_id: page.heard for page in self._listening()}

    def _ask(self, comm_id: str, question: dict[str, Any]) -> None:
        with self._lock:
            page = self._pages.get(comm_id)
            if page is not None:
                self._send(page, question)

    def _answered(self, page: _Page, request: dict[str, Any]) -> None:
        if self._documents is None:
            raise UsageError("nothing was asked about documents")
        self._documents.take(page.comm_id, request)

    @property
    def listening(self) -> bool:
        """Whether a page with the extension is connected."""
        return any(page.greeted for page in list(self._pages.values()))

    # -- messages of pages ---------------------------------------------------------------------

    def _on_open(self, comm_id: str) -> None:
        assert self._tap is not None
        self._tap.adopt(
            comm_id,
            lambda data: self._post(self._take, comm_id, data),
            lambda: self._on_close(comm_id),
        )
        self._post(self._add, comm_id)

    def _on_close(self, comm_id: str) -> None:
        if self._tap is not None:
            self._tap.drop(comm_id)
        self._post(self._remove, comm_id)

    def _on_comm(self, comm: Any, _message: dict[str, Any]) -> None:
        """A comm was opened, by way of ipykernel's comm manager."""
        ident = comm.comm_id
        comm.on_msg(lambda m: self._post(self._take, ident, m["content"].get("data")))
        comm.on_close(lambda _message: self._on_close(ident))
        self._post(self._add, ident)

    def _post(self, function: Callable[..., None], *args: object) -> None:
        """Call a function on the trio thread, or here if there is none yet."""
        if not self._host.portal.run_soon(self._locked, function, args):
            self._locked(function, args)

    def _locked(self, function: Callable[..., None], args: tuple[object, ...]) -> None:
        """The trio thread may start while the shell channel thread is still answering."""
        with self._lock:
            function(*args)

    def _add(self, comm_id: str) -> None:
        self._pages[comm_id] = _Page(comm_id, next(self._clock))

    def _remove(self, comm_id: str) -> None:
        self._pages.pop(comm_id, None)

    def _take(self, comm_id: str, data: Any) -> None:
        page = self._pages.get(comm_id)
        if page is None:
            return
        page.heard = next(self._clock)
        if not isinstance(data, dict) or not isinstance(data.get("id"), str):
            self._reply(page, "", error="a request is an object with a type and an id")
            return
        self._serve(page, data["id"], data)
        if page.greeted:  # it may not have listened for a while
            self._tell_soon()

    # -- requests ------------------------------------------------------------------------------

    def _serve(self, page: _Page, ident: str, request: dict[str, Any]) -> None:
        _, requests = self._made()
        match request.get("type"):
            case "hello":
                self._settle(page, ident, lambda _request: self._greet(page), request)
            case "wire":
                self._settle(page, ident, lambda _request: self._wire(page, request), request)
            case "document":
                self._settle(page, ident, lambda _request: self._answered(page, request), request)
            case "set" if self._host.portal.running:
                self._host.portal.submit(self._settle_later, page, ident, request)
            case str() as kind if kind in requests.act:
                self._settle(page, ident, requests.act[kind], request)
            case str() as kind if kind in requests.work:
                args = (page, ident, requests.work[kind], request)
                threading.Thread(target=self._settle, args=args, daemon=True).start()
            case "set":
                self._reply(page, ident, error="no agent is connected")
            case kind:
                error = f"this kernel's acp_jupyter knows no request {str(kind)[:40]!r}"
                self._reply(page, ident, error=error)

    def _settle(
        self,
        page: _Page,
        ident: str,
        function: Callable[[dict[str, Any]], Any],
        request: dict[str, Any],
    ) -> None:
        try:
            value = function(request)
        except ACPError as error:
            self._reply(page, ident, error=str(error))
        except Exception as error:  # noqa: BLE001  # without a reply the page would wait for ever
            self._fail(page, ident, error)
        else:
            self._reply(page, ident, value)

    async def _settle_later(self, page: _Page, ident: str, request: dict[str, Any]) -> None:
        _, requests = self._made()
        try:
            value = await requests.set_option(request)
        except ACPError as error:
            self._reply(page, ident, error=str(error))
        except Exception as error:  # noqa: BLE001  # as above
            self._fail(page, ident, error)
        else:
            self._reply(page, ident, value)

    def _fail(self, page: _Page, ident: str, error: Exception) -> None:
        _log.error("a request of a frontend failed", exc_info=error)
        text = f"internal error: {type(error).__name__}: {error}. Please report it."
        self._reply(page, ident, error=text)

    def _reply(self, page: _Page, ident: str, value: Any = None, *, error: str = "") -> None:
        from ..rendering.characters import visible

        outcome: dict[str, Any] = {"ok": True, "value": value}
        if error:
            outcome = {"ok": False, "error": visible(error)[:2000]}
        self._send(page, {"type": "reply", "id": visible(ident), **outcome})

    def _greet(self, page: _Page) -> None:
        page.greeted, page.state = True, None
        if all(other is page or not other.greeted for other in self._pages.values()):
            self._look()  # what was worked on before somebody listened is not followed

    def _wire(self, page: _Page, request: dict[str, Any]) -> None:
        from .live_wire import WireTail

        _, requests = self._made()
        link = requests.link(request)
        on = request.get("on")
        if type(on) is not bool:
            raise UsageError("the request 'wire' needs on: true or false")
        page.wires.pop(link.key, None)
        if on:
            page.wires[link.key] = WireTail(self._host.environ)
            self._wires.ask()

    # -- what pages are told -------------------------------------------------------------------

    def _made(self) -> tuple[Snapshots, Requests]:
        """What only a kernel needs that a page is connected to."""
        if self._parts is None:
            from .live_requests import Requests
            from .live_state import Snapshots

            self._parts = Snapshots(), Requests(self._host, self._folder, self._complete)
        return self._parts

    def _listening(self) -> list[_Page]:
        pages = sorted(self._pages.values(), key=lambda page: page.heard)
        return [page for page in pages[-LISTENING:] if page.greeted]

    def _tell_soon(self) -> None:
        if self._host.portal.running:
            self._states.ask()
        else:
            self._publish_states()

    def _publish_states(self) -> None:
        snapshots, _ = self._made()
        with self._lock:
            pages = self._listening()
            if not pages:
                return
            links = snapshots.of(self._host.all_links())
            for page in pages:
                if page.state != links:
                    page.state = links
                    self._send(page, {"type": "state", "version": VERSION, "links": links})
            found = self._look()
        if found is not None:
            self._follow = found
            self._follows.ask()

    def _look(self) -> dict[str, Any] | None:
        """The file that an agent has turned to since the last look."""
        from ..rendering.entrydata import relative_path

        found = None
        focus: dict[str, Any] = {}
        for link in self._host.all_links():
            for session in link.agent.sessions.values() if link.agent is not None else ():
                place = focus[session.display_prefix] = session.transcript.focus
                if place is None or place is self._focus.get(session.display_prefix):
                    continue
                path = relative_path(place.get("path"), session.cwd, self._folder)
                if path is not None:
                    line = place.get("line")
                    location = {"path": path, "line": line} if type(line) is int else {"path": path}
                    found = {"type": "follow", "link": link.key, "location": location}
        self._focus = focus
        return found

    def _publish_follow(self) -> None:
        message, self._follow = self._follow, None
        if message is None:
            return
        with self._lock:
            for page in self._listening():
                self._send(page, message)

    def _publish_wires(self) -> None:
        import trio

        now = trio.current_time()
        links = {link.key: link for link in self._host.all_links()}
        with self._lock:
            for page in self._listening():
                for key, tail in page.wires.items():
                    agent = links[key].agent if key in links else None
                    lines = tail.read(agent, now) if agent is not None else []
                    if lines:
                        self._send(page, {"type": "wire", "link": key, "lines": lines})

    def _send(self, page: _Page, data: dict[str, Any]) -> None:
        if page.comm_id in self._pages:
            self._publish("comm_msg", page.comm_id, {"comm_id": page.comm_id, "data": data})

    def _publish(self, kind: str, comm_id: str, content: dict[str, Any]) -> None:
        """Send to all frontends, from any thread; it belongs to no cell."""
        kernel = self._kernel
        if kernel.session is not None:
            topic = f"comm-{comm_id}".encode()
            kernel.session.send(kernel.iopub_socket, kind, content, ident=topic)
