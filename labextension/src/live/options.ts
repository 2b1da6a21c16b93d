/**
 * The popup of the status: mode, model and whatever else can be set, for each agent of a notebook.
 *
 * Controls stay as they are while their options do, so that an update does not take the focus.
 */

import type { IDisposable } from '@lumino/disposable';

import type { ILinkState, IOption } from '../protocol';
import type { ILiveNotebook } from '../tokens';
import { ask } from './ask';
import { linkName, statusWords } from './describe';
import { button, checkbox, element, KeyedNodes, setText } from './dom';

/** In this order; others follow as the agent has them. */
const FIRST = ['mode', 'model', 'thought_level'];

export class OptionControls {
  readonly node = element('div', { class: 'acp-Options' });

  private _shape = '';
  private _setters: ((option: IOption) => void)[] = [];

  constructor(
    private readonly _notebook: ILiveNotebook,
    private readonly _link: string
  ) {}

  update(options: readonly IOption[]): void {
    const sorted = [...options].sort((one, other) => order(one) - order(other));
    const shape = JSON.stringify(sorted.map(option => ({ ...option, value: null })));
    if (shape !== this._shape) {
      this._shape = shape;
      this._setters = [];
      this.node.replaceChildren(...sorted.map(option => this._control(option)));
    }
    sorted.forEach((option, index) => this._setters[index]?.(option));
  }

  private _control(option: IOption): HTMLElement {
    return option.kind === 'boolean' ? this._checkbox(option) : this._select(option);
  }

  private _checkbox(option: IOption): HTMLElement {
    const { node, input } = checkbox(option.name, checked =>
      this._set(option.id, checked, () => (input.checked = !checked))
    );
    node.title = option.description;
    this._setters.push(({ value }) => (input.checked = value === true));
    return node;
  }

  private _select(option: IOption): HTMLElement {
    const select = element('select', {
      class: 'acp-Field',
      title: option.description,
      'aria-label': option.name
    });
    const groups = new Map<string, HTMLElement>();
    for (const { value, name, description, group } of option.values) {
      const parent = group === '' ? select : (groups.get(group) ?? optionGroup(group));
      if (parent !== select && !groups.has(group)) {
        groups.set(group, parent);
        select.append(parent);
      }
      parent.append(element('option', { value, text: name, title: description }));
    }
    let current = option.value;
    select.addEventListener('change', () => {
      const before = String(current);
      void this._set(option.id, select.value, () => (select.value = before));
    });
    this._setters.push(({ value }) => {
      current = value;
      select.value = String(value);
    });
    return element(
      'label',
      { class: 'acp-Option' },
      element('span', { text: option.name }),
      select
    );
  }

  private async _set(option: string, value: string | boolean, undo: () => void): Promise<void> {
    if (!(await ask(this._notebook, { type: 'set', link: this._link, option, value }))) {
      undo();
    }
  }
}

function order(option: IOption): number {
  const index = FIRST.indexOf(option.category);
  return index < 0 ? FIRST.length : index;
}

function optionGroup(label: string): HTMLElement {
  return element('optgroup', { label });
}

class LinkControls {
  readonly node = element('section', { class: 'acp-Popup-link' });

  private _cancel: HTMLButtonElement;
  private _heading = element('h2');
  private _none = element('p', { text: 'This agent has no options.' });
  private _options: OptionControls;
  private _status = element('p', { class: 'acp-Popup-status' });

  constructor(notebook: ILiveNotebook, link: string) {
    this._options = new OptionControls(notebook, link);
    this._cancel = button('Cancel turn', () => ask(notebook, { type: 'cancel', link }), {
      class: 'acp-Button'
    });
    this.node.append(this._heading, this._status, this._options.node, this._none, this._cancel);
  }

  update(link: ILinkState): void {
    setText(this._heading, linkName(link));
    const title = link.session?.title ?? '';
    setText(this._status, [statusWords(link.status), title].filter(Boolean).join(' · '));
    this._options.update(link.options);
    this._none.hidden = link.options.length > 0;
    this._cancel.hidden = !['working', 'waiting'].includes(link.status);
  }
}

/** Open until the user leaves it, or presses Escape. */
export class OptionsPopup implements IDisposable {
  readonly node = element('div', {
    class: 'acp-Popup',
    role: 'dialog',
    tabindex: '-1',
    'aria-label': 'Agents of this notebook'
  });

  private _links: KeyedNodes<ILinkState, LinkControls>;
  private _isDisposed = false;

  /**
   * @param anchor - the control that it belongs to.
   * @param onClosed - called once, with whether it was by a key: then the focus goes back.
   */
  constructor(
    private readonly _notebook: ILiveNotebook,
    private readonly _anchor: HTMLElement,
    openPanel: () => void,
    private readonly _onClosed: (byKey: boolean) => void
  ) {
    const links = element('div');
    this._links = new KeyedNodes(
      links,
      link => new LinkControls(_notebook, link.key),
      (view, link) => view.update(link)
    );
    const panel = button('Open the Agents panel', openPanel, { class: 'acp-Button' });
    panel.addEventListener('click', () => this.dispose());
    this.node.append(links, panel);
    this._update();
    document.body.append(this.node);
    this._place();
    this.node.addEventListener('keydown', this._onKey);
    document.addEventListener('pointerdown', this._onPointer, true);
    this.node.addEventListener('focusout', this._onFocusOut);
    _notebook.changed.connect(this._update);
    (this.node.querySelector<HTMLElement>('select, input') ?? panel).focus();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._close(false);
  }

  private _close(byKey: boolean): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._notebook.changed.disconnect(this._update);
    document.removeEventListener('pointerdown', this._onPointer, true);
    this.node.remove();
    this._onClosed(byKey);
  }

  private _update = (): void => {
    this._links.set(new Map(this._notebook.links.map(link => [link.key, link])));
  };

  /** Above the anchor where there is room, below it elsewhere. */
  private _place(): void {
    const anchor = this._anchor.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = this.node;
    const left = Math.min(anchor.left, window.innerWidth - offsetWidth - 4);
    const above = anchor.top - offsetHeight - 4;
    this.node.style.left = `${Math.max(4, left)}px`;
    this.node.style.top = `${above >= 4 ? above : anchor.bottom + 4}px`;
  }

  private _onKey = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      this._close(true);
    }
  };

  private _onPointer = (event: Event): void => {
    const target = event.target as Node;
    // The anchor closes it by itself.
    if (!this.node.contains(target) && !this._anchor.contains(target)) {
      this.dispose();
    }
  };

  private _onFocusOut = (event: FocusEvent): void => {
    const next = event.relatedTarget;
    // Without a next one the window has lost the focus, or a control has been taken away.
    if (next instanceof Node && !this.node.contains(next) && !this._anchor.contains(next)) {
      this.dispose();
    }
  };
}
