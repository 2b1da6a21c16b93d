/**
 * Telling the user that an agent waits: read out once, and shown where the notebook is not.
 *
 * What is shown goes away when the question does. The browser is never asked for its permission
 * from here: that takes an action of the user's.
 */

import { Notification } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';

import type { ILive } from '../tokens';
import { linkName } from './describe';
import { element } from './dom';
import { notebookName, openQuestions, type IOpenQuestion } from './questions';
import type { IPreferences } from './settings';

interface INotice {
  dismiss(): void;
}

export class Notices implements IDisposable {
  private _announcer = element('div', { class: 'acp-Announcer', 'aria-live': 'assertive' });
  private _isDisposed = false;
  private _notices = new Map<string, INotice[]>();

  /** @param show - bring the question into sight. */
  constructor(
    private readonly _live: ILive,
    private readonly _preferences: IPreferences,
    private readonly _show: (open: IOpenQuestion) => void
  ) {
    document.body.append(this._announcer);
    _live.changed.connect(this._update);
    this._update();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._live.changed.disconnect(this._update);
      [...this._notices.values()].flat().forEach(notice => notice.dismiss());
      this._notices.clear();
      this._announcer.remove();
    }
  }

  private _update = (): void => {
    const open = openQuestions(this._live.notebooks);
    for (const [key, notices] of this._notices) {
      if (!open.has(key)) {
        notices.forEach(notice => notice.dismiss());
        this._notices.delete(key);
      }
    }
    for (const [key, question] of open) {
      if (!this._notices.has(key)) {
        this._announcer.replaceChildren(element('p', { text: noticeText(question) }));
        this._notices.set(key, this._notify(question));
      }
    }
    if (open.size === 0) {
      this._announcer.replaceChildren();
    }
  };

  private _notify(question: IOpenQuestion): INotice[] {
    const { notifications } = this._preferences.current;
    const inSight = !document.hidden && question.notebook.panel.isVisible;
    if (notifications === 'off' || inSight) {
      return [];
    }
    const notices = [this._inLab(question)];
    if (notifications === 'browser' && document.hidden && mayNotify()) {
      notices.push(this._inBrowser(question));
    }
    return notices;
  }

  private _inLab(question: IOpenQuestion): INotice {
    const id = Notification.warning(noticeText(question), {
      autoClose: false,
      actions: [{ label: 'Show cell', callback: () => this._show(question) }]
    });
    return { dismiss: () => Notification.dismiss(id) };
  }

  private _inBrowser(question: IOpenQuestion): INotice {
    const notification = new window.Notification(`${linkName(question.link)} waits for you`, {
      body: `${question.question.title} · ${notebookName(question.notebook)}`
    });
    notification.onclick = () => {
      window.focus();
      this._show(question);
    };
    return { dismiss: () => notification.close() };
  }
}

function noticeText({ notebook, link, question }: IOpenQuestion): string {
  return `${linkName(link)} waits for you in ${notebookName(notebook)}: ${question.title}`;
}

/** Whether the browser shows notifications of this page. */
export function mayNotify(): boolean {
  return 'Notification' in window && window.Notification.permission === 'granted';
}
