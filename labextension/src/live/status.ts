/** In the status bar: what the agents of the current notebook are and do. */

import type { INotebookTracker } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import type { Status } from '../protocol';
import type { ILive, ILiveNotebook } from '../tokens';
import { foremost, linkLines, linkParts, statusWords } from './describe';
import { element, setText } from './dom';
import { statusIcon } from './icons';
import { OptionsPopup } from './options';
import { openQuestions, type IOpenQuestion } from './questions';
import type { IPreferences } from './settings';

export class StatusItem extends Widget {
  /** Whether there is something to show has changed. */
  readonly activeChanged = new Signal<this, void>(this);

  private _button = element('button', {
    type: 'button',
    class: 'acp-Status'
  });
  private _details = element('span', { class: 'acp-Status-details' });
  /** Opens the popup while the other button leads to the question. */
  private _more = element('button', {
    type: 'button',
    class: 'acp-StatusMore',
    text: '⋯',
    title: 'Mode, model and other options',
    'aria-label': 'Options of the agent'
  });
  private _opener = this._button;
  private _popup: OptionsPopup | null = null;
  private _shown: Status | null = null;
  private _words = element('span', { class: 'acp-Status-words' });

  constructor(
    private readonly _live: ILive,
    private readonly _tracker: INotebookTracker,
    private readonly _preferences: IPreferences,
    private readonly _openPanel: () => void,
    private readonly _showQuestion: (open: IOpenQuestion) => void
  ) {
    super();
    this.addClass('acp-StatusItem');
    this._button.append(this._words, this._details);
    this._button.addEventListener('click', this._onClick);
    this._more.addEventListener('click', () => this._toggle());
    this.node.append(this._button, this._more);
    _live.changed.connect(this._onChanged);
    _tracker.currentChanged.connect(this._onCurrentChanged);
    _preferences.changed.connect(this._onChanged);
    this._onChanged();
  }

  /** Whether there is something to show. */
  get isActive(): boolean {
    return this._preferences.current.statusBar && this._notebook !== undefined;
  }

  override dispose(): void {
    this._popup?.dispose();
    this._live.changed.disconnect(this._onChanged);
    this._tracker.currentChanged.disconnect(this._onCurrentChanged);
    this._preferences.changed.disconnect(this._onChanged);
    super.dispose();
  }

  protected override onUpdateRequest(): void {
    const links = this._notebook?.links ?? [];
    const link = foremost(links);
    const status = link?.status ?? 'none';
    if (status !== this._shown) {
      this._shown = status;
      this._button.dataset.status = status;
      this._button.querySelector('.acp-StatusIcon')?.remove();
      this._button.prepend(statusIcon(status));
    }
    setText(this._words, statusWords(status));
    setText(this._details, link === undefined ? '' : linkParts(link).join(' · '));
    const lines = links.map(each => linkLines(each).join('\n')).join('\n\n');
    this._button.title = this._question === undefined ? lines : `Go to the question\n\n${lines}`;
    this._setOpener(this._question === undefined ? this._button : this._more);
  }

  private get _notebook(): ILiveNotebook | undefined {
    const notebook = this._live.of(this._tracker.currentWidget);
    return notebook?.connected === true ? notebook : undefined;
  }

  private _onChanged = (): void => {
    this.setHidden(!this.isActive);
    this.activeChanged.emit();
    this.update();
  };

  private _onCurrentChanged = (): void => {
    this._popup?.dispose();
    this._onChanged();
  };

  private get _question(): IOpenQuestion | undefined {
    const notebook = this._notebook;
    return notebook && [...openQuestions([notebook]).values()][0];
  }

  /** Say which of the buttons opens the popup. */
  private _setOpener(opener: HTMLButtonElement): void {
    this._opener.removeAttribute('aria-haspopup');
    this._opener.removeAttribute('aria-expanded');
    this._opener = opener;
    opener.setAttribute('aria-haspopup', 'dialog');
    opener.setAttribute('aria-expanded', String(this._popup !== null));
    this._more.hidden = opener !== this._more;
  }

  private _onClick = (): void => {
    const question = this._question;
    if (question === undefined) {
      this._toggle();
    } else {
      this._popup?.dispose();
      this._showQuestion(question);
    }
  };

  private _toggle(): void {
    const notebook = this._notebook;
    if (this._popup !== null) {
      this._popup.dispose();
    } else if (notebook !== undefined) {
      const openPanel = this._openPanel;
      this._popup = new OptionsPopup(notebook, this.node, openPanel, byKey => {
        this._popup = null;
        this._opener.setAttribute('aria-expanded', 'false');
        if (byKey) {
          this._opener.focus();
        }
      });
      this._opener.setAttribute('aria-expanded', 'true');
    }
  }
}
