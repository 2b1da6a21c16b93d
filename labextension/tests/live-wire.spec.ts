import type { IWireLine } from '../src/protocol';
import { Preferences } from '../src/live/settings';
import { WireInspector, WireLog } from '../src/live/wire';
import { FakeLive, FakeNotebook, linkState } from './live-kernel';

function lines(count: number, text = (n: number) => `line ${n}`, from = 1): IWireLine[] {
  return Array.from({ length: count }, (_, index) => ({
    number: from + index,
    direction: 'sent',
    time: 1000 * index,
    text: text(from + index)
  }));
}

function texts(log: WireLog): string[] {
  return log.text().split('\n').filter(Boolean);
}

describe('the lines of the wire', () => {
  it('are bounded, the oldest go', () => {
    const log = new WireLog(() => 2000);
    for (let batch = 0; batch < 50; batch++) {
      log.push(lines(100, undefined, 100 * batch));
      log.flush();
    }
    expect(log.node.childElementCount).toBe(2000);
    expect(texts(log)[0]).toContain('line 3000');
    expect(texts(log).at(-1)).toContain('line 4999');
  });

  it('are bounded also before they are shown', () => {
    const log = new WireLog(() => 10);
    log.push(lines(1000));
    log.flush();
    expect(texts(log)).toHaveLength(10);
    expect(texts(log)[0]).toContain('line 991');
  });

  it('are only appended: those that are there stay the same nodes', () => {
    const log = new WireLog(() => 10);
    log.push(lines(3));
    log.flush();
    const before = [...log.node.children];
    log.push(lines(2));
    log.flush();
    expect([...log.node.children].slice(0, 3)).toEqual(before);
    expect(log.node.childElementCount).toBe(5);
  });

  it('show no invisible character that JSON has escaped', () => {
    const log = new WireLog(() => 10);
    log.push(lines(1, () => '{"method":"x","title":"un\\u202eknown\\u200b"}'));
    log.flush();
    const node = log.node.querySelector('details')!;
    node.open = true;
    node.dispatchEvent(new Event('toggle'));
    expect(node.querySelector('pre')?.textContent).toContain('un⟨U+202E⟩known⟨U+200B⟩');
  });

  it('wait while paused, and none is lost', () => {
    const log = new WireLog(() => 10);
    log.paused = true;
    log.push(lines(3));
    log.flush();
    expect(log.node.childElementCount).toBe(0);
    log.paused = false;
    log.flush();
    expect(log.node.childElementCount).toBe(3);
  });

  it('are filtered, those that come later too', () => {
    const log = new WireLog(() => 10);
    log.push(lines(2));
    log.flush();
    log.filter = 'LINE 2';
    log.push(lines(2));
    log.flush();
    expect(texts(log).map(text => text.slice(-6))).toEqual(['line 2', 'line 2']);
    log.filter = '';
    expect(texts(log)).toHaveLength(4);
    log.clear();
    expect(texts(log)).toEqual([]);
  });

  it('are parsed when they are unfolded, and stay text', () => {
    const log = new WireLog(() => 10);
    const hostile = '<img src=x onerror=alert(1)>';
    log.push(lines(1, () => JSON.stringify({ id: 1, method: 'session/prompt', params: hostile })));
    log.push(lines(1, () => hostile));
    log.flush();
    const [message, plain] = log.node.querySelectorAll('details');
    expect(message!.querySelector('.acp-Wire-head')!.textContent).toBe('session/prompt #1');
    expect(log.node.querySelector('pre')).toBeNull();
    for (const node of [message!, plain!]) {
      node.open = true;
      node.dispatchEvent(new Event('toggle'));
    }
    expect(message!.querySelector('pre')!.textContent).toBe(
      JSON.stringify({ id: 1, method: 'session/prompt', params: hostile }, null, 2)
    );
    expect(plain!.querySelector('pre')!.textContent).toBe(hostile);
    expect(log.node.querySelector('img')).toBeNull();
  });
});

describe('the wire inspector', () => {
  function inspect(notebook: FakeNotebook): {
    live: FakeLive;
    box: HTMLInputElement;
    inspector: WireInspector;
  } {
    const live = new FakeLive([notebook]);
    const inspector = new WireInspector(live, new Preferences());
    document.body.replaceChildren(inspector.node);
    const box = inspector.node.querySelector<HTMLInputElement>('input[type=checkbox]')!;
    return { live, box, inspector };
  }

  it('asks for the wire of a link, and no longer', () => {
    const notebook = new FakeNotebook([linkState()]);
    const { box } = inspect(notebook);
    box.click();
    box.click();
    expect(notebook.requests).toEqual([
      { type: 'wire', link: 'a', on: true },
      { type: 'wire', link: 'a', on: false }
    ]);
  });

  it('shows the lines that come, until it is gone', () => {
    const notebook = new FakeNotebook([linkState()]);
    const { inspector } = inspect(notebook);
    notebook.received.emit({ type: 'wire', link: 'a', lines: lines(2) });
    inspector.log.flush();
    expect(texts(inspector.log)).toHaveLength(2);
    inspector.dispose();
    notebook.received.emit({ type: 'wire', link: 'a', lines: lines(2) });
    inspector.log.flush();
    expect(texts(inspector.log)).toEqual([]);
  });

  it('has the switch off when the kernel refuses', async () => {
    const notebook = new FakeNotebook([linkState()]);
    notebook.failure = 'no';
    const { box } = inspect(notebook);
    box.click();
    await new Promise(resolve => setTimeout(resolve));
    expect(box.checked).toBe(false);
  });
});
