"""How each row of the table is measured. What is compared runs in turn, A B A B, in one run.

Every measure takes the number of runs and yields rows. Ratios are medians of the ratios of
neighbouring runs; absolute figures stand beside them, for this machine only.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.behind_server import ServedRun, default_server, run_behind_server
from tests.bench.files import files
from tests.bench.goals import Row, median_ratio, percentile
from tests.bench.in_browser import PageCost, page_cost, running_lab
from tests.bench.kernels import (
    MINIMAL,
    OURS,
    PLAIN,
    RESENDING,
    CellRun,
    RunningKernel,
    Start,
    chunk_numbers,
    final_text,
    measure_start,
    running_kernel,
)
from tests.bench.sweeping import sweeping
from tests.bench.wire import WireCost, agent_command, measure_wire

MANY, LARGE, TOOLS = "chunks 20000 20", "chunks 2000 2000", "tools 500"
MANY_COUNT = 20_000
UNBROKEN = "unbroken 20000 20"
AFTER_PAUSE = "paced 30 100"
STEADY = "paced 300 10"
STEADY_LONG = "stream 1000 200 5"
WARM_UP = "chunks 1000 20"
GROWTH = "chunks 100000 20"

IN_PAGE, IN_PAGE_FINE, TOOLS_IN_PAGE = "stream 1000 20 2", "stream 5000 4 0.4", "tools 200"
"""Twice the same 20 kB over two seconds, and a burst of tool calls."""

PAGE_PAIRS = 2
"""Runs of what a page bears, for the naive way takes half a minute for each."""

MARK = re.compile(r"T(\d{6,})Z")
MB = 1e6


def connect_cell(*scenarios: str, log: Path | None = None) -> str:
    """The cell that connects a kernel to the scripted agent."""
    return "%acp connect -- " + shlex.join(agent_command(*scenarios, log=log))


@contextmanager
def connected(name: str, *scenarios: str, log: Path | None = None) -> Iterator[RunningKernel]:
    """A kernel that has connected to the scripted agent and run one small prompt."""
    with running_kernel(name, ACP_JUPYTER_PERMISSIONS="allow") as kernel:
        kernel.run(connect_cell(WARM_UP, *scenarios, log=log)).expect_ok()
        kernel.run(WARM_UP).expect_ok()
        yield kernel


def ingest(runs: int) -> Iterator[Row]:
    """The client alone, in a process of its own: connection, log, normalisation, reducer."""
    for name, scenario in (("ingest", MANY), ("ingest-large", LARGE), ("ingest-tools", TOOLS)):
        clients = ["json", "ours"] + (["sdk"] if name == "ingest" else [])
        costs: dict[str, list[WireCost]] = {client: [] for client in clients}
        for _ in range(runs):
            for client in clients:
                costs[client].append(measure_wire(client, scenario))
        floor = [cost.cpu for cost in costs["json"]]
        for client in clients[1:]:
            key = name if client == "ours" else "ingest-sdk"
            note = f"{_micro(costs[client])} against {_micro(costs['json'])} µs an update"
            yield Row(key, median_ratio([cost.cpu for cost in costs[client]], floor), note)


def _micro(costs: list[WireCost]) -> str:
    return f"{median(cost.cpu / cost.updates for cost in costs) * 1e6:.2f}"


def flood(runs: int) -> Iterator[Row]:
    """Whole answers at once, end to end: the kernel, the peer and the floor in turn."""
    scenarios = (MANY, LARGE, TOOLS, UNBROKEN)
    with connected(OURS, *scenarios) as ours, connected(MINIMAL, *scenarios) as peer:
        yield from _many_chunks(runs, ours, peer)
        for key, scenario in (("large-peer", LARGE), ("tools-peer", TOOLS)):
            walls: list[float] = []
            peers: list[float] = []
            for _ in range(runs):
                walls.append(ours.run(scenario).expect_ok().wall)
                peers.append(peer.run(scenario).expect_ok().wall)
            yield Row(key, median_ratio(walls, peers), _against(walls, peers))
        unbroken = [ours.run(UNBROKEN).expect_ok() for _ in range(runs)]
        yield Row("bytes-unbroken", *_bytes(unbroken, MANY_COUNT * 20))
        steady = [ours.run(STEADY_LONG).expect_ok() for _ in range(min(runs, 3))]
        yield Row("bytes-steady", *_bytes(steady, 200_000))


def _many_chunks(runs: int, ours: RunningKernel, peer: RunningKernel) -> Iterator[Row]:
    floors: list[float] = []
    walls: list[float] = []
    peers: list[float] = []
    cpus: list[float] = []
    cells: list[CellRun] = []
    for _ in range(runs):
        floors.append(measure_wire("json", MANY).wall)
        before = ours.cpu()
        cell = ours.run(MANY).expect_ok()
        cpus.append((ours.cpu() - before) / MANY_COUNT * 1e6)
        cells.append(cell)
        walls.append(cell.wall)
        peers.append(peer.run(MANY).expect_ok().wall)
    yield Row("flood-loop", median_ratio(walls, floors), _against(walls, floors))
    yield Row("flood-peer", median_ratio(walls, peers), _against(walls, peers))
    yield Row("flood-cpu", median(cpus))
    counts = f"{median(len(cell.published) for cell in cells):.0f} IOPub messages"
    yield Row("flood-lost", max(_misplaced(cell) for cell in cells), counts)
    yield Row("bytes", *_bytes(cells, MANY_COUNT * 20))


def _misplaced(cell: CellRun) -> int:
    """Chunks that do not stand where they should in the final outputs."""
    numbers = chunk_numbers(final_text(cell.published))
    kept = sum(number == place for place, number in enumerate(numbers[:MANY_COUNT]))
    return MANY_COUNT - kept


def _bytes(cells: list[CellRun], answer: int) -> tuple[float, str]:
    content = median(cell.content_bytes for cell in cells)
    messages = median(len(cell.published) for cell in cells)
    return content / answer, f"{content / 1000:,.0f} kB in {messages:.0f} messages"


def _against(values: list[float], floors: list[float]) -> str:
    return f"{median(values) * 1000:,.1f} against {median(floors) * 1000:,.1f} ms"


def latency(runs: int) -> Iterator[Row]:
    """From the agent's write to the message at the client, by the times in the chunks."""
    ours_p95: list[float] = []
    peer_p95: list[float] = []
    steady_p95: list[float] = []
    rates: list[float] = []
    with connected(OURS) as ours, connected(MINIMAL) as peer:
        for _ in range(runs):
            ours_p95.append(_p95(ours.run(AFTER_PAUSE).expect_ok()))
            peer_p95.append(_p95(peer.run(AFTER_PAUSE).expect_ok()))
        for _ in range(runs):
            cell = ours.run(STEADY).expect_ok()
            steady_p95.append(_p95(cell) * 1000)
            rates.append(len(cell.published) / cell.wall)
    yield Row("messages", median(rates), "chunks every 10 ms for 3 s")
    note = _against(ours_p95, peer_p95) + ", a chunk every 100 ms"
    yield Row("latency-first", median_ratio(ours_p95, peer_p95), note)
    yield Row("latency-steady", median(steady_p95), "chunks every 10 ms")


def _p95(cell: CellRun) -> float:
    """Seconds between a mark's writing and the first message that shows it.

    Raises:
        RuntimeError: no mark was shown at all.
    """
    seen: dict[int, float] = {}
    for message in cell.published:
        for mark in MARK.findall(json.dumps(message.content)):
            seen.setdefault(int(mark), message.at)
    if not seen:
        raise RuntimeError("no timed chunk was shown")
    return percentile([at - mark / 1e9 for mark, at in seen.items()], 0.95)


def start(runs: int) -> Iterator[Row]:
    """Kernels started by their command, in turn."""
    starts: dict[str, list[Start]] = {PLAIN: [], OURS: []}
    for _ in range(runs + 2):  # short, and the noisiest of all
        for name, measured in starts.items():
            measured.append(measure_start(name))
    seconds = {name: [start.seconds for start in measured] for name, measured in starts.items()}
    note = _against(seconds[OURS], seconds[PLAIN])
    yield Row("start", median_ratio(seconds[OURS], seconds[PLAIN]), note)
    memory = {name: [start.memory / MB for start in each] for name, each in starts.items()}
    note = f"{median(memory[OURS]):.1f} against {median(memory[PLAIN]):.1f} MB"
    yield Row("memory-ready", median_ratio(memory[OURS], memory[PLAIN]), note)


def load(runs: int) -> Iterator[Row]:
    """The extension in a kernel that has just started, each time a new one; ours first, so that
    the peer finds what both need."""
    steps = ("import acp_jupyter", "%load_ext acp_jupyter", "import ipywidgets")
    starts: list[float] = []
    seconds: dict[str, list[float]] = {step: [] for step in steps}
    for _ in range(runs):
        starts.append(measure_start(PLAIN).seconds)
        with running_kernel(PLAIN) as kernel:
            for step in steps:
                seconds[step].append(_timed(kernel, step))
    imported, loaded, peer = (seconds[step] for step in steps)
    yield Row("import", median_ratio(imported, starts), _against(imported, starts))
    yield Row("load", median_ratio(loaded, starts), _against(loaded, starts))
    yield Row("load-peer", median_ratio(loaded, peer), _against(loaded, peer))


def _timed(kernel: RunningKernel, line: str) -> float:
    """Seconds that a line takes in the kernel, without the messages around it."""
    clock = "__import__('time').perf_counter()"
    run = kernel.run(f"_began = {clock}\n{line}\nprint({clock} - _began)").expect_ok()
    return float(final_text(run.published))


def memory(runs: int) -> Iterator[Row]:
    """What 100,000 updates leave behind, each time in a new kernel."""
    kept: list[float] = []
    for _ in range(runs):
        with connected(OURS, GROWTH) as kernel:
            before = kernel.settled_memory()
            kernel.run(GROWTH).expect_ok()
            kept.append((kernel.settled_memory() - before) / MB)
    yield Row("memory-growth", median(kept), "2 MB of text in one answer")


def cancel(runs: int) -> Iterator[Row]:
    """The interrupt as a client sends it, timed by the agent where only it can see it."""
    with TemporaryDirectory(prefix="bench-") as directory:
        log = Path(directory) / "agent.jsonl"
        with connected(OURS, log=log) as kernel:
            paced = [_interrupt(kernel, "until-cancelled 10", log) for _ in range(runs)]
            fast = [_interrupt(kernel, "until-cancelled 0", log) for _ in range(runs)]
    yield Row("cancel-wire", median(wire for wire, _ in paced) * 1000)
    yield Row("cancel-wire-flood", median(wire for wire, _ in fast) * 1000)
    note = f"{median(idle for _, idle in fast) * 1000:.1f} ms in a flood"
    yield Row("cancel-idle", median(idle for _, idle in paced) * 1000, note)


def _interrupt(kernel: RunningKernel, scenario: str, log: Path) -> tuple[float, float]:
    """Seconds from the interrupt to the agent's reading of the cancel, and from its answer to
    idle."""
    log.write_text("")
    run = CellRun(sent=time.monotonic())
    request = kernel.send_cell(scenario)
    time.sleep(0.3)  # into the middle of the stream
    sent = time.monotonic()
    kernel.interrupt()
    kernel.finish(request, run)
    if run.idle is None:
        raise RuntimeError("the interrupted cell did not end")
    at = {event["event"]: event["at"] / 1e9 for event in _events(log)}
    if "cancel" not in at:
        raise RuntimeError("the interrupt did not reach the agent as session/cancel")
    return at["cancel"] - sent, run.idle - at["answered"]


def _events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def server(runs: int) -> Iterator[Row]:
    """Behind a Jupyter server in its default setting, which drops what is too much for it."""
    served: dict[str, list[ServedRun]] = {OURS: [], MINIMAL: []}
    with default_server(ACP_JUPYTER_PERMISSIONS="allow") as running:
        for _ in range(runs):
            for kernel, measured in served.items():
                connect = connect_cell(MANY)
                measured.append(run_behind_server(running, kernel, connect, MANY, MANY_COUNT))
    ours, peer = served[OURS], served[MINIMAL]
    swapped = sum(not run.in_order for run in ours)
    note = f"{median(run.wall for run in ours) * 1000:,.0f} ms; {swapped} of {runs} out of order"
    yield Row("server-lost", max(run.lost for run in ours) + swapped, note)
    yield Row("server-idle", sum(not run.idle for run in ours), f"of {runs}")
    yield Row("server-peer", median(run.lost for run in peer))
    yield Row("server-peer-idle", sum(not run.idle for run in peer), f"of {runs}")


def requests(runs: int) -> Iterator[Row]:
    """Requests of the agent that are answered without asking a person."""
    with TemporaryDirectory(prefix="bench-") as directory, ExitStack() as stack:
        kernels = {}
        for name in (OURS, MINIMAL):
            log = Path(directory) / f"{name}.jsonl"
            kernels[name] = (stack.enter_context(connected(name, log=log)), log)
        for key, command in (("permission", "permission 100"), ("read", "read 100 {}")):
            durations: dict[str, list[float]] = {OURS: [], MINIMAL: []}
            for _ in range(runs):
                for name, (kernel, log) in kernels.items():
                    durations[name].append(_round_trip(kernel, log, command))
            for name, row in ((OURS, key), (MINIMAL, f"{key}-peer")):
                yield Row(row, median(durations[name]))


def _round_trip(kernel: RunningKernel, log: Path, command: str) -> float:
    """Median microseconds of the requests of one cell."""
    # In the kernel's working directory, because our kernel serves nothing outside it.
    file = Path(kernel.process.cwd()) / "file.txt"
    file.write_text("0123456789abcde\n" * 640, encoding="utf-8")
    log.write_text("")
    kernel.run(command.format(file)).expect_ok()
    (event,) = [event for event in _events(log) if event["event"] == "round-trips"]
    if event["failed"]:
        raise RuntimeError(f"{event['failed']} requests were refused")
    return float(median(event["ns"])) / 1000


def page(runs: int) -> Iterator[Row]:
    """What a cell costs the page that shows it, against re-sending the whole output."""
    runs = min(runs, PAGE_PAIRS)
    with running_lab() as lab:

        def cost(kernel: str, scenario: str) -> PageCost:
            return page_cost(lab, kernel, connect_cell(scenario), scenario)

        coarse: list[PageCost] = []
        for key, scenario in (("page-stream", IN_PAGE), ("page-tools", TOOLS_IN_PAGE)):
            ours, naive = [], []
            for _ in range(runs):
                ours.append(cost(OURS, scenario))
                naive.append(cost(RESENDING, scenario))
            if key == "page-stream":
                coarse = ours
            yield from _page_rows(key, ours, naive)
        fine = [cost(OURS, IN_PAGE_FINE) for _ in range(runs)]
        kept, base = (median(each.memory for each in costs) for costs in (fine, coarse))
        note = f"{kept / MB:.1f} MB ÷ {base / MB:.1f} MB"
        yield Row("page-memory", kept / base, note)


def _page_rows(key: str, ours: list[PageCost], naive: list[PageCost]) -> Iterator[Row]:
    busy, naive_busy = ([each.busy for each in costs] for costs in (ours, naive))
    note = (
        f"{median(busy):.2f} s ÷ {median(naive_busy):.1f} s, "
        f"{median(each.script for each in ours):.2f} s of scripts"
    )
    yield Row(key, median_ratio(busy, naive_busy), note)
    longest = max(each.longest for each in ours)
    note = f"{max(each.longest for each in naive):,.0f} ms re-sending"
    yield Row(f"{key}-longest", longest, note)
    sent, naive_sent = (median(each.messages for each in costs) for costs in (ours, naive))
    yield Row(f"{key}-messages", sent / naive_sent, f"{sent:,.0f} ÷ {naive_sent:,.0f}")


Measure = Callable[[int], Iterator[Row]]

MEASURES: dict[str, tuple[Measure, tuple[str, ...]]] = {
    "ingest": (ingest, ("ingest", "ingest-large", "ingest-tools", "ingest-sdk")),
    "flood": (
        flood,
        (
            "flood-loop",
            "flood-peer",
            "flood-cpu",
            "flood-lost",
            "bytes",
            "bytes-unbroken",
            "bytes-steady",
            "large-peer",
            "tools-peer",
        ),
    ),
    "latency": (latency, ("messages", "latency-first", "latency-steady")),
    "start": (start, ("start", "memory-ready")),
    "load": (load, ("import", "load", "load-peer")),
    "memory": (memory, ("memory-growth",)),
    "cancel": (cancel, ("cancel-wire", "cancel-wire-flood", "cancel-idle")),
    "server": (server, ("server-lost", "server-idle", "server-peer", "server-peer-idle")),
    "page": (
        page,
        (
            "page-stream",
            "page-stream-longest",
            "page-stream-messages",
            "page-tools",
            "page-tools-longest",
            "page-tools-messages",
            "page-memory",
        ),
    ),
    "requests": (requests, ("permission", "permission-peer", "read", "read-peer")),
    "files": (
        files,
        (
            "files-read-1k",
            "files-write-1k",
            "files-read-1m",
            "files-write-1m",
            "files-read-10m",
            "files-write-10m",
        ),
    ),
    "sweep": (sweeping, ("sweep-run", "sweep-extra", "sweep-jobs")),
}
"""Measures by name, with the rows each yields."""
