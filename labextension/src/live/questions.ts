/**
 * The open questions of all agents: the evidence, and buttons like those in the cell.
 *
 * An item is made once for each question, so that reading it or being about to press a button is
 * not disturbed by the next.
 */

import type { ILinkState, IQuestion } from '../protocol';
import type { ILiveNotebook } from '../tokens';
import { ask } from './ask';
import { linkName, speaking } from './describe';
import { button, element, KeyedNodes } from './dom';

export interface IOpenQuestion {
  notebook: ILiveNotebook;
  link: ILinkState;
  question: IQuestion;
}

/** By keys that hold for as long as the question does. */
export function openQuestions(notebooks: readonly ILiveNotebook[]): Map<string, IOpenQuestion> {
  const open = new Map<string, IOpenQuestion>();
  for (const notebook of speaking(notebooks)) {
    for (const link of notebook.links) {
      for (const question of link.questions) {
        const key = JSON.stringify([notebook.panel.id, link.key, question.id]);
        open.set(key, { notebook, link, question });
      }
    }
  }
  return open;
}

export function notebookName(notebook: ILiveNotebook): string {
  return notebook.panel.context.path.split('/').pop() ?? '';
}

type Choice = IQuestion['choices'][number];

const DENY: Choice = { index: null, label: 'Deny', kind: 'reject_once' };

class QuestionItem {
  readonly node: HTMLElement;

  private _answers = element('div', { class: 'acp-Question-answers', role: 'group' });

  constructor(
    private readonly _open: IOpenQuestion,
    show: (open: IOpenQuestion) => void
  ) {
    const { notebook, link, question } = _open;
    const tool = ['', 'other'].includes(question.tool) ? '' : ` · ${question.tool}`;
    const from = `${linkName(link)} in ${notebookName(notebook)}${tool}`;
    this._answers.setAttribute('aria-label', `Answer: ${question.title}`);
    if (question.kind === 'permission') {
      this._addChoices(question);
    }
    const place = button('Show cell', () => show(_open), {
      class: 'acp-Button',
      'aria-label': `Show the cell of: ${question.title}`
    });
    this._answers.append(place);
    this.node = element(
      'li',
      { class: 'acp-Question' },
      element('h3', { text: question.title, class: 'acp-Question-title' }),
      element('p', { text: from, class: 'acp-Note' })
    );
    if (question.detail !== '') {
      const label = `Details of: ${question.title}`;
      this.node.append(
        element('pre', {
          text: question.detail,
          tabindex: '0',
          'aria-label': label,
          role: 'region'
        })
      );
    }
    this.node.append(this._answers);
  }

  private _addChoices(question: IQuestion): void {
    const { choices } = question;
    const canDeny = choices.some(({ index, kind }) => index === null || kind.startsWith('reject'));
    for (const choice of canDeny ? choices : [...choices, DENY]) {
      this._answers.append(
        button(choice.label, () => this._answer(choice.index), {
          class: `acp-Button ${colour(choice)}`
        })
      );
    }
  }

  private async _answer(choice: number | null): Promise<void> {
    const { notebook, link, question } = this._open;
    const buttons = [...this._answers.querySelectorAll('button')];
    buttons.forEach(each => (each.disabled = true));
    const answer = { type: 'answer', link: link.key, question: question.id, choice } as const;
    if (!(await ask(notebook, answer))) {
      buttons.forEach(each => (each.disabled = false));
    }
  }
}

/** By the kind that we know, never by the agent's words; an unknown kind is neutral. */
function colour({ index, kind }: Choice): string {
  if (kind.startsWith('allow') && index !== null) {
    return 'acp-mod-allow';
  }
  return kind.startsWith('reject') || index === null ? 'acp-mod-deny' : '';
}

export class QuestionList {
  readonly node = element('section', { class: 'acp-Section', 'aria-label': 'Waiting for you' });

  private _heading = element('h2', { tabindex: '-1' });
  private _items: KeyedNodes<IOpenQuestion, QuestionItem>;
  private _none = element('p', { class: 'acp-Note', text: 'No agent waits for an answer.' });

  constructor(show: (open: IOpenQuestion) => void) {
    const list = element('ul', { class: 'acp-List' });
    this._items = new KeyedNodes<IOpenQuestion, QuestionItem>(
      list,
      open => new QuestionItem(open, show),
      () => {}
    );
    this.node.append(this._heading, this._none, list);
  }

  update(open: ReadonlyMap<string, IOpenQuestion>): void {
    const hadFocus = this.node.contains(document.activeElement);
    this._items.set(open);
    this._heading.textContent =
      open.size > 0 ? `Waiting for you (${open.size})` : 'Waiting for you';
    this._none.hidden = open.size > 0;
    if (hadFocus && !this.node.contains(document.activeElement)) {
      this._heading.focus(); // That which had it was answered.
    }
  }
}
