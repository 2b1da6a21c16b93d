/** Opens the list of completions when the user types what begins a command or a mention. */

import type { Cell } from '@jupyterlab/cells';
import type { ICompletionProviderManager } from '@jupyterlab/completer';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { kernelOfPanel, textOf } from './subject';
import { wordStart } from './typing';

/** The class of an editor whose list of completions is open. */
const LIST_IS_OPEN = 'jp-mod-completer-active';

interface IChange {
  sourceChange?: { insert?: unknown }[];
}

type Editor = NonNullable<Cell['editor']>;

export class ListOpener {
  private _cell: Cell | null = null;

  /** Where the word begins that is being typed, and whether its list was seen: once is enough. */
  private _word: number | null = null;
  private _seen = false;

  private readonly _observer = new MutationObserver(() => {
    this._seen ||= this._cell?.editor?.host.classList.contains(LIST_IS_OPEN) === true;
  });

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
    this._observer.disconnect();
    this._word = null;
  };

  private readonly _onChange = (_: unknown, change: IChange): void => {
    const panel = this._tracker.currentWidget;
    const editor = this._cell?.editor;
    if (change.sourceChange === undefined || !panel || !editor?.hasFocus()) {
      return;
    }
    const inserted = change.sourceChange.find(part => part.insert !== undefined)?.insert;
    if (this._isOpening(panel, editor, typeof inserted === 'string' ? inserted : '')) {
      this._completer.invoke(panel.id);
    }
  };

  private _isOpening(panel: NotebookPanel, editor: Editor, inserted: string): boolean {
    const kernel = kernelOfPanel(panel);
    if (kernel === null || this._cell === null) {
      return false;
    }
    const cursor = editor.getOffsetAt(editor.getCursorPosition());
    const word = wordStart(kernel, textOf(this._cell.model), cursor);
    if (word !== this._word) {
      this._word = word;
      this._seen = false;
      this._observer.observe(editor.host, { attributes: true, attributeFilter: ['class'] });
    }
    // Typed, or completed up to where it goes on; pasted text opens nothing.
    return word !== null && !this._seen && (inserted.length === 1 || /^@.*[/:]$/.test(inserted));
  }
}
