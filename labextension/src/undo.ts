/** Changes of a notebook or a file that are one step of the user's undo. */

import type { INotebookModel } from '@jupyterlab/notebook';

type ISharedNotebook = INotebookModel['sharedModel'];
type Cells = Parameters<ISharedNotebook['insertCells']>[1];

/** With what JupyterLab's own documents have beyond the interface (Yjs). */
interface IUndoable {
  readonly undoManager?: { stopCapturing?(): void };
}

/** The shared model of a file of text. */
export interface ISharedText {
  getSource(): string;
  updateSource(start: number, end: number, value?: string): void;
  undo(): unknown;
}

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

/**
 * Give a document this text, as one step of its own; returns whether it had another one.
 *
 * Only what differs is replaced, from the first to the last such character: cursors, and what
 * others edit in the rest of a shared document, stay where they are.
 */
export function replaceText(shared: ISharedText, text: string): boolean {
  const old = shared.getSource();
  if (old === text) {
    return false;
  }
  const [start, end] = differing(old, text);
  endStep(shared);
  shared.updateSource(start, old.length - end, text.slice(start, text.length - end));
  endStep(shared);
  return true;
}

/** The lengths of what two texts begin and end with in common; a character is never torn apart. */
function differing(one: string, other: string): [start: number, end: number] {
  const shortest = Math.min(one.length, other.length);
  let start = 0;
  while (start < shortest && one[start] === other[start]) {
    start += 1;
  }
  if (start > 0 && isLead(one.charCodeAt(start - 1))) {
    start -= 1;
  }
  let end = 0;
  while (end < shortest - start && one[one.length - 1 - end] === other[other.length - 1 - end]) {
    end += 1;
  }
  if (end > 0 && isTrail(one.charCodeAt(one.length - end))) {
    end -= 1;
  }
  return [start, end];
}

function isLead(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

function isTrail(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000;
}

function endStep(shared: object): void {
  (shared as IUndoable).undoManager?.stopCapturing?.();
}
