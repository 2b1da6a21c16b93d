/**
 * The output of an entry, kept up to date in place.
 *
 * JupyterLab asks the same widget to render again for each update of a display. The HTML is made
 * anew (see `sanitize`), gets its tools, and what is shown is changed into it (see `morph`). It
 * does not matter whether the notebook is trusted: nothing here is ever run.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { ask } from '../live/ask';
import { ENTRY_MIME } from '../protocol';
import type { EntryData, ICellsData, IProposedCell, ITerminal } from '../protocol';
import type { ILive } from '../tokens';
import { announce, announceOnce } from './announce';
import { actionOf } from './buttons';
import { INSERT_CELLS, whyNot } from './cells';
import { copyText } from './copy';
import { readEntry } from './data';
import { columns } from './diff';
import { holdsMath } from './math';
import { morph } from './morph';
import { isRunning, placeOf } from './place';
import { insertable, proposals } from './proposals';
import type { IProposalsView } from './proposals';
import { sanitized } from './sanitize';
import { addControls, runningIn } from './terminals';
import { addTools, copied, linkLocations } from './tools';

export const OPEN_LOCATION = 'acp:open-location';
export const OPEN_TERMINAL = 'acp:open-terminal';

/** Pixels that two columns of code need. */
const ROOM = 640;

/** Milliseconds after which an update is shown where no frames are drawn. */
const NO_FRAME = 100;

/** The application around an output. */
export interface ISurroundings {
  commands: JupyterFrontEnd['commands'];
  notebooks: INotebookTracker | null;
  live: ILive | null;
}

export class RenderedEntry extends Widget implements IRenderMime.IRenderer {
  constructor(
    options: IRenderMime.IRendererOptions,
    private readonly _around: ISurroundings
  ) {
    super();
    this._typesetter = options.latexTypesetter;
    this.node.dataset.mimeType = options.mimeType;
    // The styles of HTML outputs, for tables, code and text.
    for (const name of ['jp-RenderedHTMLCommon', 'jp-RenderedHTML', 'acp-Entry']) {
      this.addClass(name);
    }
    this.node.addEventListener('click', event => this._onClick(event));
    this.node.addEventListener('focusin', event => keepKeys(event.target, true));
    this.node.addEventListener('focusout', event => keepKeys(event.target, false));
  }

  override dispose(): void {
    this._room?.disconnect();
    if (this._followed) {
      this._around.live?.changed.disconnect(this._onLive);
    }
    Signal.clearData(this);
    super.dispose();
  }

  /** Show the model; several within a frame are shown once. */
  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._body = text(model.data['text/html']);
    this._plain = text(model.data['text/plain']);
    this._entry = readEntry(model.data[ENTRY_MIME]);
    this._forgetMarked();
    this._followsTerminals();
    if (!this.node.firstChild) {
      this._show();
      return Promise.resolve();
    }
    this._next ??= nextFrame().then(() => {
      this._next = null;
      if (!this.isDisposed) {
        this._show();
      }
    });
    return this._next;
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (this._entry?.type === 'cells' || this._followsTerminals()) {
      this._show(); // Only now it is known in which notebook.
    } else {
      this._announce();
      this._typeset();
    }
  }

  // -- showing ----------------------------------------------------------------------------------

  private _show(): void {
    const fresh = document.createElement('div');
    fresh.append(this._content());
    morph(this.node, fresh);
    this._describe();
    this._announce();
    this._typeset();
  }

  private _content(): Node {
    const body = sanitized(this._body);
    if (!this._body) {
      const block = document.createElement('pre');
      block.textContent = this._plain;
      body.append(block);
    }
    const entry = this._entry;
    if (entry?.type === 'cells') {
      return proposals(entry, this._view(), body);
    }
    if (entry) {
      this._watchRoom(addTools(body, this._hasRoom));
    }
    if (entry?.type === 'tool_call' && this._around.commands.hasCommand(OPEN_LOCATION)) {
      linkLocations(body, entry.locations);
    }
    addControls(body, this._running, this._around.commands.isEnabled(OPEN_TERMINAL));
    return body;
  }

  private _describe(): void {
    const entry = this._entry;
    const busy = entry?.type === 'tool_call' && !entry.finished;
    setAttribute(this.node, 'role', entry ? 'group' : null);
    setAttribute(this.node, 'aria-label', entry ? entry.label : null);
    setAttribute(this.node, 'aria-busy', busy ? 'true' : null);
  }

  /** Say how it ended, if that is news: not of a notebook that was opened. */
  private _announce(): void {
    const entry = this._entry;
    if (entry?.type === 'tool_call' && !entry.finished) {
      this._wasBusy = true;
    } else if (entry && ['tool_call', 'permission', 'elicitation'].includes(entry.type)) {
      const place = this._wasBusy ? null : placeOf(this.node, this._around.notebooks);
      if (this._wasBusy || (place && isRunning(place))) {
        announceOnce(entry.id, entry.label);
      }
    }
  }

  /** Mathematics, where the HTML has some: most entries say that theirs is none. */
  private _typeset(): void {
    if (this._typesetter && this.isAttached && holdsMath(this.node)) {
      void this._typesetter.typeset(this.node);
    }
  }

  /** Learn whether there is room for two columns, as soon as it matters. */
  private _watchRoom(hasDiff: boolean): void {
    if (!hasDiff || this._room) {
      return;
    }
    columns.changed.connect(() => this._show(), this);
    this._room = new ResizeObserver(() => {
      const hasRoom = this.node.clientWidth >= ROOM;
      if (hasRoom !== this._hasRoom && this.node.clientWidth > 0) {
        this._hasRoom = hasRoom;
        this._show();
      }
    });
    this._room.observe(this.node);
  }

  // -- running commands -------------------------------------------------------------------------

  /** Look at which of the entry's commands run, now and whenever that changes; returns whether
   * that is different from before. */
  private _followsTerminals(): boolean {
    const { live, notebooks } = this._around;
    const ids = this._entry && 'terminals' in this._entry ? (this._entry.terminals ?? []) : [];
    if (ids.length && live && !this._followed) {
      this._followed = true;
      live.changed.connect(this._onLive);
    }
    const panel = ids.length ? placeOf(this.node, notebooks)?.panel : undefined;
    const running = runningIn((panel && live?.of(panel)?.links) ?? [], ids);
    const changed = JSON.stringify(running) !== JSON.stringify(this._running);
    this._running = running;
    return changed;
  }

  private _onLive = (): void => {
    if (this.isAttached && this._followsTerminals()) {
      this._show();
    }
  };

  private _onTerminalAction(action: 'stop' | 'attach', index: number): void {
    const terminal = this._running[index]?.id;
    const panel = placeOf(this.node, this._around.notebooks)?.panel;
    const live = panel && this._around.live?.of(panel);
    if (terminal === undefined || !panel || !live) {
      return;
    }
    if (action === 'attach') {
      void this._around.commands.execute(OPEN_TERMINAL, { terminal, notebook: panel.id });
    } else {
      void ask(live, { type: 'stop', terminal });
    }
  }

  // -- proposed cells ---------------------------------------------------------------------------

  private _view(): IProposalsView {
    const place = placeOf(this.node, this._around.notebooks);
    return {
      states: this._states,
      unfolded: this._unfolded,
      whyNot: language =>
        place ? whyNot(place.panel, language) : 'Cells are inserted in the notebook itself.'
    };
  }

  /** The kernel knows what became of a cell: what was remembered here is no longer needed. */
  private _forgetMarked(): void {
    if (this._entry?.type === 'cells') {
      this._entry.cells.forEach(({ state }, index) => {
        if (state !== 'proposed') {
          this._states.delete(index);
        }
      });
    }
  }

  private _mark(entry: ICellsData, indexes: number[], state: IProposedCell['state']): void {
    const panel = placeOf(this.node, this._around.notebooks)?.panel ?? null;
    const live = this._around.live?.of(panel);
    for (const index of indexes) {
      this._states.set(index, state);
      if (live?.connected) {
        // Refused or not: what was done is done, and this view shows it.
        live.request({ type: 'cells', entry: entry.id, index, state }).catch(console.warn);
      }
    }
    this._show();
  }

  private async _insert(entry: ICellsData, indexes: number[], run: boolean): Promise<void> {
    const place = placeOf(this.node, this._around.notebooks);
    const cells = entry.cells.filter((_, index) => indexes.includes(index));
    if (!place || !cells.length) {
      return;
    }
    try {
      await this._around.commands.execute(INSERT_CELLS, {
        cells: cells.map(({ language, source }) => ({ language, source })),
        origin: { ...entry.origin },
        run,
        notebook: place.panel.id,
        cell: place.cell.model.id
      });
    } catch (error) {
      Notification.error(error instanceof Error ? error.message : String(error));
      return;
    }
    this._mark(entry, indexes, run ? 'run' : 'inserted');
    const count = indexes.length === 1 ? 'The cell was' : `${indexes.length} cells were`;
    announce(`${count} inserted below${run ? ' and runs' : ''}.`);
  }

  private _dismiss(entry: ICellsData, index: number): void {
    this._mark(entry, [index], 'dismissed');
    const next = this.node.querySelector<HTMLElement>('.acp-Entry-actions button:enabled');
    (next ?? this.node).focus();
    announce('The proposed cell was dismissed.');
  }

  // -- actions ----------------------------------------------------------------------------------

  private _onClick(event: MouseEvent): void {
    const found = actionOf(event);
    const entry = this._entry;
    // The second click of a double one is not a second wish.
    if (!found || !entry || event.detail > 1) {
      return;
    }
    const { action, index } = found;
    if (action === 'columns') {
      columns.toggle();
    } else if (action === 'copy') {
      void this._copy(entry, index);
    } else if (action === 'open') {
      event.preventDefault(); // The summary in which it stands is not to fold.
      this._open(entry, index);
    } else if (action === 'stop' || action === 'attach') {
      this._onTerminalAction(action, index);
    } else if (entry.type === 'cells') {
      this._onCellAction(entry, action, index);
    }
  }

  private _onCellAction(entry: ICellsData, action: string, index: number): void {
    if (action === 'dismiss') {
      this._dismiss(entry, index);
    } else if (action === 'more') {
      if (!this._unfolded.delete(index)) {
        this._unfolded.add(index);
      }
      this._show();
    } else {
      const indexes = action === 'insert-all' ? insertable(entry, this._view()) : [index];
      void this._insert(entry, indexes, action === 'run');
    }
  }

  private async _copy(entry: EntryData, index: number): Promise<void> {
    const isCells = entry.type === 'cells';
    await copyText(
      isCells ? (entry.cells[index]?.source ?? '') : copied(sanitized(this._body), index, entry)
    );
    announce('Copied.');
  }

  private _open(entry: EntryData, index: number): void {
    const location = entry.type === 'tool_call' ? entry.locations[index] : undefined;
    const place = placeOf(this.node, this._around.notebooks);
    if (location && place) {
      const notebook = place.panel.context.path;
      void this._around.commands.execute(OPEN_LOCATION, { ...location, notebook });
    }
  }

  private readonly _typesetter: IRenderMime.ILatexTypesetter | null;
  private readonly _states = new Map<number, IProposedCell['state']>();
  private readonly _unfolded = new Set<number>();
  private _entry: EntryData | null = null;
  private _body = '';
  private _plain = '';
  private _next: Promise<void> | null = null;
  private _room: ResizeObserver | null = null;
  private _hasRoom = false;
  private _wasBusy = false;
  private _followed = false;
  private _running: readonly ITerminal[] = [];
}

/** A text of a MIME bundle, which notebook files may have in lines. */
function text(value: unknown): string {
  const whole = Array.isArray(value) ? value.join('') : value;
  return typeof whole === 'string' ? whole : '';
}

function setAttribute(node: Element, name: string, value: string | null): void {
  if (value === null) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, value);
  }
}

/**
 * Leave the keys to a control that was reached by keyboard.
 *
 * The notebook would take Enter for itself; after a click, though, its shortcuts are to work.
 */
function keepKeys(target: EventTarget | null, focused: boolean): void {
  const control = target instanceof Element ? target.closest('button, summary, a') : null;
  control?.toggleAttribute(
    'data-lm-suppress-shortcuts',
    focused && control.matches(':focus-visible')
  );
}

/** When the page is drawn next; in a hidden one, where nothing is drawn, soon. */
function nextFrame(): Promise<void> {
  if (document.hidden) {
    return Promise.resolve();
  }
  return new Promise(resolve => {
    const timer = setTimeout(done, NO_FRAME);
    const frame = requestAnimationFrame(done);
    function done(): void {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      resolve();
    }
  });
}
