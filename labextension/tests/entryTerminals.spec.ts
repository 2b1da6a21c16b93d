/** The controls of running commands: when they are there, and what they ask for. */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { RenderedEntry, OPEN_TERMINAL } from '../src/entry/renderer';
import { OPEN_TERMINAL as COMMAND, addOpenTerminal } from '../src/live/terminals';
import { ENTRY_MIME } from '../src/protocol';
import type { ITerminal, Request } from '../src/protocol';
import type { ILive } from '../src/tokens';

const SLEEP: ITerminal = { id: 'term_1', command: 'sleep 600', cwd: '/home/ada' };

/** An output of a notebook whose kernel runs commands. */
class Page {
  readonly asked: Request[] = [];
  readonly commands = new CommandRegistry();
  readonly host = new Widget();
  readonly opened: unknown[] = [];
  readonly widget: RenderedEntry;
  running: ITerminal[] = [SLEEP];

  private _changed = new Signal<ILive, void>({} as ILive);

  constructor() {
    const panel = { id: 'panel', content: { node: this.host.node } };
    const cell = { node: this.host.node, model: { type: 'code', executionState: 'running' } };
    const shown = { ...panel, content: { ...panel.content, widgets: [cell] } };
    const find = (fits: (panel: NotebookPanel) => boolean) =>
      fits(shown as unknown as NotebookPanel) ? shown : undefined;
    const request = (message: Request) => {
      this.asked.push(message);
      return Promise.resolve({ command: 'attach it' });
    };
    const links = () => [{ terminals: this.running }, {}];
    const notebook = {
      panel: shown,
      request,
      get links() {
        return links();
      }
    };
    const live = { changed: this._changed, notebooks: [notebook], of: () => notebook };
    addOpenTerminal({ commands: this.commands } as never, live as unknown as ILive);
    this.widget = new RenderedEntry(
      { mimeType: ENTRY_MIME, latexTypesetter: null } as unknown as IRenderMime.IRendererOptions,
      {
        commands: this.commands,
        notebooks: { find } as unknown as INotebookTracker,
        live: live as unknown as ILive
      }
    );
    Widget.attach(this.host, document.body);
    Widget.attach(this.widget, this.host.node);
  }

  /** JupyterLab has terminals, as soon as this was called. */
  addTerminals(): void {
    const session = {
      connectionStatus: 'connected',
      isDisposed: false,
      send: (message: unknown) => this.opened.push(message)
    };
    this.commands.addCommand('terminal:create-new', { execute: () => ({ content: { session } }) });
  }

  async show(data: object): Promise<void> {
    const entry = { version: 1, id: 'e1', label: 'Run: in progress', ...data };
    await this.widget.renderModel({
      data: { [ENTRY_MIME]: entry, 'text/html': '<div><pre>output</pre></div>' },
      metadata: {},
      trusted: false,
      setData: () => {}
    });
  }

  change(running: ITerminal[]): void {
    this.running = running;
    this._changed.emit();
  }

  get buttons(): string[] {
    const found = this.widget.node.querySelectorAll('.acp-Entry-actions button');
    return [...found].map(button => button.getAttribute('aria-label') ?? '');
  }

  press(name: string): void {
    this.widget.node.querySelector<HTMLButtonElement>(`button[aria-label="${name}"]`)!.click();
  }
}

const TERMINAL = { type: 'terminal', terminals: ['term_1'] };

let page: Page;

beforeEach(() => {
  page = new Page();
});

afterEach(() => {
  page.widget.dispose();
  page.host.dispose();
});

test('a running command can be stopped, in a tool call and by itself', async () => {
  await page.show(TERMINAL);
  expect(page.buttons).toEqual(['Stop sleep 600']);
  page.press('Stop sleep 600');
  expect(page.asked).toEqual([{ type: 'stop', terminal: 'term_1' }]);
  const call = { type: 'tool_call', kind: 'execute', title: 'Run', status: 'in_progress' };
  const rest = { finished: false, locations: [], added: 0, removed: 0, terminals: ['term_1'] };
  await page.show({ ...call, ...rest });
  expect(page.buttons).toEqual(['Stop sleep 600']);
});

test('the controls come and go with what the kernel says that runs', async () => {
  page.running = [];
  await page.show(TERMINAL);
  expect(page.buttons).toEqual([]); // A notebook that was saved while it ran.
  page.change([SLEEP, { ...SLEEP, id: 'term_2', command: 'of another entry' }]);
  expect(page.buttons).toEqual(['Stop sleep 600']);
  page.change([]);
  expect(page.buttons).toEqual([]);
});

test('terminals that are no list of names are not understood', async () => {
  await page.show({ ...TERMINAL, terminals: [{ id: 'term_1' }] });
  expect(page.buttons).toEqual([]);
  expect(page.widget.node.textContent).toContain('output');
});

test('a command is opened in a terminal, where JupyterLab has some', async () => {
  expect(OPEN_TERMINAL).toBe(COMMAND);
  page.addTerminals();
  await page.show(TERMINAL);
  expect(page.buttons).toEqual(['Stop sleep 600', 'Open in a terminal: sleep 600']);
  page.press('Open in a terminal: sleep 600');
  for (let turn = 0; turn < 20 && !page.opened.length; turn += 1) {
    await Promise.resolve();
  }
  expect(page.asked).toEqual([{ type: 'attach', terminal: 'term_1' }]);
  expect(page.opened).toEqual([{ type: 'stdin', content: ['attach it\r'] }]);
});
