/** What outputs become: the goldens of both sides, updates in place, and proposed cells. */

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { CommandRegistry } from '@lumino/commands';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { readEntry } from '../src/entry/data';
import { columns } from '../src/entry/diff';
import { OPEN_LOCATION, RenderedEntry } from '../src/entry/renderer';
import { sanitized } from '../src/entry/sanitize';
import type { ISurroundings } from '../src/entry/renderer';
import { ENTRY_MIME } from '../src/protocol';
import type { EntryData } from '../src/protocol';

interface IGolden {
  data: EntryData;
  html: string;
  text: string;
}

const FOLDER = join(__dirname, '../../tests/golden/entries');
const NAMES = readdirSync(FOLDER).map(name => name.replace('.json', ''));
const FALLBACKS = ['newer', 'unknown_type'];

function golden(name: string): IGolden {
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8')) as IGolden;
}

function model(data: unknown, html: string, trusted = false): IRenderMime.IMimeModel {
  return {
    data: { [ENTRY_MIME]: data as EntryData & Record<string, never>, 'text/html': html },
    metadata: {},
    trusted,
    setData: () => {}
  };
}

function modelOf({ data, html }: IGolden): IRenderMime.IMimeModel {
  return model(data, html);
}

const made: RenderedEntry[] = [];

function renderer(around: Partial<ISurroundings> = {}): RenderedEntry {
  const options = { mimeType: ENTRY_MIME, latexTypesetter: null };
  const widget = new RenderedEntry(options as unknown as IRenderMime.IRendererOptions, {
    commands: new CommandRegistry(),
    notebooks: null,
    live: null,
    ...around
  });
  Widget.attach(widget, document.body);
  made.push(widget);
  return widget;
}

afterEach(() => {
  made.splice(0).forEach(widget => widget.dispose());
  if (columns.wanted) {
    columns.toggle();
  }
});

function labels(widget: Widget): string[] {
  return [...widget.node.querySelectorAll('button')].map(button => button.textContent);
}

function press(widget: Widget, label: string): void {
  const buttons = [...widget.node.querySelectorAll('button')];
  buttons.find(button => button.textContent === label)!.click();
}

function plain(node: Node): string {
  return node.textContent!.replace(/\s+/g, ' ').trim();
}

describe('goldens', () => {
  test.each(NAMES)('%s is understood, or falls back where it cannot be', name => {
    expect(readEntry(golden(name).data) === null).toBe(FALLBACKS.includes(name));
  });

  test.each(NAMES)('the sanitizer keeps all that the HTML of %s has', name => {
    const { html } = golden(name);
    const given = document.createElement('div');
    given.innerHTML = html;
    const kept = document.createElement('div');
    kept.append(sanitized(html));
    expect(kept.innerHTML).toBe(given.innerHTML);
  });

  test.each(NAMES.filter(name => !name.startsWith('cells')))('%s shows its HTML', async name => {
    const given = golden(name);
    const widget = renderer();
    await widget.renderModel(modelOf(given));
    const body = document.createElement('div');
    body.append(sanitized(given.html));
    widget.node.querySelectorAll('button').forEach(button => button.remove());
    expect(plain(widget.node)).toBe(plain(body));
  });

  test.each(FALLBACKS)('%s has no actions and no role', async name => {
    const widget = renderer();
    await widget.renderModel(modelOf(golden(name)));
    expect(widget.node.querySelector('button')).toBeNull();
    expect(widget.node.hasAttribute('role')).toBe(false);
    expect(widget.node.textContent).not.toBe('');
  });

  test.each([
    [{ version: 0.5 }],
    [{ version: '1' }],
    [{ id: 7 }],
    [{ label: null }],
    [{ finished: 'yes' }],
    [{ locations: [{ path: 7 }] }],
    [{ locations: [{ path: 'a', line: '3' }] }],
    [{ added: NaN }]
  ])('a tool call with %j falls back, but for an older version', changes => {
    const data = { ...golden('tool_call_edit').data, ...changes };
    expect(readEntry(data) === null).toBe(!('version' in changes && changes.version === 0.5));
  });
});

describe('a tool call', () => {
  test('is a group with its label, and busy until it has ended', async () => {
    const given = golden('tool_call_command');
    const widget = renderer();
    await widget.renderModel(modelOf(given));
    expect(widget.node.getAttribute('role')).toBe('group');
    expect(widget.node.getAttribute('aria-label')).toBe(given.data.label);
    expect(widget.node.getAttribute('aria-busy')).toBe('true');
    await widget.renderModel(model({ ...given.data, finished: true }, given.html));
    expect(widget.node.hasAttribute('aria-busy')).toBe(false);
  });

  test('is announced once, when it has ended, and not when it is opened again', async () => {
    const given = golden('tool_call_command');
    const spoken = () => document.querySelector('.acp-Entry-announcements')?.textContent ?? '';
    const data = { ...given.data, id: 'announced once', label: 'It runs.' };
    const ended = model({ ...data, finished: true, label: 'It ended.' }, given.html);
    await renderer().renderModel(ended);
    expect(spoken()).not.toContain('It ended.');
    const widget = renderer();
    await widget.renderModel(model(data, given.html));
    expect(spoken()).not.toContain('It runs.');
    await widget.renderModel(ended);
    await widget.renderModel(ended);
    expect(spoken().split('It ended.').length - 1).toBe(1);
    expect(document.querySelectorAll('[aria-live=polite]').length).toBe(1);
  });

  test('opens its locations only where there is the command', async () => {
    const given = golden('tool_call_edit');
    const without = renderer();
    await without.renderModel(modelOf(given));
    expect(without.node.querySelector('[aria-label^="Open "]')).toBeNull();
    const summary = (widget: Widget) => widget.node.querySelector('summary')!.textContent;
    expect(summary(without)).toMatch(/ · src\/app\.py:3, \/etc\/passwd$/);
    const commands = new CommandRegistry();
    commands.addCommand(OPEN_LOCATION, { execute: () => {} });
    const widget = renderer({ commands });
    await widget.renderModel(modelOf(given));
    expect(summary(widget)).toBe(summary(without));
    const button = widget.node.querySelector('[aria-label="Open src/app.py at line 3"]');
    expect(button).toBeInstanceOf(HTMLButtonElement);
  });

  test('adds the files that its summary does not name', async () => {
    const commands = new CommandRegistry();
    commands.addCommand(OPEN_LOCATION, { execute: () => {} });
    const given = golden('tool_call_edit');
    const locations = [{ path: 'project/src/app.py', line: 3 }, { path: 'b.py' }];
    const widget = renderer({ commands });
    await widget.renderModel(model({ ...given.data, locations }, given.html));
    expect(widget.node.querySelector('summary')!.textContent).toMatch(
      / · src\/app\.py:3, \/etc\/passwd, b\.py$/
    );
    const names = [...widget.node.querySelectorAll('summary button')].map(each =>
      each.getAttribute('aria-label')
    );
    expect(names).toEqual(['Open project/src/app.py at line 3', 'Open b.py']);
  });

  test('copies a command without its prompt, and a diff without its numbers', async () => {
    const command = renderer();
    const { data } = golden('tool_call_command');
    await command.renderModel(model(data, '<pre>$ pytest -q</pre><pre>$ 5</pre>'));
    press(command, 'Copy');
    await Promise.resolve();
    expect(await navigator.clipboard.readText()).toBe('pytest -q');
    command.node.querySelectorAll('button')[1]!.click();
    await Promise.resolve();
    expect(await navigator.clipboard.readText()).toBe('$ 5');
    const edit = renderer();
    await edit.renderModel(modelOf(golden('tool_call_edit')));
    press(edit, 'Copy');
    await Promise.resolve();
    expect(await navigator.clipboard.readText()).toBe(
      ' import os\n \n-DEBUG = False\n+DEBUG = True\n+PORT = 8080\n'
    );
  });
});

describe('a diff', () => {
  async function wide(name: string): Promise<RenderedEntry> {
    const observed: (() => void)[] = [];
    const given = global.ResizeObserver;
    global.ResizeObserver = class extends given {
      constructor(callback: ResizeObserverCallback) {
        super(callback);
        observed.push(() => callback([], this));
      }
    };
    const widget = renderer();
    Object.defineProperty(widget.node, 'clientWidth', { value: 900 });
    await widget.renderModel(modelOf(golden(name)));
    global.ResizeObserver = given;
    observed.forEach(callback => callback());
    return widget;
  }

  test('stands in two columns where there is room and it is wanted', async () => {
    const widget = await wide('tool_call_edit');
    expect(widget.node.querySelector('table')).toBeNull();
    press(widget, 'Side by side');
    const rows = [...widget.node.querySelectorAll('tr')].map(row =>
      [...row.cells].map(cell => cell.textContent)
    );
    expect(rows).toEqual([
      ['1', 'import os', '1', 'import os'],
      ['2', '', '2', ''],
      ['3', 'DEBUG = False', '3', 'DEBUG = True'],
      ['', '', '4', 'PORT = 8080']
    ]);
    expect(widget.node.querySelector('[aria-pressed=true]')!.textContent).toBe('Side by side');
    press(widget, 'Side by side');
    expect(widget.node.querySelector('table')).toBeNull();
  });

  test('has no such button where there is no room', async () => {
    const widget = renderer();
    await widget.renderModel(modelOf(golden('tool_call_edit')));
    expect(labels(widget)).toEqual(['Copy']);
  });

  test('of git, which comes as a patch, does so too, and what names its files stays', async () => {
    const widget = await wide('tool_call_patch');
    press(widget, 'Side by side');
    const rows = [...widget.node.querySelectorAll('tr')].map(row =>
      [...row.cells].map(cell => cell.textContent)
    );
    expect(rows).toEqual([
      ['1', 'old', '1', 'new'],
      ['', '', '2', 'more']
    ]);
    expect(widget.node.querySelector('pre')!.textContent).toContain('diff --git a/a.py b/b.py');
  });

  test.each([
    ['numbers that do not count up', '2   - a\n1   - b\n'],
    ['a number on the wrong side', '  1 - a\n'],
    ['no numbers', '- a\n+ b\n']
  ])('is not seen in a block with %s', async (_, text) => {
    const widget = renderer();
    const block = `<pre><span style="display:block">${text}</span></pre>`;
    await widget.renderModel(model(golden('tool_call_edit').data, block));
    press(widget, 'Copy');
    await Promise.resolve();
    expect(await navigator.clipboard.readText()).toBe(text);
  });
});

describe('an update', () => {
  const { data } = golden('tool_call_command');

  async function updated(before: string, after: string, between: (node: HTMLElement) => void) {
    const widget = renderer();
    await widget.renderModel(model(data, before));
    between(widget.node);
    await widget.renderModel(model(data, after));
    return widget.node;
  }

  test('keeps the nodes and the text selected in them', async () => {
    let text: Node | null = null;
    const node = await updated('<pre>one two</pre>', '<pre>one two three</pre>', shown => {
      text = shown.querySelector('pre')!.firstChild;
      getSelection()!.setBaseAndExtent(text!, 4, text!, 7);
    });
    expect(node.querySelector('pre')!.firstChild).toBe(text);
    expect(getSelection()!.toString()).toBe('two');
  });

  test.each([true, false])('keeps what was opened or closed by hand (%s)', async byHand => {
    const row = (open: string, text: string) =>
      `<details ${open}><summary>s</summary>${text}</details>`;
    const node = await updated(row('', 'a'), row('open', 'b'), shown => {
      if (byHand) {
        const part = shown.querySelector('details')!;
        part.open = true;
      }
    });
    const part = node.querySelector('details')!;
    expect(part.open).toBe(true);
    expect(part.textContent).toContain('b');
  });

  test('does not open again what was closed by hand', async () => {
    const row = (text: string) => `<details open><summary>s</summary>${text}</details>`;
    const node = await updated(row('a'), row('b'), shown => {
      shown.querySelector('details')!.open = false;
    });
    expect(node.querySelector('details')!.open).toBe(false);
  });

  test('keeps a node that others are put before', async () => {
    let kept: Element | null = null;
    const node = await updated('<p>last</p>', '<div>new</div><p>last</p>', shown => {
      kept = shown.querySelector('p');
    });
    expect(node.querySelector('p')).toBe(kept);
    expect(plain(node)).toBe('newlast');
  });

  test('keeps the focus', async () => {
    const row = (text: string) => `<details><summary>${text}</summary>x</details>`;
    const node = await updated(row('a'), row('b'), shown => {
      const summary = shown.querySelector('summary')!;
      summary.tabIndex = 0;
      summary.focus();
    });
    expect(document.activeElement).toBe(node.querySelector('summary'));
  });

  test('of a block that was at its end goes to its end, of another stays', async () => {
    const tops: [number, number][] = [
      [400, 900],
      [120, 120]
    ];
    for (const [before, after] of tops) {
      const node = await updated('<pre>a</pre>', '<pre>ab</pre>', shown => {
        const block = shown.querySelector('pre')!;
        let top = before;
        Object.defineProperties(block, {
          clientHeight: { value: 100 },
          scrollHeight: { get: () => (block.textContent === 'a' ? 500 : 900) },
          scrollTop: { get: () => top, set: value => (top = Number(value)) }
        });
      });
      expect(node.querySelector('pre')!.scrollTop).toBe(after);
    }
  });

  test('is shown once for several within a frame, and each promise resolves', async () => {
    const widget = renderer();
    await widget.renderModel(model(data, '<p>0</p>'));
    const seen: string[] = [];
    const observer = new MutationObserver(() => seen.push(plain(widget.node)));
    observer.observe(widget.node, { subtree: true, childList: true, characterData: true });
    await Promise.all([1, 2, 3].map(n => widget.renderModel(model(data, `<p>${n}</p>`))));
    await Promise.resolve();
    expect(seen).toEqual(['3']);
  });

  test('resolves in a page that draws no frames', async () => {
    const draws = jest.spyOn(window, 'requestAnimationFrame').mockReturnValue(1);
    const node = await updated('<p>a</p>', '<p>b</p>', () => {});
    expect(plain(node)).toBe('b');
    draws.mockRestore();
  });

  test('after the end of the widget changes nothing', async () => {
    const widget = renderer();
    await widget.renderModel(model(data, '<p>a</p>'));
    const rendered = widget.renderModel(model(data, '<p>b</p>'));
    widget.dispose();
    await rendered;
    expect(plain(widget.node)).toBe('a');
  });
});

test('mathematics is typeset only outside of what holds none', () => {
  const typeset = jest.fn();
  const options = { mimeType: ENTRY_MIME, latexTypesetter: { typeset } };
  const around = { commands: new CommandRegistry(), notebooks: null, live: null };
  for (const html of ['<p>$x$</p>', '<div class="mathjax_ignore">$x$</div>', '<code>$</code>']) {
    const widget = new RenderedEntry(options as unknown as IRenderMime.IRendererOptions, around);
    made.push(widget);
    void widget.renderModel(model(golden('footer').data, html));
    Widget.attach(widget, document.body);
    MessageLoop.flush();
  }
  expect(typeset).toHaveBeenCalledTimes(1);
});
