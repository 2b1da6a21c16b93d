/** Where an output stands: the notebook and the cell. */

import type { Cell, ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

export interface IPlace {
  panel: NotebookPanel;
  cell: Cell;
}

/** The notebook and cell that show a node; null where that is no notebook (a console, a view). */
export function placeOf(node: Node, notebooks: INotebookTracker | null): IPlace | null {
  const panel = notebooks?.find(each => each.content.node.contains(node));
  const cell = panel?.content.widgets.find(each => each.node.contains(node));
  return panel && cell ? { panel, cell } : null;
}

/** Whether the cell is being run, so that what comes is news. */
export function isRunning({ cell }: IPlace): boolean {
  return cell.model.type === 'code' && (cell.model as ICodeCellModel).executionState === 'running';
}

/** Name of the language that the notebook's kernel speaks, as the kernel gives it. */
export function languageOf(panel: NotebookPanel): string {
  return panel.content.model?.defaultKernelLanguage.toLowerCase() ?? '';
}
