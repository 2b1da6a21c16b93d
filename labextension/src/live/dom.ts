/** Elements of a page. What an agent says becomes text, never markup. */

interface IAttributes {
  class?: string;
  text?: string;
  title?: string;
  /** Other attributes, by name. */
  [name: string]: string | undefined;
}

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: IAttributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined) {
      continue;
    }
    if (name === 'text') {
      node.textContent = value;
    } else {
      node.setAttribute(name, value);
    }
  }
  node.append(...children);
  return node;
}

export function button(
  text: string,
  onClick: () => unknown,
  attributes: IAttributes = {}
): HTMLButtonElement {
  const node = element('button', { type: 'button', text, ...attributes });
  node.addEventListener('click', () => void onClick());
  return node;
}

/** A checkbox with its label around it. */
export function checkbox(
  text: string,
  onChange: (checked: boolean) => unknown
): { node: HTMLLabelElement; input: HTMLInputElement } {
  const input = element('input', { type: 'checkbox' });
  input.addEventListener('change', () => void onChange(input.checked));
  return {
    node: element('label', { class: 'acp-Check' }, input, element('span', { text })),
    input
  };
}

/** Set a text, unless it is there: what is read out or selected is not disturbed. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** Nodes for what is in a list, kept for as long as it is there, in its order. */
export class KeyedNodes<T, V extends { readonly node: HTMLElement }> {
  private _views = new Map<string, V>();

  constructor(
    private readonly _parent: HTMLElement,
    private readonly _make: (item: T) => V,
    private readonly _update: (view: V, item: T) => void
  ) {}

  get views(): V[] {
    return [...this._views.values()];
  }

  set(items: ReadonlyMap<string, T>): void {
    for (const [key, view] of this._views) {
      if (!items.has(key)) {
        view.node.remove();
        this._views.delete(key);
      }
    }
    let before: Element | null = null;
    for (const [key, item] of items) {
      let view = this._views.get(key);
      if (view === undefined) {
        view = this._make(item);
        this._views.set(key, view);
      }
      this._update(view, item);
      const next: Element | null =
        before === null ? this._parent.firstElementChild : before.nextElementSibling;
      if (next !== view.node) {
        this._parent.insertBefore(view.node, next); // A node that is moved loses the focus.
      }
      before = view.node;
    }
  }
}
