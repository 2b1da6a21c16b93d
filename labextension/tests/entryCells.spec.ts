/** Proposed cells: what is shown of them, what can be done, and what is made of them. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { INSERT_CELLS, addInsertCells, cellSource } from '../src/entry/cells';
import { visible } from '../src/characters';
import { RenderedEntry } from '../src/entry/renderer';
import { ENTRY_MIME } from '../src/protocol';
import type { ICellsData, Request } from '../src/protocol';
import type { ILive } from '../src/tokens';

const GOLDEN = JSON.parse(
  readFileSync(join(__dirname, '../../tests/golden/entries/cells.json'), 'utf8')
) as { data: ICellsData; html: string };

type Made = Record<string, unknown>;

/** A notebook as the command sees one: cells in a list, and a kernel's language. */
class Page {
  readonly host = new Widget();
  readonly cells: { model: object; node: HTMLElement }[] = [];
  readonly commands = new CommandRegistry();
  readonly asked: Request[] = [];
  readonly widget: RenderedEntry;
  connected = true;
  inserts = 0;

  constructor(readonly options: { language?: string; readOnly?: boolean } = {}) {
    const shown = document.createElement('div');
    this.host.node.append(shown);
    this.add(0, { cell_type: 'code', id: 'source', source: 'ask', metadata: {} }, shown);
    addInsertCells(this.commands, this.tracker, null);
    this.widget = new RenderedEntry(
      { mimeType: ENTRY_MIME, latexTypesetter: null } as unknown as IRenderMime.IRendererOptions,
      { commands: this.commands, notebooks: this.tracker, live: this.live }
    );
    Widget.attach(this.host, document.body);
    Widget.attach(this.widget, shown);
  }

  add(index: number, made: Made, node = document.createElement('div')): void {
    const id = made.id ?? `made ${this.cells.length}`;
    const metadata = made.metadata as Made;
    const model = { ...made, id, getMetadata: (name: string) => metadata[name] };
    this.cells.splice(index, 0, { model, node });
  }

  get made(): Made[] {
    return this.cells.slice(1).map(cell => {
      const { cell_type: cellType, source, metadata } = cell.model as Made;
      return { cellType, source, metadata };
    });
  }

  get tracker(): INotebookTracker {
    const insertCells = (at: number, cells: Made[]) => {
      this.inserts += 1;
      cells.forEach((cell, index) => this.add(at + index, cell));
    };
    const model = {
      defaultKernelLanguage: this.options.language ?? 'python',
      sharedModel: { insertCells }
    };
    const content = { node: this.host.node, widgets: this.cells, activeCellIndex: 0, model };
    const context = { model: { readOnly: this.options.readOnly ?? false }, path: 'a.ipynb' };
    const panel = { id: 'panel', content, context } as unknown as NotebookPanel;
    const find = (fits: (panel: NotebookPanel) => boolean) => (fits(panel) ? panel : undefined);
    return { find, currentWidget: panel } as unknown as INotebookTracker;
  }

  get live(): ILive {
    const isConnected = () => this.connected;
    const notebook = {
      get connected() {
        return isConnected();
      },
      request: (message: Request) => {
        this.asked.push(message);
        return Promise.reject(new Error('it knows no such entry'));
      }
    };
    return { of: () => notebook } as unknown as ILive;
  }

  async show(changes: Partial<ICellsData> = {}): Promise<void> {
    const data = { ...GOLDEN.data, ...changes };
    await this.widget.renderModel({
      data: { [ENTRY_MIME]: data as never, 'text/html': GOLDEN.html },
      metadata: {},
      trusted: false,
      setData: () => {}
    });
  }

  button(name: string): HTMLButtonElement {
    const buttons = [...this.widget.node.querySelectorAll('button')];
    const found = buttons.find(each => each.getAttribute('aria-label') === name);
    return found ?? buttons.find(each => each.textContent === name)!;
  }

  async press(name: string): Promise<void> {
    this.button(name).click();
    for (let turn = 0; turn < 5; turn += 1) {
      await Promise.resolve();
    }
  }

  get text(): string {
    return this.widget.node.textContent;
  }
}

const ORIGIN = { agent: 'Demo', session: 'sess-1', turn: 2, cell: 'source' };

let page: Page;

async function open(options: { language?: string; readOnly?: boolean } = {}): Promise<Page> {
  page = new Page(options);
  await page.show();
  return page;
}

beforeEach(() => {
  jest.spyOn(console, 'warn').mockImplementation(() => {});
});

afterEach(() => {
  page?.widget.dispose();
  page?.host.dispose();
  jest.restoreAllMocks();
});

test.each([
  ['python', 'python', 'code', 'x'],
  ['bash', 'python', 'code', '%%bash\nx'],
  ['markdown', 'python', 'markdown', 'x'],
  ['python', 'acp', 'code', '%%python\nx'],
  ['bash', 'acp', 'code', '%%bash\nx'],
  ['markdown', 'acp', 'markdown', 'x'],
  ['r', 'r', 'code', 'x'],
  ['bash', 'bash', 'code', 'x']
])('%s in a notebook for %s is a %s cell', (language, kernel, cellType, source) => {
  expect(cellSource({ language, source: 'x' }, kernel)).toEqual({ cellType, source });
});

test.each([
  ['python', 'r'],
  ['bash', 'julia'],
  ['acp', 'acp'],
  ['python', ''],
  ['', ''],
  ['constructor', 'python']
])('%s in a notebook for %s is no cell', (language, kernel) => {
  expect(cellSource({ language, source: 'x' }, kernel)).toBeNull();
});

test('the code of each cell is shown as text, in colours, and nothing of it is markup', async () => {
  await open();
  const blocks = [...page.widget.node.querySelectorAll('pre')];
  expect(blocks.map(block => block.textContent)).toEqual(GOLDEN.data.cells.map(c => c.source));
  expect(blocks[0]!.querySelector('span.kn')!.textContent).toBe('import ');
  expect(page.widget.node.querySelector('script')).toBeNull();
});

test('colours are taken only of HTML that shows the same code and hides none of it', async () => {
  await open();
  const [first] = GOLDEN.data.cells;
  await page.show({ cells: [{ ...first!, source: 'import os' }] });
  expect(page.widget.node.querySelector('pre')!.innerHTML).toBe('import os');
});

test('inserting puts the cell below its source, and says where it comes from', async () => {
  await open();
  await page.press('Insert proposed cell 1 of 3 below');
  expect(page.made).toEqual([
    {
      cellType: 'code',
      source: GOLDEN.data.cells[0]!.source,
      metadata: { acp: { origin: { ...ORIGIN, language: 'python' } } }
    }
  ]);
  expect(page.asked).toEqual([
    { type: 'cells', entry: GOLDEN.data.id, index: 0, state: 'inserted' }
  ]);
  expect(page.text).toContain('✓ inserted');
});

test('cells inserted one after the other stand in that order', async () => {
  await open();
  await page.press('Insert proposed cell 2 of 3 below');
  await page.press('Insert proposed cell 1 of 3 below');
  expect(page.made.map(cell => cell.source)).toEqual([
    '%%bash\nls -l',
    GOLDEN.data.cells[0]!.source
  ]);
});

test('inserting all is one step, and leaves out what was inserted or dismissed', async () => {
  await open();
  await page.press('Insert all');
  expect(page.inserts).toBe(1);
  expect(page.made.map(cell => cell.cellType)).toEqual(['code', 'code', 'markdown']);
  expect(page.button('Insert all').disabled).toBe(true);
  await page.show();
  expect(page.text.split('✓ inserted').length - 1).toBe(3);
});

test('a double click inserts once', async () => {
  await open();
  const button = page.button('Insert proposed cell 1 of 3 below');
  button.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 1 }));
  button.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 }));
  await Promise.resolve();
  expect(page.made.length).toBe(1);
});

test('dismissing hides the cell, tells the kernel, and keeps the focus in the entry', async () => {
  await open();
  page.button('Dismiss proposed cell 1 of 3').focus();
  await page.press('Dismiss proposed cell 1 of 3');
  expect(page.widget.node.querySelectorAll('pre').length).toBe(2);
  expect(page.asked).toEqual([
    { type: 'cells', entry: GOLDEN.data.id, index: 0, state: 'dismissed' }
  ]);
  expect(page.text).toContain('3 proposed cells, 1 dismissed');
  expect(page.widget.node.contains(document.activeElement)).toBe(true);
});

test('where no kernel answers, the view remembers', async () => {
  page = new Page();
  page.connected = false;
  await page.show();
  await page.press('Insert proposed cell 1 of 3 below');
  await page.show();
  expect(page.asked).toEqual([]);
  expect(page.text).toContain('✓ inserted');
});

test('what the kernel knows comes before what the view remembers', async () => {
  await open();
  await page.press('Insert proposed cell 1 of 3 below');
  const [first, ...rest] = GOLDEN.data.cells;
  await page.show({ cells: [{ ...first!, state: 'run' }, ...rest] });
  expect(page.text).toContain('✓ run');
  expect(page.text).not.toContain('✓ inserted');
});

test('a read-only notebook takes none, and the code can still be copied', async () => {
  await open({ readOnly: true });
  const button = page.button('Insert proposed cell 1 of 3 below');
  expect([button.disabled, button.title]).toEqual([true, 'This notebook is read-only.']);
  await page.press('Copy');
  expect(await navigator.clipboard.readText()).toBe(GOLDEN.data.cells[0]!.source);
});

test('a kernel of another language takes only Markdown', async () => {
  await open({ language: 'julia' });
  expect(page.button('Run proposed cell 1 of 3').title).toContain('does not run python');
  await page.press('Insert all');
  expect(page.made.map(cell => cell.cellType)).toEqual(['markdown']);
});

test('a long cell is folded, and can be run when all of it is shown', async () => {
  await open();
  const source = Array.from({ length: 40 }, (_, n) => `print(${n})`).join('\n');
  await page.show({ cells: [{ language: 'python', source, state: 'proposed' }] });
  const block = () => page.widget.node.querySelector('pre')!.textContent;
  expect(block()).not.toContain('print(39)');
  expect(page.button('Run proposed cell 1 of 1').disabled).toBe(true);
  await page.press('Show all 40 lines');
  expect(block()).toBe(source);
  expect(page.button('Run proposed cell 1 of 1').disabled).toBe(false);
  expect(page.button('Show less').getAttribute('aria-expanded')).toBe('true');
});

test('characters that deceive are shown, those of emoji and scripts are not', () => {
  expect(visible('a\u202eb\u200b\tc\r\nd\u2764\ufe0f ä 漢')).toBe(
    'a⟨U+202E⟩b⟨U+200B⟩\tc\nd\u2764\ufe0f ä 漢'
  );
});

test.each([[{}], [{ cells: [{ language: 'python' }], origin: ORIGIN }], [{ cells: [] }]])(
  'the command refuses %j',
  async args => {
    await open();
    await expect(page.commands.execute(INSERT_CELLS, args as never)).rejects.toThrow(
      'needs cells with language and source'
    );
  }
);

test('the command says what to do where the notebook is not open', async () => {
  await open();
  const args = { cells: [], origin: ORIGIN, notebook: 'other' };
  await expect(page.commands.execute(INSERT_CELLS, args as never)).rejects.toThrow('open it');
});
