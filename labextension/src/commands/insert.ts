/** Makes cells that ask an agent, and runs them. */

import { isCodeCellModel, type Cell } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

import { insertCells } from '../undo';
import { isLoading, type Kernel } from './cell';
import { promptCell } from './prompts';

export interface IPrompt {
  readonly kernel: Kernel;
  readonly text: string;
  /** Whether the kernel understands it already, or has to load the extension first. */
  readonly understood: boolean;
}

/**
 * Put a cell with the prompt below another one, for the user to go on in it.
 *
 * @returns Whether the kernel understands prompts now.
 */
export async function insertPrompt(
  panel: NotebookPanel,
  below: Cell,
  prompt: IPrompt
): Promise<boolean> {
  const { loading } = insert(panel, below, prompt);
  const loaded = run(panel, loading);
  await edit(panel);
  return loaded;
}

/**
 * Put a cell with the prompt below another one, and run it.
 *
 * @returns Whether the kernel understands prompts now.
 */
export async function runPrompt(
  panel: NotebookPanel,
  below: Cell,
  prompt: IPrompt
): Promise<boolean> {
  const { loading, asking } = insert(panel, below, prompt);
  // Sent together: the kernel drops what waits behind a cell that fails.
  const loaded = run(panel, loading);
  void run(panel, asking);
  const active = panel.content.activeCell;
  if (active !== null) {
    await panel.content.scrollToCell(active);
  }
  return loaded;
}

/** The new cell is the active one. */
function insert(
  panel: NotebookPanel,
  below: Cell,
  prompt: IPrompt
): { loading: Cell[]; asking: Cell[] } {
  const notebook = panel.content;
  const shared = notebook.model?.sharedModel;
  if (!shared) {
    return { loading: [], asking: [] };
  }
  const known = prompt.understood ? undefined : notebook.widgets.find(loads);
  const sources = [promptCell(prompt.kernel, prompt.text)];
  if (!prompt.understood && known === undefined) {
    sources.unshift('%load_ext acp_jupyter');
  }
  const at = notebook.widgets.indexOf(below) + 1;
  insertCells(
    shared,
    at,
    sources.map(source => ({ cell_type: 'code', source }))
  );
  const made = notebook.widgets.slice(at, at + sources.length);
  notebook.deselectAll();
  notebook.activeCellIndex = at + sources.length - 1;
  const loading = prompt.understood ? [] : known !== undefined ? [known] : made.slice(0, 1);
  return { loading, asking: made.slice(-1) };
}

function loads(cell: Cell): boolean {
  return isCodeCellModel(cell.model) && isLoading(cell.model.sharedModel.getSource());
}

async function run(panel: NotebookPanel, cells: Cell[]): Promise<boolean> {
  if (cells.length === 0) {
    return true;
  }
  return NotebookActions.runCells(panel.content, cells, panel.sessionContext);
}

async function edit(panel: NotebookPanel): Promise<void> {
  const notebook = panel.content;
  const cell = notebook.activeCell;
  if (cell === null) {
    return;
  }
  await notebook.scrollToCell(cell);
  await cell.ready;
  const editor = cell.editor;
  if (editor !== null && notebook.activeCell === cell) {
    const end = editor.getPositionAt(cell.model.sharedModel.getSource().length);
    editor.setCursorPosition(end ?? { line: 0, column: 0 });
    notebook.mode = 'edit';
    editor.focus();
  }
}
