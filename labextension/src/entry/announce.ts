/**
 * One polite live region for all entries of the page.
 *
 * A screen reader hears how a tool call ended and how a question was answered, once, and nothing
 * of the updates between.
 */

/** Announcements that stay in the region; what went before was read. */
const KEPT = 3;

/** Entries whose end was announced that are remembered. */
const REMEMBERED = 2_000;

const announced = new Set<string>();

function region(): HTMLElement {
  const found = document.querySelector<HTMLElement>('body > .acp-Entry-announcements');
  if (found) {
    return found;
  }
  const made = document.createElement('div');
  made.className = 'acp-Entry-announcements';
  made.setAttribute('role', 'log');
  made.setAttribute('aria-live', 'polite');
  made.setAttribute('aria-label', 'Coding agents');
  document.body.append(made);
  return made;
}

/** Have a text read when the user is idle. */
export function announce(text: string): void {
  const line = document.createElement('div');
  line.textContent = text;
  const shown = region();
  shown.append(line);
  while (shown.childElementCount > KEPT) {
    shown.firstElementChild?.remove();
  }
}

/** `announce` the end of an entry, unless that was done. */
export function announceOnce(id: string, text: string): void {
  if (announced.has(id)) {
    return;
  }
  announced.add(id);
  for (const oldest of announced) {
    if (announced.size <= REMEMBERED) {
      break;
    }
    announced.delete(oldest);
  }
  announce(text);
}
