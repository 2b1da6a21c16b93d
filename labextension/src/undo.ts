/** Changes of a notebook that are one step of the user's undo. */

import type { INotebookModel } from '@jupyterlab/notebook';

type ISharedNotebook = INotebookModel['sharedModel'];
type Cells = Parameters<ISharedNotebook['insertCells']>[1];

/** With what JupyterLab's own documents have beyond the interface (Yjs). */
type IUndoable = ISharedNotebook & { readonly undoManager?: { stopCapturing?(): void } };

/**
 * Insert cells as one step of its own.
 *
 * The shared document takes changes within half a second for one step: an undo would take what the
 * user did just before along with the cells.
 */
export function insertCells(shared: ISharedNotebook, at: number, cells: Cells): void {
  endStep(shared);
  shared.insertCells(at, cells);
  endStep(shared);
}

function endStep(shared: IUndoable): void {
  shared.undoManager?.stopCapturing?.();
}
