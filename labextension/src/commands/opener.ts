/** Opens the list of completions when the user types what begins a command or a mention. */

import type { Cell } from '@jupyterlab/cells';
import type { ICompletionProviderManager } from '@jupyterlab/completer';
import type { INotebookTracker } from '@jupyterlab/notebook';

import { kernelOfPanel, textOf } from './subject';
import { opensList } from './typing';

interface IChange {
  sourceChange?: { insert?: unknown }[];
}

export class ListOpener {
  private _cell: Cell | null = null;

  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _completer: ICompletionProviderManager
  ) {
    _tracker.activeCellChanged.connect(this._onActiveCell);
    this._onActiveCell();
  }

  private readonly _onActiveCell = (): void => {
    this._cell?.model?.sharedModel.changed.disconnect(this._onChange);
    this._cell = this._tracker.activeCell;
    this._cell?.model.sharedModel.changed.connect(this._onChange);
  };

  private readonly _onChange = (_: unknown, change: IChange): void => {
    const inserted = change.sourceChange?.find(part => part.insert !== undefined)?.insert;
    const panel = this._tracker.currentWidget;
    const editor = this._cell?.editor;
    if ((inserted !== '@' && inserted !== '/') || !panel || !this._cell || !editor?.hasFocus()) {
      return;
    }
    const kernel = kernelOfPanel(panel);
    const cursor = editor.getOffsetAt(editor.getCursorPosition());
    if (kernel !== null && opensList(kernel, textOf(this._cell.model), cursor)) {
      this._completer.invoke(panel.id);
    }
  };
}
