import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';

import { Channel, REQUEST_TIMEOUT } from '../src/live/channel';
import { Live } from '../src/live/notebooks';
import { HELLO_TARGET, LIVE_TARGET, LIVE_VERSION } from '../src/protocol';
import { FakeComm, FakeKernel, FakePanel, linkState } from './live-kernel';

function openChannel(kernel: FakeKernel): Channel {
  const channel = new Channel(kernel.connection);
  channel.open();
  return channel;
}

function state(...keys: string[]): object {
  return { type: 'state', version: 1, links: keys.map(key => linkState({ key })) };
}

describe('the comm with a kernel', () => {
  it('says hello, and is connected when the kernel tells its state', () => {
    const kernel = new FakeKernel();
    const channel = openChannel(kernel);
    expect(kernel.comm).toMatchObject({ targetName: LIVE_TARGET, opened: true });
    expect(kernel.comm.sent).toEqual([{ type: 'hello', version: LIVE_VERSION, id: '1' }]);
    expect(channel.connected).toBe(false);

    const changed = jest.fn();
    channel.changed.connect(changed);
    kernel.comm.say(state('a', 'b'));
    expect(channel.connected).toBe(true);
    expect(channel.links.map(link => link.key)).toEqual(['a', 'b']);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it('gives each reply to the request of its id, in whatever order they come', async () => {
    const kernel = new FakeKernel();
    const channel = openChannel(kernel);
    const first = channel.request({ type: 'cancel', link: 'a' });
    const second = channel.request({ type: 'complete', code: '/p', cursor: 2 });
    kernel.comm.reply(2, { start: 0 });
    kernel.comm.reply(1, 'done');
    await expect(second).resolves.toEqual({ start: 0 });
    await expect(first).resolves.toBe('done');
  });

  it('fails with the words of a kernel that refuses', async () => {
    const kernel = new FakeKernel();
    const request = openChannel(kernel).request({ type: 'cancel', link: 'x' });
    const { id } = kernel.comm.sent[1]!;
    kernel.comm.say({ type: 'reply', id, ok: false, error: 'There is no link "x".' });
    await expect(request).rejects.toThrow('There is no link "x".');
  });

  it('does not wait for ever', async () => {
    jest.useFakeTimers();
    try {
      const kernel = new FakeKernel();
      const channel = openChannel(kernel);
      kernel.comm.reply(0);
      const request = channel.request({ type: 'cancel', link: 'a' });
      jest.advanceTimersByTime(REQUEST_TIMEOUT);
      await expect(request).rejects.toThrow('has not answered in 30 s');
      kernel.comm.reply(1); // Too late, and no error.
    } finally {
      jest.useRealTimers();
    }
  });

  it('passes on what is neither state nor reply, and ignores what is no message', () => {
    const kernel = new FakeKernel();
    const received = jest.fn();
    openChannel(kernel).received.connect((_, message) => void received(message));
    const follow = { type: 'follow', link: 'a', location: { path: 'x.py' } };
    [null, {}, state(), follow].forEach(message => kernel.comm.say(message));
    expect(received.mock.calls).toEqual([[follow]]);
  });

  it('opens a new comm after a restart; what was asked before fails', async () => {
    const kernel = new FakeKernel();
    const channel = openChannel(kernel);
    kernel.comm.say(state('a'));
    const request = channel.request({ type: 'cancel', link: 'a' });
    kernel.restart();
    await expect(request).rejects.toThrow('restarted');
    expect(channel.connected).toBe(false);
    expect(channel.links).toEqual([]);
    expect(kernel.comms).toHaveLength(2);
    expect(kernel.comm.sent[0]).toMatchObject({ type: 'hello' });

    kernel.comms[0]!.say(state('old'));
    expect(channel.connected).toBe(false);
    kernel.comm.say(state('new'));
    expect(channel.links.map(link => link.key)).toEqual(['new']);
  });

  it('closes the old comm when a lost connection is back, and opens another', () => {
    const kernel = new FakeKernel();
    openChannel(kernel);
    kernel.connect('connecting');
    expect(kernel.comms).toHaveLength(1);
    kernel.connect('connected');
    expect(kernel.comms.map(comm => comm.closed)).toEqual([true, false]);
  });

  it('waits for a connection that is not there yet', () => {
    const kernel = new FakeKernel();
    kernel.connectionStatus = 'connecting';
    openChannel(kernel);
    expect(kernel.comms).toEqual([]);
    kernel.connect('connected');
    expect(kernel.comms).toHaveLength(1);
  });

  it('does not insist when the kernel closes the comm, until the kernel says hello', async () => {
    const warned = jest.spyOn(console, 'warn').mockImplementation(() => {});
    const kernel = new FakeKernel();
    const channel = openChannel(kernel);
    const request = channel.request({ type: 'cancel', link: 'a' });
    kernel.comm.end();
    await expect(request).rejects.toThrow('ended the connection');
    await expect(channel.request({ type: 'cancel', link: 'a' })).rejects.toThrow('not connected');
    expect(kernel.comms).toHaveLength(1);

    const hello = new FakeComm(HELLO_TARGET);
    kernel.targets.get(HELLO_TARGET)!(hello);
    expect(hello.isDisposed).toBe(true);
    expect(kernel.comms).toHaveLength(2);
    expect(warned).not.toHaveBeenCalled();
    warned.mockRestore();
  });

  it('stays silent on a second connection, which carries no comms', async () => {
    const kernel = new FakeKernel();
    kernel.handleComms = false;
    const channel = openChannel(kernel);
    expect(channel.connected).toBe(false);
    await expect(channel.request({ type: 'cancel', link: 'a' })).rejects.toThrow('not connected');
  });

  it('tells the kernel when it or the page goes', () => {
    const kernel = new FakeKernel();
    const channel = openChannel(kernel);
    window.dispatchEvent(new Event('pagehide'));
    expect(kernel.comm.closed).toBe(true);

    const other = new FakeKernel();
    openChannel(other).dispose();
    expect(other.comm.closed).toBe(true);
    expect(other.targets.size).toBe(0);
    other.connect('connected');
    expect(other.comms).toHaveLength(1);
    channel.dispose();
  });
});

class FakeTracker {
  readonly widgetAdded = new Signal<this, NotebookPanel>(this);

  constructor(private readonly _panels: FakePanel[]) {}

  forEach(callback: (panel: NotebookPanel) => void): void {
    this._panels.forEach(each => callback(each.panel));
  }
}

function liveOf(...panels: FakePanel[]): { live: Live; tracker: FakeTracker } {
  const tracker = new FakeTracker(panels);
  return { live: new Live(tracker as unknown as INotebookTracker), tracker };
}

/** Whatever was started without being waited for. */
async function settled(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve));
}

describe('which kernels are spoken to', () => {
  it('is the agent kernel, by its name or its language', async () => {
    const named = new FakeKernel('acp', 'k1');
    const renamed = new FakeKernel('my-agent', 'k2');
    renamed.info = Promise.resolve({ language_info: { name: 'acp' } });
    liveOf(new FakePanel('a', named), new FakePanel('b', renamed));
    await settled();
    expect([named, renamed].map(kernel => kernel.comms.length)).toEqual([1, 1]);
  });

  it.each([
    ['import math', 0],
    ['# no %acp here', 0],
    ['%load_ext acp_jupyter', 1],
    ['import acp_jupyter as acp', 1],
    ['\n%%acp\nhello', 1]
  ])('is a Python kernel if a cell is %j: %d', async (source, comms) => {
    const kernel = new FakeKernel('python3');
    liveOf(new FakePanel('a', kernel, ['x = 1', source]));
    await settled();
    expect(kernel.comms).toHaveLength(comms);
  });

  it('is a Python kernel that says hello', async () => {
    const kernel = new FakeKernel('python3');
    liveOf(new FakePanel('a', kernel));
    await settled();
    kernel.targets.get(HELLO_TARGET)!(new FakeComm(HELLO_TARGET));
    expect(kernel.comms).toHaveLength(1);
  });

  it('is a Python kernel that has said hello before the page was loaded', async () => {
    const kernel = new FakeKernel('python3');
    kernel.says = [HELLO_TARGET];
    liveOf(new FakePanel('a', kernel));
    await settled();
    expect(kernel.comms).toHaveLength(1);
  });

  it('is not one that was replaced before it could tell', async () => {
    const slow = new FakeKernel('python3', 'k1');
    const panel = new FakePanel('a', slow);
    liveOf(panel);
    panel.use(new FakeKernel('acp', 'k2'));
    await settled();
    expect(slow.comms).toEqual([]);
    expect(slow.targets.size).toBe(0);
  });
});

describe('the notebooks of the page', () => {
  it('share one comm where they share a kernel, until the last is closed', () => {
    const kernel = new FakeKernel();
    const [one, other] = [new FakePanel('a', kernel), new FakePanel('b', kernel)];
    const { live } = liveOf(one, other);
    kernel.comm.say(state('x'));
    expect(kernel.comms).toHaveLength(1);
    expect(live.of(one.panel)!.links).toBe(live.of(other.panel)!.links);
    one.disposed.emit();
    expect(live.notebooks).toHaveLength(1);
    expect(kernel.comm.closed).toBe(false);
    other.disposed.emit();
    expect(kernel.comm.closed).toBe(true);
  });

  it('go on by another connection when that which they used is closed', () => {
    const first = new FakeKernel('acp', 'same');
    const second = new FakeKernel('acp', 'same');
    const [one, other] = [new FakePanel('a', first), new FakePanel('b', second)];
    const { live } = liveOf(one, other);
    expect(second.comms).toEqual([]);
    first.dispose();
    expect(second.comms).toHaveLength(1);
    second.comm.say(state('x'));
    expect(live.of(other.panel)!.connected).toBe(true);
  });

  it('are followed from kernel to kernel, and are told of', async () => {
    const old = new FakeKernel('acp', 'k1');
    const panel = new FakePanel('a', old);
    const { live, tracker } = liveOf();
    const changed = jest.fn();
    live.changed.connect(changed);
    tracker.widgetAdded.emit(panel.panel);
    old.comm.say(state('x'));
    expect(changed).toHaveBeenCalledTimes(2);

    const next = new FakeKernel('acp', 'k2');
    panel.use(next);
    expect(old.comm.closed).toBe(true);
    expect(live.of(panel.panel)!.connected).toBe(false);
    next.comm.say(state('y'));
    expect(live.of(panel.panel)!.links[0]!.key).toBe('y');
    panel.use(null);
    await expect(live.of(panel.panel)!.request({ type: 'cancel', link: 'y' })).rejects.toThrow(
      'no kernel'
    );
  });
});
