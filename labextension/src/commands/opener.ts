/**
 * Opens the list of completions when the user types what begins a command or a mention.
 *
 * In prompts the completer is told of no session: it would wait for the kernel's own completion,
 * which is silent while a cell runs, and has the same matches as ours at other times.
 */

import type { Cell } from '@jupyterlab/cells';
import type { ICompletionProviderManager } from '@jupyterlab/completer';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import type { ILive } from '../tokens';
import { kernelOfPanel, textOf } from './subject';
import { isInPrompt, wordStart } from './typing';

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

  /** The editor for which the completer was told of no session. */
  private _sessionless: Editor | null = null;

  private readonly _observer = new MutationObserver(() => {
    this._seen ||= this._cell?.editor?.host.classList.contains(LIST_IS_OPEN) === true;
  });

  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _completer: ICompletionProviderManager,
    private readonly _live: ILive | null
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
    this._sessionless = null;
  };

  private readonly _onChange = (_: unknown, change: IChange): void => {
    const panel = this._tracker.currentWidget;
    const editor = this._cell?.editor;
    if (change.sourceChange === undefined || !panel || !editor?.hasFocus()) {
      return;
    }
    const inserted = change.sourceChange.find(part => part.insert !== undefined)?.insert;
    if (this._isOpening(panel, editor, typeof inserted === 'string' ? inserted : '')) {
      void this._open(panel, editor);
    }
  };

  private _isOpening(panel: NotebookPanel, editor: Editor, inserted: string): boolean {
    const kernel = kernelOfPanel(panel);
    if (kernel === null || this._cell === null) {
      return false;
    }
    const cursor = editor.getOffsetAt(editor.getCursorPosition());
    const text = textOf(this._cell.model);
    if (!isInPrompt(kernel, text, cursor)) {
      void this._setSession(panel, editor, true);
      return false;
    }
    const word = wordStart(kernel, text, cursor);
    if (word !== this._word) {
      this._word = word;
      this._seen = false;
      this._observer.observe(editor.host, { attributes: true, attributeFilter: ['class'] });
    }
    // Typed, or completed up to where it goes on; pasted text opens nothing.
    return word !== null && !this._seen && (inserted.length === 1 || /^@.*[/:]$/.test(inserted));
  }

  private async _open(panel: NotebookPanel, editor: Editor): Promise<void> {
    await this._setSession(panel, editor, this._live?.of(panel)?.connected !== true);
    if (this._cell?.editor === editor) {
      this._completer.invoke(panel.id);
    }
  }

  private async _setSession(panel: NotebookPanel, editor: Editor, given: boolean): Promise<void> {
    if (given === (this._sessionless !== editor)) {
      return;
    }
    this._sessionless = given ? null : editor;
    const session = given ? panel.sessionContext.session : null;
    const sanitizer = panel.content.rendermime.sanitizer;
    await this._completer.updateCompleter({ widget: panel, editor, session, sanitizer });
  }
}
