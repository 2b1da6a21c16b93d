import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { AgentList } from '../src/live/agents';
import { costText, foremost, linkParts, statusWords } from '../src/live/describe';
import { Notices } from '../src/live/notices';
import { OptionsPopup } from '../src/live/options';
import { openQuestions, QuestionList } from '../src/live/questions';
import { Preferences, type ISettings } from '../src/live/settings';
import { StatusItem } from '../src/live/status';
import type { ILinkState } from '../src/protocol';
import { FakeLive, FakeNotebook, linkState, mode, question } from './live-kernel';

const HOSTILE = '<img src=x onerror="alert(1)"><script>alert(1)</script>';

afterEach(() => {
  document.body.replaceChildren();
  Notification.dismiss();
});

function buttons(node: HTMLElement): string[] {
  return [...node.querySelectorAll('button')].map(each => each.textContent);
}

function press(node: HTMLElement, text: string): void {
  [...node.querySelectorAll('button')].find(each => each.textContent === text)!.click();
}

async function settled(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve));
}

describe('an agent in words', () => {
  it('has agent, session, mode, context and cost, as far as they are known', () => {
    const usage = { used: 1000, size: 8000, cost: { amount: 0.0123, currency: 'USD' } };
    const all = linkState({ name: 'b', options: [mode()], usage });
    const parts = linkParts(all);
    expect(parts).toEqual(['Demo Agent (b)', 'Mend the tests', 'ASK', '13 %', '$0.0123']);
    expect(linkParts(linkState({ agent: null, session: null }))).toEqual(['Agent']);
  });

  it('leaves room beside a long title, without cutting a character in two', () => {
    const session = { id: 's', title: '🐍'.repeat(50), cwd: '' };
    expect(linkParts(linkState({ session }))[1]).toBe(`${'🐍'.repeat(23)}…`);
  });

  it('writes a cost in whatever the agent calls a currency', () => {
    expect(costText({ amount: 2, currency: 'USD' })).toBe('$2.00');
    expect(costText({ amount: 2, currency: 'credits' })).toBe('2 credits');
  });

  it('tells of the link that wants the user most', () => {
    const links = (['ended', 'working', 'waiting', 'idle'] as const).map(status =>
      linkState({ key: status, status })
    );
    expect(foremost(links)?.key).toBe('waiting');
    expect(foremost([])).toBeUndefined();
    expect(statusWords('waiting')).toBe('Waiting for you');
  });
});

describe('the status item', () => {
  function item(links: ILinkState[]): {
    live: FakeLive;
    shown: jest.Mock;
    text: () => string;
    widget: StatusItem;
  } {
    const live = new FakeLive([new FakeNotebook(links)]);
    const shown = jest.fn();
    const currentWidget = live.notebooks[0]!.panel;
    const tracker = { currentWidget, currentChanged: new Signal({}) };
    const widget = new StatusItem(
      live,
      tracker as unknown as INotebookTracker,
      new Preferences(),
      () => {},
      shown
    );
    Widget.attach(widget, document.body);
    const text = (): string => {
      MessageLoop.flush();
      return [...widget.node.querySelectorAll('span')].map(each => each.textContent).join('|');
    };
    return { live, shown, text, widget };
  }

  it('tells working from waiting by symbol and word', () => {
    const { live, text, widget } = item([linkState({ status: 'working' })]);
    expect(text()).toBe('Working|Demo Agent · Mend the tests');
    const working = widget.node.querySelector('path')!.getAttribute('d');
    live.set([linkState({ status: 'waiting' })]);
    expect(text()).toBe('Waiting for you|Demo Agent · Mend the tests');
    expect(widget.node.querySelectorAll('svg')).toHaveLength(1);
    expect(widget.node.querySelector('path')!.getAttribute('d')).not.toBe(working);
  });

  it('is there for a kernel that speaks of agents only', () => {
    const { live, text, widget } = item([]);
    expect(text()).toBe('No agent|');
    expect(widget.isActive).toBe(true);
    live.notebooks[0]!.connected = false;
    live.changed.emit();
    expect(widget.isActive).toBe(false);
    expect(widget.isHidden).toBe(true);
  });

  it('shows what agents say as text', () => {
    const session = { id: 's', title: '<img src=x>', cwd: '' };
    const { text, widget } = item([linkState({ session })]);
    expect(text()).toContain('<img src=x>');
    expect(widget.node.querySelector('img')).toBeNull();
  });

  it('opens and closes its popup, and listens to nobody once it is gone', () => {
    const { live, widget } = item([linkState()]);
    const node = widget.node.querySelector('button')!;
    node.click();
    expect(document.querySelectorAll('[role=dialog]')).toHaveLength(1);
    expect(node.getAttribute('aria-expanded')).toBe('true');
    node.click();
    expect(document.querySelectorAll('[role=dialog]')).toHaveLength(0);
    node.click();
    widget.dispose();
    expect(document.querySelectorAll('[role=dialog]')).toHaveLength(0);
    live.set([linkState({ status: 'waiting' })]);
    expect(node.textContent).not.toContain('Waiting');
  });

  it('leads to the question that waits, and to the options beside it', () => {
    const { live, shown, text, widget } = item([
      linkState({ status: 'waiting', questions: [question()] })
    ]);
    text();
    const [main, more] = widget.node.querySelectorAll('button');
    expect(main!.title).toContain('Go to the question');
    expect(main!.hasAttribute('aria-haspopup')).toBe(false);
    main!.click();
    expect(shown).toHaveBeenCalledWith(expect.objectContaining({ question: question() }));
    expect(document.querySelectorAll('[role=dialog]')).toHaveLength(0);
    expect(more!.hidden).toBe(false);
    more!.click();
    expect(document.querySelectorAll('[role=dialog]')).toHaveLength(1);
    expect(more!.getAttribute('aria-expanded')).toBe('true');
    live.set([linkState()]);
    text();
    expect(more!.hidden).toBe(true);
    expect(main!.getAttribute('aria-expanded')).toBe('true');
    widget.dispose();
  });
});

describe('the popup', () => {
  function popup(links: ILinkState[]): {
    closed: jest.Mock;
    notebook: FakeNotebook;
    node: HTMLElement;
  } {
    const notebook = new FakeNotebook(links);
    const anchor = document.createElement('button');
    document.body.append(anchor);
    const closed = jest.fn();
    const { node } = new OptionsPopup(notebook, anchor, () => {}, closed);
    return { closed, notebook, node };
  }

  it('sets options, of each link its own', () => {
    const verbose = { ...mode(), id: 'v', name: 'Verbose', category: '', kind: 'boolean' as const };
    const { notebook, node } = popup([
      linkState({ options: [{ ...verbose, value: false, values: [] }, mode()] }),
      linkState({ key: 'b', options: [mode()] })
    ]);
    const [first, second] = node.querySelectorAll('select');
    expect(node.querySelectorAll('.acp-Options')[0]!.firstElementChild!.contains(first!)).toBe(
      true
    );
    second!.value = 'trust';
    second!.dispatchEvent(new Event('change'));
    node.querySelector('input')!.click();
    expect(notebook.requests).toEqual([
      { type: 'set', link: 'b', option: 'm', value: 'trust' },
      { type: 'set', link: 'a', option: 'v', value: true }
    ]);
  });

  it('takes back what the kernel refuses, and tells its words', async () => {
    const { notebook, node } = popup([linkState({ options: [mode()] })]);
    notebook.failure = 'Not while a turn runs.';
    const select = node.querySelector('select')!;
    select.value = 'trust';
    select.dispatchEvent(new Event('change'));
    await settled();
    expect(select.value).toBe('ask');
    expect(Notification.manager.notifications.map(each => each.message)).toEqual([
      'Not while a turn runs.'
    ]);
  });

  it('keeps its controls, and so the focus, while only values change', () => {
    const { notebook, node } = popup([linkState({ options: [mode()] })]);
    const select = node.querySelector('select')!;
    expect(document.activeElement).toBe(select);
    notebook.links = [linkState({ status: 'working', options: [mode('trust')] })];
    notebook.changed.emit();
    expect(document.activeElement).toBe(select);
    expect(select.value).toBe('trust');
    press(node, 'Cancel turn');
    expect(notebook.requests).toEqual([{ type: 'cancel', link: 'a' }]);
  });

  it('groups the values that have groups', () => {
    const models = mode();
    models.values[1]!.group = 'Large';
    const { node } = popup([linkState({ options: [models] })]);
    expect(node.querySelector('optgroup')!.label).toBe('Large');
    expect(node.querySelectorAll('select > option')).toHaveLength(1);
  });

  it('closes on Escape and tells of it, for the focus to go back', () => {
    const { closed, node } = popup([linkState()]);
    node.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    expect(node.isConnected).toBe(false);
    expect(closed.mock.calls).toEqual([[true]]);
  });
});

describe('the list of questions', () => {
  function list(links: ILinkState[]): { live: FakeLive; view: QuestionList; shown: jest.Mock } {
    const live = new FakeLive([new FakeNotebook(links)]);
    const shown = jest.fn();
    const view = new QuestionList(shown);
    document.body.append(view.node);
    const update = (): void => view.update(openQuestions(live.notebooks));
    live.changed.connect(update);
    update();
    return { live, view, shown };
  }

  it('shows evidence and the choices in their order, coloured by kind', () => {
    const { view } = list([linkState({ questions: [question()] })]);
    expect(view.node.querySelector('h2')!.textContent).toBe('Waiting for you (1)');
    expect(view.node.querySelector('pre')!.textContent).toBe('$ make');
    expect(buttons(view.node)).toEqual(['Allow once', 'Deny', 'Show cell']);
    const classes = [...view.node.querySelectorAll('button')].map(each => each.className);
    expect(classes[0]).toContain('acp-mod-allow');
    expect(classes[1]).toContain('acp-mod-deny');
  });

  it('keeps hostile text as text', () => {
    const choices = [{ index: 0, label: HOSTILE, kind: HOSTILE }];
    const hostile = question({ title: HOSTILE, detail: HOSTILE, tool: HOSTILE, choices });
    const agent = { name: HOSTILE, version: HOSTILE, protocol: HOSTILE };
    const { view } = list([linkState({ agent, questions: [hostile] })]);
    expect(view.node.querySelector('img, script')).toBeNull();
    expect(view.node.querySelector('h3')!.textContent).toBe(HOSTILE);
    expect(view.node.querySelector('pre')!.textContent).toBe(HOSTILE);
    expect(view.node.querySelector('button')!.className.trim()).toBe('acp-Button');
  });

  it('always lets one deny', async () => {
    const choices = [{ index: 0, label: 'Allow once', kind: 'allow_once' }];
    const { live, view } = list([linkState({ questions: [question({ choices })] })]);
    expect(buttons(view.node)).toEqual(['Allow once', 'Deny', 'Show cell']);
    press(view.node, 'Deny');
    await settled();
    expect(live.notebooks[0]!.requests).toEqual([
      { type: 'answer', link: 'a', question: 'q1', choice: null }
    ]);
  });

  it('answers once, and again only if that failed', async () => {
    const { live, view } = list([linkState({ questions: [question()] })]);
    const notebook = live.notebooks[0]!;
    press(view.node, 'Allow once');
    press(view.node, 'Deny');
    await settled();
    expect(notebook.requests).toHaveLength(1);

    notebook.failure = 'The question is not open any more.';
    live.set([linkState({ questions: [question({ id: 'q2' })] })]);
    press(view.node, 'Allow once');
    await settled();
    press(view.node, 'Deny');
    await settled();
    expect(notebook.requests.slice(1).map(each => each.type)).toEqual(['answer', 'answer']);
  });

  it.each(['form', 'url'] as const)('only leads to the cell of a %s', kind => {
    const { live, view, shown } = list([
      linkState({ questions: [question({ kind, choices: [] })] })
    ]);
    expect(buttons(view.node)).toEqual(['Show cell']);
    press(view.node, 'Show cell');
    expect(shown).toHaveBeenCalledWith([...openQuestions(live.notebooks).values()][0]);
  });

  it('leaves the others as they are when one comes or goes', () => {
    const [first, second] = [question(), question({ id: 'q2' })];
    const { live, view } = list([linkState({ questions: [first, second] })]);
    const kept = view.node.querySelectorAll('li')[1]!;
    kept.querySelector('button')!.focus();
    live.set([linkState({ questions: [second, question({ id: 'q3' })] })]);
    expect(view.node.querySelectorAll('li')).toHaveLength(2);
    expect(view.node.querySelector('li')).toBe(kept);
    expect(kept.contains(document.activeElement)).toBe(true);
    live.set([linkState()]);
    expect(document.activeElement).toBe(view.node.querySelector('h2'));
  });

  it('has each question once, though two notebooks show its kernel', () => {
    const one = new FakeNotebook([linkState({ questions: [question()] })], 'one');
    const other = new FakeNotebook([], 'other');
    other.links = one.links;
    expect(openQuestions([one, other]).size).toBe(1);
    other.links = [...one.links];
    expect(openQuestions([one, other]).size).toBe(2);
    other.connected = false;
    expect(openQuestions([one, other]).size).toBe(1);
  });
});

describe('the list of agents', () => {
  it('names agent, sessions and what they do', () => {
    const sessions = [
      { id: 's1', title: 'Mend the tests', status: 'idle' as const },
      { id: 's2', title: '', status: 'working' as const }
    ];
    const notebook = new FakeNotebook([linkState({ sessions, options: [mode()] })]);
    const shown = jest.fn();
    const view = new AgentList(shown);
    view.update([notebook]);
    const facts = [...view.node.querySelectorAll('dd')].map(each => each.textContent);
    expect(facts).toEqual(['1.0.0 · protocol 1', 'Mend the tests', '/work', 'ASK', 's2 · Working']);
    press(view.node, 'one.ipynb');
    expect(shown).toHaveBeenCalledWith(notebook);
    view.update([]);
    expect(view.node.textContent).toContain('No open notebook has an agent');
  });
});

describe('notices', () => {
  function notices(visible: boolean, notifications: ISettings['notifications'] = 'lab'): FakeLive {
    const live = new FakeLive([new FakeNotebook([])]);
    Object.assign(live.notebooks[0]!.panel, { isVisible: visible });
    const preferences = new Preferences();
    void preferences.set('notifications', notifications);
    watched.push(new Notices(live, preferences, () => {}));
    return live;
  }

  const watched: Notices[] = [];
  const announced = (): string => document.querySelector('[aria-live=assertive]')!.textContent;
  const shown = (): string[] => Notification.manager.notifications.map(each => each.message);

  afterEach(() => watched.splice(0).forEach(each => each.dispose()));

  it('tells of a notebook out of sight, until the question is answered', () => {
    const live = notices(false);
    live.set([linkState({ questions: [question()] })]);
    live.set([linkState({ questions: [question()] })]);
    expect(shown()).toEqual(['Demo Agent waits for you in one.ipynb: Run make']);
    expect(announced()).toBe(shown()[0]);
    live.set([linkState()]);
    expect(shown()).toEqual([]);
    expect(announced()).toBe('');
  });

  it.each([
    [true, 'lab'],
    [false, 'off']
  ] as const)('only reads out what is in sight, or not to be shown', (visible, where) => {
    notices(visible, where).set([linkState({ questions: [question()] })]);
    expect(shown()).toEqual([]);
    expect(announced()).toContain('Run make');
  });

  it('uses the browser only if the user and the browser let it, and never asks', () => {
    const [close, made, requestPermission] = [jest.fn(), jest.fn(), jest.fn()];
    class BrowserNotification {
      static permission = 'default';
      static requestPermission = requestPermission;
      close = close;
      constructor(title: string) {
        made(title);
      }
    }
    Object.assign(window, { Notification: BrowserNotification });
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
    try {
      const waiting = linkState({ questions: [question()] });
      const live = notices(true, 'browser');
      live.set([waiting]);
      live.set([]);
      expect(made).not.toHaveBeenCalled();
      BrowserNotification.permission = 'granted';
      live.set([waiting]);
      expect(made).toHaveBeenCalledWith('Demo Agent waits for you');
      live.set([]);
      expect(close).toHaveBeenCalledTimes(1);
      expect(requestPermission).not.toHaveBeenCalled();
    } finally {
      Reflect.deleteProperty(window, 'Notification');
      Reflect.deleteProperty(document, 'hidden');
    }
  });
});
