/**
 * The command that makes cells of what is proposed.
 *
 * Made cells stand below the cell that they come from, after those that came from there before,
 * and say in their metadata where they come from. Inserting is one step to undo. Nothing is run
 * unless that is asked for.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import { MarkdownCell } from '@jupyterlab/cells';
import type { Cell } from '@jupyterlab/cells';
import { NotebookActions } from '@jupyterlab/notebook';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { visible } from '../characters';
import type { IOrigin, IProposedCell } from '../protocol';
import { insertCells } from '../undo';
import { isCode, isOrigin } from './data';
import { languageOf } from './place';

export const INSERT_CELLS = 'acp:insert-cells';

export type Code = Pick<IProposedCell, 'language' | 'source'>;

/** What the command takes. */
export interface IInsertCells {
  cells: Code[];
  origin: IOrigin;
  /** Run them too. */
  run: boolean;
  /** Id of the notebook's widget; without it, the notebook in use. */
  notebook?: string;
  /** Id of the cell that they come from; without it, the active one. */
  cell?: string;
}

interface ICellSource {
  cellType: 'code' | 'markdown';
  source: string;
}

/** Kernel's language and another one to what has the kernel run it. */
const MAGICS = new Map([
  ['python bash', '%%bash\n'],
  ['acp python', '%%python\n'],
  ['acp bash', '%%bash\n']
]);

/** The cell for a language in a notebook whose kernel speaks another; null if there is none. */
export function cellSource({ language, source }: Code, kernel: string): ICellSource | null {
  if (language === 'markdown') {
    return { cellType: 'markdown', source };
  }
  // A notebook may not say what its kernel speaks; then no code is known to be that.
  if (language === kernel && language !== '' && kernel !== 'acp') {
    return { cellType: 'code', source };
  }
  const magic = MAGICS.get(`${kernel} ${language}`);
  return magic === undefined ? null : { cellType: 'code', source: magic + source };
}

/** Why cells cannot be inserted into a notebook; empty if they can. */
export function whyNot(panel: NotebookPanel, language: string): string {
  const { context } = panel;
  if (context.model.readOnly || context.contentsModel?.writable === false) {
    return 'This notebook is read-only.';
  }
  const kernel = languageOf(panel);
  if (cellSource({ language, source: '' }, kernel) === null) {
    return `This notebook's kernel does not run ${language}: copy the code instead.`;
  }
  return '';
}

/** Add the command; what it returns are the ids of the cells it made. */
export function addInsertCells(
  commands: JupyterFrontEnd['commands'],
  notebooks: INotebookTracker,
  dialogs: ISessionContextDialogs | null
): void {
  commands.addCommand(INSERT_CELLS, {
    label: 'Insert Proposed Cells',
    describedBy: { args: SCHEMA },
    execute: args => {
      const asked = readArguments(args);
      const panel = panelOf(notebooks, asked.notebook);
      const made = insert(panel, asked);
      if (asked.run) {
        // Whether they ran well is for the cells to show.
        void NotebookActions.runCells(
          panel.content,
          made,
          panel.sessionContext,
          dialogs ?? undefined
        );
      }
      return made.map(cell => cell.model.id);
    }
  });
}

const SCHEMA = {
  type: 'object',
  required: ['cells', 'origin'],
  properties: {
    cells: {
      type: 'array',
      description: 'Their language and source',
      items: {
        type: 'object',
        properties: { language: { type: 'string' }, source: { type: 'string' } }
      }
    },
    origin: {
      type: 'object',
      properties: {
        agent: { type: 'string' },
        session: { type: 'string' },
        turn: { type: 'number' }
      }
    },
    run: { type: 'boolean', description: 'Run them too' },
    notebook: { type: 'string', description: 'Id of the widget of the notebook' },
    cell: { type: 'string', description: 'Id of the cell that they come from' }
  }
};

function readArguments(args: ReadonlyPartialJSONObject): IInsertCells {
  const { cells, origin, run, notebook, cell } = args as Record<string, unknown>;
  if (!Array.isArray(cells) || !cells.every(isCode) || !isOrigin(origin)) {
    throw new Error(`${INSERT_CELLS} needs cells with language and source, and their origin.`);
  }
  return {
    // What is inserted is what was shown, also from a notebook that somebody made.
    cells: cells.map(({ language, source }) => ({ language, source: visible(source) })),
    origin,
    run: run === true,
    ...(typeof notebook === 'string' ? { notebook } : {}),
    ...(typeof cell === 'string' ? { cell } : {})
  };
}

function panelOf(notebooks: INotebookTracker, id: string | undefined): NotebookPanel {
  const panel = id === undefined ? notebooks.currentWidget : notebooks.find(each => each.id === id);
  if (!panel) {
    throw new Error('There is no notebook to insert cells into: open it and try again.');
  }
  return panel;
}

/** Index of the cell from which the cells come. */
function sourceIndex({ content }: NotebookPanel, id: string | undefined): number {
  const index = content.widgets.findIndex(each => each.model.id === id);
  return index < 0 ? content.activeCellIndex : index;
}

/** The cells of the notebook that were made of proposals of the cell before them. */
function countMade({ content }: NotebookPanel, source: number): number {
  const id = content.widgets[source]?.model.id;
  const rest = content.widgets.slice(source + 1);
  const end = rest.findIndex(each => originCell(each) !== id);
  return end < 0 ? rest.length : end;
}

function originCell(cell: Cell): unknown {
  const metadata = cell.model.getMetadata('acp') as { origin?: { cell?: unknown } } | undefined;
  return metadata?.origin?.cell;
}

function insert(panel: NotebookPanel, { cells, origin, cell }: IInsertCells): Cell[] {
  const { content } = panel;
  const kernel = languageOf(panel);
  const refused = cells.map(({ language }) => whyNot(panel, language)).find(Boolean);
  if (refused !== undefined) {
    throw new Error(refused);
  }
  const source = sourceIndex(panel, cell);
  const id = content.widgets[source]?.model.id ?? '';
  const at = source + 1 + countMade(panel, source);
  const made = cells.flatMap(code => {
    const found = cellSource(code, kernel);
    return found ? [sharedCell(found, origin, id, code.language)] : [];
  });
  if (content.model) {
    insertCells(content.model.sharedModel, at, made);
  }
  const inserted = content.widgets.slice(at, at + made.length);
  for (const each of inserted) {
    if (each instanceof MarkdownCell) {
      each.rendered = false; // its source first: rendered, it may fetch pictures
    }
  }
  return inserted;
}

function sharedCell(
  { cellType, source }: ICellSource,
  { agent, session, turn }: IOrigin,
  cell: string,
  language: string
) {
  const metadata = { acp: { origin: { agent, session, turn, cell, language } } };
  return cellType === 'code'
    ? { cell_type: cellType, source, metadata, outputs: [], execution_count: null }
    : { cell_type: cellType, source, metadata };
}
