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
import type { IPreferences } from './settings';

export class StatusItem extends Widget {
  /** Whether there is something to show has changed. */
  readonly activeChanged = new Signal<this, void>(this);

  private _button = element('button', {
    type: 'button',
    class: 'acp-Status',
    'aria-haspopup': 'dialog',
    'aria-expanded': 'false'
  });
  private _details = element('span', { class: 'acp-Status-details' });
  private _popup: OptionsPopup | null = null;
  private _shown: Status | null = null;
  private _words = element('span', { class: 'acp-Status-words' });

  constructor(
    private readonly _live: ILive,
    private readonly _tracker: INotebookTracker,
    private readonly _preferences: IPreferences,
    private readonly _openPanel: () => void
  ) {
    super();
    this.addClass('acp-StatusItem');
    this._button.append(this._words, this._details);
    this._button.addEventListener('click', this._onClick);
    this.node.append(this._button);
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
    this._button.title = links.map(each => linkLines(each).join('\n')).join('\n\n');
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

  private _onClick = (): void => {
    const notebook = this._notebook;
    if (this._popup !== null) {
      this._popup.dispose();
    } else if (notebook !== undefined) {
      this._button.setAttribute('aria-expanded', 'true');
      this._popup = new OptionsPopup(notebook, this._button, this._openPanel, () => {
        this._popup = null;
        this._button.setAttribute('aria-expanded', 'false');
      });
    }
  };
}
