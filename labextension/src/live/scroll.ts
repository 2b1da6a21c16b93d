/**
 * Scrolls to a question that comes up below the page, in a cell that is in sight.
 *
 * The user is not moved about: what they do in the notebook after the agent began to work, or
 * after they answered it, has them left alone.
 */

import type { IDisposable } from '@lumino/disposable';

import type { ILive, ILiveNotebook } from '../tokens';
import { foremost } from './describe';
import { openQuestions, type IOpenQuestion } from './questions';
import { followTo, questionIn } from './reveal';

const ACTS = ['wheel', 'touchmove', 'pointerdown', 'keydown'] as const;

/** Whether the user of a notebook has done something there since the agent's last turn to them. */
class Attention implements IDisposable {
  hasActed = false;
  isDisposed = false;

  private _isBusy = false;
  private _questions = 0;

  constructor(private readonly _notebook: ILiveNotebook) {
    ACTS.forEach(type => _notebook.panel.node.addEventListener(type, this._onAct, OPTIONS));
  }

  update(): void {
    const { links } = this._notebook;
    const isBusy = ['working', 'waiting'].includes(foremost(links)?.status ?? 'none');
    const questions = links.reduce((sum, link) => sum + link.questions.length, 0);
    if ((isBusy && !this._isBusy) || questions < this._questions) {
      this.hasActed = false;
    }
    this._isBusy = isBusy;
    this._questions = questions;
  }

  dispose(): void {
    this.isDisposed = true;
    ACTS.forEach(type => this._notebook.panel.node.removeEventListener(type, this._onAct, OPTIONS));
  }

  private _onAct = (): void => {
    this.hasActed = true;
  };
}

const OPTIONS = { capture: true, passive: true } as const;

/** Waits for the place of one question, and follows it while it grows. */
class Watch implements IDisposable {
  isDisposed = false;

  private _cell: Element | undefined;
  private _mutations = new MutationObserver(() => this._find());
  private _sizes = new ResizeObserver(() => this._follow());
  private _place: HTMLElement | null = null;

  constructor(
    private readonly _open: IOpenQuestion,
    private readonly _attention: Attention
  ) {
    const { notebook, question } = _open;
    const cells = notebook.panel.content.widgets;
    this._cell = cells.find(cell => cell.model.id === question.cell)?.node;
    if (this._cell !== undefined) {
      this._mutations.observe(this._cell, { childList: true, subtree: true });
      this._find();
    }
  }

  dispose(): void {
    this.isDisposed = true;
    this._mutations.disconnect();
    this._sizes.disconnect();
  }

  private _find(): void {
    this._place = this._cell === undefined ? null : questionIn(this._cell);
    if (this._place !== null) {
      this._mutations.disconnect();
      this._sizes.observe(this._place); // Calls back at once, and as its parts are drawn.
    }
  }

  private _follow(): void {
    const { panel } = this._open.notebook;
    if (this._attention.hasActed || panel.isDisposed || !panel.isVisible) {
      this.dispose();
    } else if (this._cell !== undefined && this._place !== null) {
      followTo(panel, this._cell, this._place);
    }
  }
}

export class QuestionScroller implements IDisposable {
  isDisposed = false;

  private _attentions = new Map<ILiveNotebook, Attention>();
  private _watches = new Map<string, Watch>();

  constructor(private readonly _live: ILive) {
    _live.changed.connect(this._update);
    this._update();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.isDisposed = true;
      this._live.changed.disconnect(this._update);
      this._watches.forEach(watch => watch.dispose());
      this._attentions.forEach(attention => attention.dispose());
    }
  }

  private _update = (): void => {
    const notebooks = new Set(this._live.notebooks);
    retain(this._attentions, notebooks);
    notebooks.forEach(notebook => this._attentionOf(notebook).update());
    const open = openQuestions(this._live.notebooks);
    retain(this._watches, open);
    for (const [key, question] of open) {
      if (!this._watches.has(key)) {
        const attention = this._attentionOf(question.notebook);
        this._watches.set(key, new Watch(question, attention));
      }
    }
  };

  private _attentionOf(notebook: ILiveNotebook): Attention {
    const known = this._attentions.get(notebook) ?? new Attention(notebook);
    this._attentions.set(notebook, known);
    return known;
  }
}

/** Drop what belongs to keys that are gone. */
function retain<K>(map: Map<K, IDisposable>, keys: { has(key: K): boolean }): void {
  for (const [key, value] of map) {
    if (!keys.has(key)) {
      value.dispose();
      map.delete(key);
    }
  }
}
