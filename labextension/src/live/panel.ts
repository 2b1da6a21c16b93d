/** The side panel: who waits, which agents there are, how to be told, and the wire. */

import { Widget } from '@lumino/widgets';

import type { ILive, ILiveNotebook } from '../tokens';
import { AgentList } from './agents';
import { button, checkbox, element } from './dom';
import { agentIcon } from './icons';
import { mayNotify } from './notices';
import { openQuestions, QuestionList, type IOpenQuestion } from './questions';
import type { IPreferences, ISettings } from './settings';
import { WireInspector } from './wire';

const NOTIFICATIONS: Record<ISettings['notifications'], string> = {
  off: 'Never',
  lab: 'In JupyterLab',
  browser: 'In JupyterLab and by the browser'
};

/** What the user can choose here as well as in the settings. */
class Choices {
  readonly node = element('section', { class: 'acp-Section', 'aria-label': 'Options' });

  private _allow: HTMLButtonElement;
  private _blocked = element('p', {
    class: 'acp-Note',
    text: 'This browser does not let the page show notifications. Allow them for this address in the browser’s settings.'
  });
  private _follow: HTMLInputElement | null = null;
  private _notifications = element('select', { class: 'acp-Field' });

  constructor(
    private readonly _preferences: IPreferences,
    canFollow: boolean
  ) {
    this.node.append(element('h2', { text: 'Options' }));
    if (canFollow) {
      const { node, input } = checkbox('Follow along: show the file that the agent works on', on =>
        _preferences.set('follow', on)
      );
      this._follow = input;
      this.node.append(node);
    }
    for (const [value, text] of Object.entries(NOTIFICATIONS)) {
      this._notifications.append(element('option', { value, text }));
    }
    this._notifications.addEventListener('change', () => void this._choose());
    const label = element('span', { text: 'Notify when an agent waits out of sight' });
    this._allow = button('Allow the browser’s notifications', () => this._askBrowser(), {
      class: 'acp-Button'
    });
    this.node.append(
      element('label', { class: 'acp-Option' }, label, this._notifications),
      this._allow,
      this._blocked
    );
    this.update();
  }

  update(): void {
    const { follow, notifications } = this._preferences.current;
    if (this._follow !== null) {
      this._follow.checked = follow;
    }
    this._notifications.value = notifications;
    const permission = 'Notification' in window ? window.Notification.permission : 'denied';
    this._allow.hidden = notifications !== 'browser' || permission !== 'default';
    this._blocked.hidden = notifications !== 'browser' || permission !== 'denied';
  }

  private async _choose(): Promise<void> {
    const value = this._notifications.value as ISettings['notifications'];
    await this._preferences.set('notifications', value);
    if (value === 'browser' && !mayNotify()) {
      await this._askBrowser();
    }
  }

  private async _askBrowser(): Promise<void> {
    if ('Notification' in window) {
      await window.Notification.requestPermission();
      this.update();
    }
  }
}

export class AgentsPanel extends Widget {
  private _agents: AgentList;
  private _choices: Choices;
  private _questions: QuestionList;
  private _wire: WireInspector;

  /**
   * @param showQuestion - bring a question's cell into sight.
   * @param showNotebook - bring a notebook into sight.
   * @param canFollow - whether files can be shown beside notebooks here.
   */
  constructor(
    private readonly _live: ILive,
    private readonly _preferences: IPreferences,
    showQuestion: (open: IOpenQuestion) => void,
    showNotebook: (notebook: ILiveNotebook) => void,
    canFollow: boolean
  ) {
    super();
    this.id = 'acp-agents';
    this.addClass('acp-Panel');
    this.title.icon = agentIcon;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Agents');
    this._questions = new QuestionList(showQuestion);
    this._agents = new AgentList(showNotebook);
    this._choices = new Choices(_preferences, canFollow);
    this._wire = new WireInspector(_live, _preferences);
    this.node.append(this._questions.node, this._agents.node, this._choices.node, this._wire.node);
    _live.changed.connect(this._onChanged);
    _preferences.changed.connect(this._onChanged);
    this._onChanged();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._live.changed.disconnect(this._onChanged);
      this._preferences.changed.disconnect(this._onChanged);
      this._wire.dispose();
      super.dispose();
    }
  }

  protected override onActivateRequest(): void {
    const first = this.node.querySelector<HTMLElement>('button:not([disabled]), select, input');
    first?.focus();
  }

  protected override onUpdateRequest(): void {
    const open = openQuestions(this._live.notebooks);
    this._questions.update(open);
    this._agents.update(this._live.notebooks);
    this._choices.update();
    const waiting = open.size > 0 ? `Agents: ${open.size} waiting for you` : 'Agents';
    this.title.caption = waiting;
    this.title.className = open.size > 0 ? 'acp-mod-waiting' : '';
  }

  /** Many in a row become one update. */
  private _onChanged = (): void => {
    this.update();
  };
}
