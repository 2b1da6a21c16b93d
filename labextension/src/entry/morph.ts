/**
 * Make a tree of elements equal to another one by the smallest changes.
 *
 * Nodes stay where both trees have the same, so that what belongs to the user stays too: the text
 * selected, the focus, where a block is scrolled to (one that was at its end stays at its end),
 * and which parts were opened or closed by hand.
 */

/** What is set on the nodes of the page while they are in use. */
const KEPT = new Set(['data-lm-suppress-shortcuts']);

/** Pixels from the end of a block at which it counts as being there. */
const AT_END = 4;

/** How each part was rendered last; where it differs from what is shown, the user did it. */
const rendered = new WeakMap<HTMLDetailsElement, boolean>();
const byHand = new WeakSet<HTMLDetailsElement>();

function adopted(node: Node): Node {
  if (node instanceof HTMLDetailsElement) {
    rendered.set(node, node.open);
  }
  if (node instanceof Element) {
    node.querySelectorAll('details').forEach(part => rendered.set(part, part.open));
  }
  return node;
}

/** Let the children of `shown` be what those of `fresh` are; `fresh` is used up. */
export function morph(shown: Element, fresh: Element): void {
  const old = [...shown.childNodes];
  const made = [...fresh.childNodes];
  let start = 0;
  while (
    start < old.length &&
    start < made.length &&
    old[start]?.isEqualNode(made[start] ?? null)
  ) {
    start += 1;
  }
  let oldEnd = old.length;
  let madeEnd = made.length;
  while (
    oldEnd > start &&
    madeEnd > start &&
    old[oldEnd - 1]?.isEqualNode(made[madeEnd - 1] ?? null)
  ) {
    oldEnd -= 1;
    madeEnd -= 1;
  }
  pair(shown, old.slice(start, oldEnd), made.slice(start, madeEnd), old[oldEnd] ?? null);
}

/** Bring the children between equal ones together, in their order. */
function pair(shown: Element, old: ChildNode[], made: ChildNode[], end: ChildNode | null): void {
  let at = 0;
  made.forEach((fresh, index) => {
    while (old.length - at > made.length - index && !areAlike(old[at], fresh)) {
      old[at]?.remove();
      at += 1;
    }
    const current = old[at];
    if (current !== undefined && areAlike(current, fresh)) {
      change(current, fresh);
      at += 1;
    } else {
      shown.insertBefore(adopted(fresh), current ?? end);
    }
  });
  old.slice(at).forEach(node => node.remove());
}

function areAlike(old: ChildNode | undefined, fresh: ChildNode): boolean {
  return old?.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function keyOf(node: ChildNode): string | undefined {
  return node instanceof HTMLElement ? node.dataset.acpKey : undefined;
}

function change(old: ChildNode, fresh: ChildNode): void {
  if (old instanceof CharacterData && fresh instanceof CharacterData) {
    changeText(old, fresh.data);
  } else if (old instanceof Element && fresh instanceof Element && !old.isEqualNode(fresh)) {
    const settle = old instanceof HTMLPreElement ? keepScroll(old, fresh) : null;
    changeAttributes(old, fresh);
    morph(old, fresh);
    settle?.();
  }
}

/** Replace what differs only: a selection in the rest of the text stays. */
function changeText(old: CharacterData, text: string): void {
  const shorter = Math.min(old.length, text.length);
  let start = 0;
  while (start < shorter && old.data.charCodeAt(start) === text.charCodeAt(start)) {
    start += 1;
  }
  let end = 0;
  while (
    end < shorter - start &&
    old.data.charCodeAt(old.length - 1 - end) === text.charCodeAt(text.length - 1 - end)
  ) {
    end += 1;
  }
  if (start + end < old.length || start + end < text.length) {
    old.replaceData(start, old.length - start - end, text.slice(start, text.length - end));
  }
}

function changeAttributes(old: Element, fresh: Element): void {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !KEPT.has(name) && name !== 'open') {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && name !== 'open') {
      old.setAttribute(name, value);
    }
  }
  if (old instanceof HTMLDetailsElement && fresh instanceof HTMLDetailsElement) {
    changeOpen(old, fresh.open);
  }
}

function changeOpen(old: HTMLDetailsElement, open: boolean): void {
  if (old.open !== rendered.get(old)) {
    byHand.add(old);
  }
  if (!byHand.has(old)) {
    old.open = open;
    rendered.set(old, open);
  }
}

/** Where a block is scrolled to; what is returned goes there again when it has changed. */
function keepScroll(old: HTMLPreElement, fresh: Element): () => void {
  const { scrollTop, scrollLeft, scrollHeight, clientHeight } = old;
  const scrolls = scrollHeight > clientHeight;
  const grows = old.textContent !== '' && fresh.textContent.startsWith(old.textContent);
  const atEnd = scrolls ? scrollTop + clientHeight >= scrollHeight - AT_END : grows;
  return () => {
    const top = atEnd ? old.scrollHeight : scrollTop;
    if (old.scrollTop !== top) {
      old.scrollTop = top;
    }
    if (old.scrollLeft !== scrollLeft) {
      old.scrollLeft = scrollLeft;
    }
  };
}
