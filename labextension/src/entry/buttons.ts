/**
 * The buttons of our entries. The HTML of an entry can hold none, so each button is one of ours;
 * what it does is an action that the entry's widget knows.
 */

export type Action =
  | 'copy'
  | 'columns'
  | 'open'
  | 'stop'
  | 'attach'
  | 'insert'
  | 'run'
  | 'dismiss'
  | 'more'
  | 'insert-all';

/** Labels name files and languages: no mathematics, whatever they are called. */
const NO_MATH = 'mathjax_ignore tex2jax_ignore';

interface IButtonOptions {
  /** What screen readers say, where the label is short for the eyes. */
  name?: string;
  title?: string;
  /** Which of its kind in the entry. */
  index?: number;
  /** Why it cannot be used. */
  disabled?: string;
  pressed?: boolean;
  expanded?: boolean;
}

export function button(label: string, action: Action, options: IButtonOptions = {}) {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = `acp-Entry-button ${NO_MATH}`;
  made.textContent = label;
  made.dataset.acpAction = action;
  made.dataset.acpKey = `${action} ${options.index ?? ''}`;
  if (options.index !== undefined) {
    made.dataset.acpIndex = String(options.index);
  }
  if (options.name !== undefined) {
    made.setAttribute('aria-label', options.name);
  }
  if (options.pressed !== undefined) {
    made.setAttribute('aria-pressed', String(options.pressed));
  }
  if (options.expanded !== undefined) {
    made.setAttribute('aria-expanded', String(options.expanded));
  }
  const title = [options.disabled, options.title].find(Boolean);
  if (title !== undefined) {
    made.title = title;
  }
  made.disabled = Boolean(options.disabled);
  return made;
}

/** What the click on an entry asks for. */
export function actionOf(event: Event): { action: Action; index: number } | null {
  const target = event.target instanceof Element ? event.target : null;
  const found = target?.closest<HTMLButtonElement>('button[data-acp-action]');
  if (!found || found.disabled) {
    return null;
  }
  return { action: found.dataset.acpAction as Action, index: Number(found.dataset.acpIndex ?? 0) };
}
