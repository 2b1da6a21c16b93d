/**
 * The wire inspector: what goes between kernel and agent, line by line.
 *
 * It has to stay cheap while lines pour in: they are only ever appended, in one go for each frame;
 * the oldest are dropped; and a line is parsed when the user unfolds it, not before.
 */

import { Clipboard } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';

import { visible } from '../characters';
import type { FromKernel, ILinkState, IWireLine } from '../protocol';
import type { ILive, ILiveNotebook } from '../tokens';
import { ask } from './ask';
import { linkName, speaking } from './describe';
import { button, checkbox, element, KeyedNodes, setText } from './dom';
import { notebookName } from './questions';
import type { IPreferences } from './settings';

/** Where a line's method or id stands, if it is a message of JSON-RPC. */
const HEAD_LENGTH = 400;

const ARROWS: Record<IWireLine['direction'], string> = {
  sent: '→',
  received: '←',
  stderr: '!'
};

interface IShownLine {
  node: HTMLElement;
  line: IWireLine;
}

/** The lines, bounded. */
export class WireLog {
  readonly node = element('div', {
    class: 'acp-Wire-lines',
    role: 'log',
    // Nobody wants JSON read out as it comes.
    'aria-live': 'off',
    'aria-label': 'Lines of the wire',
    tabindex: '0'
  });

  private _filter = '';
  private _frame = 0;
  private _paused = false;
  private _queue: IWireLine[] = [];
  private _shown: IShownLine[] = [];

  /** @param limit - how many lines to keep, now. */
  constructor(private readonly _limit: () => number) {}

  get paused(): boolean {
    return this._paused;
  }

  /** While it is paused, lines are kept, and come when it goes on. */
  set paused(paused: boolean) {
    this._paused = paused;
    this._schedule();
  }

  set filter(text: string) {
    this._filter = text.toLowerCase();
    this._shown.forEach(shown => this._applyFilter(shown));
  }

  push(lines: readonly IWireLine[]): void {
    this._queue.push(...lines.slice(-this._limit()));
    this._queue.splice(0, this._queue.length - this._limit());
    this._schedule();
  }

  clear(): void {
    this._queue = [];
    this._shown = [];
    this.node.replaceChildren();
  }

  /** The lines that the filter lets through. */
  text(): string {
    return this._shown
      .filter(({ node }) => !node.hidden)
      .map(({ line }) => `${timeText(line.time)} ${ARROWS[line.direction] ?? ''} ${line.text}`)
      .join('\n');
  }

  /** Show what waits; what the next frame would do. */
  flush(): void {
    window.cancelAnimationFrame(this._frame);
    this._frame = 0;
    if (this._paused || this._queue.length === 0) {
      return;
    }
    const { node } = this;
    const atEnd = node.scrollHeight - node.scrollTop - node.clientHeight < 8;
    const added = this._queue.map(line => ({ line, node: lineNode(line) }));
    this._queue = [];
    added.forEach(shown => this._applyFilter(shown));
    this._shown.push(...added);
    node.append(...added.map(shown => shown.node));
    const dropped = this._shown.splice(0, this._shown.length - this._limit());
    dropped.forEach(shown => shown.node.remove());
    if (atEnd) {
      node.scrollTop = node.scrollHeight;
    }
  }

  private _schedule(): void {
    if (this._frame === 0) {
      this._frame = window.requestAnimationFrame(() => this.flush());
    }
  }

  private _applyFilter({ node, line }: IShownLine): void {
    node.hidden = this._filter !== '' && !line.text.toLowerCase().includes(this._filter);
  }
}

function lineNode(line: IWireLine): HTMLElement {
  const milliseconds = `${line.time % 1000} ms`;
  const summary = element(
    'summary',
    {},
    element('span', { class: 'acp-Wire-time', text: timeText(line.time), title: milliseconds }),
    element('span', {
      class: 'acp-Wire-arrow',
      text: ARROWS[line.direction] ?? '?',
      role: 'img',
      'aria-label': line.direction
    }),
    element('span', { class: 'acp-Wire-head', text: headText(line) })
  );
  const node = element('details', { class: 'acp-Wire-line' }, summary);
  node.dataset.direction = line.direction;
  node.addEventListener('toggle', () => {
    if (node.open && node.childElementCount === 1) {
      node.append(element('pre', { text: prettyText(line.text), tabindex: '0' }));
    }
  });
  return node;
}

/** Method and id of a message, or how a line begins. */
function headText({ text }: IWireLine): string {
  const head = text.slice(0, HEAD_LENGTH);
  const method = /"method"\s*:\s*"([^"]+)"/.exec(head)?.[1];
  const id = /"id"\s*:\s*("[^"]*"|\d+)/.exec(head)?.[1];
  if (method !== undefined) {
    const update = /"sessionUpdate"\s*:\s*"([^"]+)"/.exec(head)?.[1];
    // The panel is narrow, and most lines are updates: their kind says more than their method.
    return [update ?? method, id === undefined ? '' : `#${id}`].filter(Boolean).join(' ');
  }
  if (id !== undefined && /"(result|error)"\s*:/.test(head)) {
    return `${/"error"\s*:/.test(head) ? 'error' : 'result'} #${id}`;
  }
  return head;
}

function prettyText(text: string): string {
  try {
    // What the line has escaped would be invisible again.
    return visible(JSON.stringify(JSON.parse(text), null, 2));
  } catch (error) {
    if (error instanceof SyntaxError) {
      return text; // No JSON: stderr, or a line that was cut.
    }
    throw error;
  }
}

function timeText(time: number): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? '' : date.toTimeString().slice(0, 8);
}

interface IRecordable {
  notebook: ILiveNotebook;
  link: ILinkState;
}

/** Whether the wire of one link is shown. It goes with the comm, which alone knows of it. */
class RecordSwitch {
  readonly node: HTMLElement;

  private _input: HTMLInputElement;
  private _text: Node;

  constructor(private readonly _recordable: IRecordable) {
    const { node, input } = checkbox('', () => this._send());
    this.node = node;
    this._input = input;
    this._text = node.lastChild ?? node;
  }

  update({ notebook, link }: IRecordable): void {
    setText(this._text, `${linkName(link)} in ${notebookName(notebook)}`);
  }

  private async _send(): Promise<void> {
    const { notebook, link } = this._recordable;
    const on = this._input.checked;
    if (!(await ask(notebook, { type: 'wire', link: link.key, on }))) {
      this._input.checked = !on;
    }
  }
}

export class WireInspector implements IDisposable {
  readonly node = element('section', { class: 'acp-Section acp-Wire', 'aria-label': 'Wire' });

  readonly log: WireLog;

  private _isDisposed = false;
  private _none = element('p', { class: 'acp-Note', text: 'No agent to look at.' });
  private _switches: KeyedNodes<IRecordable, RecordSwitch>;
  private _watched = new Set<ILiveNotebook>();

  constructor(
    private readonly _live: ILive,
    preferences: IPreferences
  ) {
    this.log = new WireLog(() => preferences.current.wireLines);
    const switches = element('fieldset', { class: 'acp-Wire-switches' });
    switches.append(element('legend', { text: 'Show the messages of' }), this._none);
    const list = element('div');
    switches.append(list);
    this._switches = new KeyedNodes(
      list,
      recordable => new RecordSwitch(recordable),
      (view, recordable) => view.update(recordable)
    );
    this.node.append(element('h2', { text: 'Wire' }), switches, this._controls(), this.log.node);
    _live.changed.connect(this._update);
    this._update();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._live.changed.disconnect(this._update);
      this._watched.forEach(notebook => notebook.received.disconnect(this._onReceived));
      this._watched.clear();
      this.log.clear();
    }
  }

  private _controls(): HTMLElement {
    const { log } = this;
    const filter = element('input', {
      type: 'search',
      class: 'acp-Field',
      placeholder: 'Filter',
      'aria-label': 'Show only lines that contain'
    });
    filter.addEventListener('input', () => (log.filter = filter.value));
    const pause = button(
      'Pause',
      () => {
        log.paused = !log.paused;
        pause.setAttribute('aria-pressed', String(log.paused));
      },
      { class: 'acp-Button', 'aria-pressed': 'false' }
    );
    const clear = button('Clear', () => log.clear(), { class: 'acp-Button' });
    const copy = button('Copy', () => Clipboard.copyToSystem(log.text()), { class: 'acp-Button' });
    return element('div', { class: 'acp-Wire-controls' }, filter, pause, clear, copy);
  }

  private _update = (): void => {
    const notebooks = new Set(speaking(this._live.notebooks));
    this._watched.forEach(notebook => {
      if (!notebooks.has(notebook)) {
        notebook.received.disconnect(this._onReceived);
      }
    });
    // Connecting what is connected changes nothing.
    notebooks.forEach(notebook => notebook.received.connect(this._onReceived));
    this._watched = notebooks;
    const recordable = new Map<string, IRecordable>();
    for (const notebook of notebooks) {
      for (const link of notebook.links) {
        recordable.set(JSON.stringify([notebook.panel.id, link.key]), { notebook, link });
      }
    }
    this._switches.set(recordable);
    this._none.hidden = recordable.size > 0;
  };

  private _onReceived = (_: unknown, message: FromKernel): void => {
    if (message.type === 'wire') {
      this.log.push(message.lines);
    }
  };
}
