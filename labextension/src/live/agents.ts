/** All notebooks' agents, their sessions, and what they do. */

import type { ILinkState, ITerminal } from '../protocol';
import type { ILiveNotebook } from '../tokens';
import { ask } from './ask';
import { contextPercent, costText, linkName, speaking, statusWords, valueName } from './describe';
import { button, element, KeyedNodes, setText } from './dom';
import { statusIcon } from './icons';
import { notebookName } from './questions';

/** A command that runs. */
class TerminalItem {
  readonly node: HTMLElement;

  constructor(notebook: ILiveNotebook, { id, command, cwd }: ITerminal) {
    const stop = button('Stop', () => ask(notebook, { type: 'stop', terminal: id }), {
      class: 'acp-Button',
      'aria-label': `Stop ${command}`
    });
    const shown = element('code', { text: command, title: `in ${cwd}` });
    this.node = element('li', { class: 'acp-Terminal' }, shown, stop);
  }
}

class AgentItem {
  readonly node: HTMLElement;

  private _cancel: HTMLButtonElement;
  private _facts = element('dl');
  private _name = element('h4');
  private _shown = '';
  private _status = element('span', { class: 'acp-Agent-status' });
  private _terminals: KeyedNodes<ITerminal, TerminalItem>;

  constructor(notebook: ILiveNotebook, link: string) {
    this._cancel = button('Cancel turn', () => ask(notebook, { type: 'cancel', link }), {
      class: 'acp-Button'
    });
    const head = element('div', { class: 'acp-Agent-head' }, this._name, this._status);
    const running = element('ul', { class: 'acp-List', 'aria-label': 'Running commands' });
    this._terminals = new KeyedNodes<ITerminal, TerminalItem>(
      running,
      terminal => new TerminalItem(notebook, terminal),
      () => {}
    );
    this.node = element('li', { class: 'acp-Agent' }, head, this._facts, running, this._cancel);
  }

  update(link: ILinkState): void {
    const shown = JSON.stringify(link);
    if (shown === this._shown) {
      return;
    }
    this._shown = shown;
    setText(this._name, linkName(link));
    if (this._status.dataset.status !== link.status) {
      this._status.dataset.status = link.status;
      this._status.replaceChildren(statusIcon(link.status), statusWords(link.status));
    }
    this._facts.replaceChildren(
      ...facts(link).flatMap(([term, text]) => [
        element('dt', { text: term }),
        element('dd', { text })
      ])
    );
    this._terminals.set(new Map((link.terminals ?? []).map(each => [each.id, each])));
    this._cancel.hidden = !['working', 'waiting'].includes(link.status);
    this._cancel.setAttribute('aria-label', `Cancel the turn of ${linkName(link)}`);
  }
}

function facts(link: ILinkState): [string, string][] {
  const { agent, session, usage } = link;
  const percent = contextPercent(usage);
  const others = link.sessions.filter(each => each.id !== session?.id);
  const all: [string, string][] = [
    ['Version', agent === null ? '' : `${agent.version} · protocol ${agent.protocol}`],
    ['Session', session === null ? '' : session.title || session.id],
    ['Folder', session?.cwd ?? ''],
    ...link.options.map((option): [string, string] => [option.name, valueName(option)]),
    ['Context', percent === null ? '' : contextText(usage, percent)],
    ['Cost', usage.cost === undefined ? '' : costText(usage.cost)],
    ...others.map((each): [string, string] => [
      'Other session',
      `${each.title || each.id} · ${statusWords(each.status)}`
    ])
  ];
  return all.filter(([, text]) => text !== '');
}

function contextText({ used, size }: ILinkState['usage'], percent: number): string {
  return `${(used ?? 0).toLocaleString()} of ${(size ?? 0).toLocaleString()} tokens (${percent} %)`;
}

class NotebookItem {
  readonly node: HTMLElement;

  private _agents: KeyedNodes<ILinkState, AgentItem>;
  private _name: HTMLButtonElement;
  private _none = element('p', { class: 'acp-Note', text: 'No agent is connected.' });

  constructor(notebook: ILiveNotebook, show: (notebook: ILiveNotebook) => void) {
    const list = element('ul', { class: 'acp-List' });
    this._name = button('', () => show(notebook), { class: 'acp-Link' });
    this._agents = new KeyedNodes(
      list,
      link => new AgentItem(notebook, link.key),
      (view, link) => view.update(link)
    );
    this.node = element('div', {}, element('h3', {}, this._name), this._none, list);
  }

  update(notebook: ILiveNotebook): void {
    setText(this._name, notebookName(notebook));
    this._name.title = `Show ${notebook.panel.context.path}`;
    this._agents.set(new Map(notebook.links.map(link => [link.key, link])));
    this._none.hidden = notebook.links.length > 0;
  }
}

export class AgentList {
  readonly node = element('section', { class: 'acp-Section', 'aria-label': 'Agents' });

  private _notebooks: KeyedNodes<ILiveNotebook, NotebookItem>;
  private _none = element('p', {
    class: 'acp-Note',
    text: 'No open notebook has an agent. Open one with the “ACP Agent” kernel, or run “%load_ext acp_jupyter” in a Python notebook.'
  });

  constructor(show: (notebook: ILiveNotebook) => void) {
    const list = element('div');
    this._notebooks = new KeyedNodes(
      list,
      notebook => new NotebookItem(notebook, show),
      (view, notebook) => view.update(notebook)
    );
    this.node.append(element('h2', { text: 'Agents' }), this._none, list);
  }

  update(all: readonly ILiveNotebook[]): void {
    const notebooks = speaking(all);
    this._notebooks.set(new Map(notebooks.map(notebook => [notebook.panel.id, notebook])));
    this._none.hidden = notebooks.length > 0;
  }
}
