/**
 * Proposed cells: their code, and what can be done with them.
 *
 * What would be inserted is shown as it is: wrapped, so that nothing stands beyond the right edge,
 * with characters that deceive made visible, and to be unfolded where it is long. It can be run
 * only when all of it was shown.
 */

import { visible } from '../characters';
import type { ICellsData, IProposedCell } from '../protocol';
import { button } from './buttons';

/** Lines that are shown of a longer cell until it is unfolded. */
const PREVIEW_LINES = 12;

/** Characters of lines without end, which would fill the page. */
const PREVIEW_CHARACTERS = 2_000;

const NAMES = new Map([
  ['python', 'Python'],
  ['bash', 'Shell'],
  ['markdown', 'Markdown']
]);

/** What the view knows beside the data. */
export interface IProposalsView {
  states: ReadonlyMap<number, IProposedCell['state']>;
  unfolded: ReadonlySet<number>;
  /** Why a cell of a language cannot be inserted; empty if it can. */
  whyNot: (language: string) => string;
}

export function stateOf(cell: IProposedCell, index: number, { states }: IProposalsView) {
  return states.get(index) ?? cell.state;
}

/** The cells that `Insert all` takes. */
export function insertable(entry: ICellsData, view: IProposalsView): number[] {
  return [...entry.cells.entries()]
    .filter(([index, cell]) => stateOf(cell, index, view) === 'proposed')
    .filter(([, cell]) => view.whyNot(cell.language) === '')
    .map(([index]) => index);
}

/** The view of an entry; `body` is its HTML, of which colours and a note at the end are taken. */
export function proposals(entry: ICellsData, view: IProposalsView, body: ParentNode): HTMLElement {
  const made = document.createElement('div');
  made.className = 'acp-Entry-cells mathjax_ignore tex2jax_ignore';
  made.append(head(entry, view));
  const colored = [...body.querySelectorAll('.highlight > pre')];
  entry.cells.forEach((cell, index) => {
    if (stateOf(cell, index, view) !== 'dismissed') {
      made.append(proposal(cell, index, entry.cells.length, view, colored[index]));
    }
  });
  const note = body.querySelector(':scope > div > details ~ div')?.textContent;
  if (note) {
    made.append(line(note, 'acp-Entry-note'));
  }
  return made;
}

function line(text: string, className: string): HTMLElement {
  const made = document.createElement('div');
  made.className = className;
  made.textContent = text;
  return made;
}

function head(entry: ICellsData, view: IProposalsView): HTMLElement {
  const states = entry.cells.map((cell, index) => stateOf(cell, index, view));
  const dismissed = states.filter(state => state === 'dismissed').length;
  const count = `${states.length} proposed ${states.length === 1 ? 'cell' : 'cells'}`;
  const made = line('', 'acp-Entry-head');
  const title = document.createElement('b');
  title.textContent = dismissed ? `${count}, ${dismissed} dismissed` : count;
  made.append(title);
  if (entry.cells.length - dismissed > 1) {
    const none = insertable(entry, view).length === 0;
    const disabled = none ? 'There is none left that can be inserted here.' : '';
    made.append(button('Insert all', 'insert-all', { disabled }));
  }
  return made;
}

function proposal(
  cell: IProposedCell,
  index: number,
  count: number,
  view: IProposalsView,
  colored: Element | undefined
): HTMLElement {
  const state = stateOf(cell, index, view);
  const language = NAMES.get(cell.language) ?? cell.language;
  const of = `proposed cell ${index + 1} of ${count}`;
  const made = line('', 'acp-Entry-cell');
  made.dataset.acpKey = `cell ${index}`;
  made.dataset.acpState = state;
  made.setAttribute('role', 'group');
  made.setAttribute('aria-label', `${of}, ${language}, ${state}`);
  const about = line(language, 'acp-Entry-about');
  if (state !== 'proposed') {
    const done = document.createElement('span');
    done.className = 'acp-Entry-state';
    done.textContent = ` ✓ ${state}`;
    about.append(done);
  }
  made.append(about, ...code(cell, index, view, colored), actions(cell, index, view, of));
  return made;
}

function isLong(source: string): boolean {
  return (
    source.length > PREVIEW_CHARACTERS ||
    source.split('\n', PREVIEW_LINES + 1).length > PREVIEW_LINES
  );
}

function code(
  cell: IProposedCell,
  index: number,
  { unfolded }: IProposalsView,
  colored: Element | undefined
): HTMLElement[] {
  const source = visible(cell.source);
  const long = isLong(source);
  const block = document.createElement('pre');
  block.className = 'acp-Entry-source';
  if (long && !unfolded.has(index)) {
    const start = source.split('\n', PREVIEW_LINES).join('\n').slice(0, PREVIEW_CHARACTERS);
    block.append(`${start}\n…`);
  } else if (colored && isOnlyColored(colored, source)) {
    block.append(...[...colored.childNodes].map(node => node.cloneNode(true)));
  } else {
    block.append(source);
  }
  const frame = line('', 'acp-Entry-block highlight');
  const tools = line('', 'acp-Entry-tools');
  tools.append(button('Copy', 'copy', { index }));
  frame.append(block, tools);
  if (!long) {
    return [frame];
  }
  const expanded = unfolded.has(index);
  const label = expanded ? 'Show less' : `Show all ${source.split('\n').length} lines`;
  return [frame, button(label, 'more', { index, expanded })];
}

/** Whether an element shows this text, all of it, and adds nothing but colours of the theme. */
function isOnlyColored(element: Element, text: string): boolean {
  const shown = element.textContent.replace(/\n$/, '');
  return shown === text.replace(/\n$/, '') && !element.querySelector('[style], :not(span)');
}

function actions(
  cell: IProposedCell,
  index: number,
  view: IProposalsView,
  of: string
): HTMLElement {
  const disabled = view.whyNot(cell.language);
  const hidden = isLong(visible(cell.source)) && !view.unfolded.has(index);
  const unread = hidden ? 'Show all of it before you run it.' : '';
  const made = line('', 'acp-Entry-actions');
  made.append(
    button('Insert below', 'insert', { index, disabled, name: `Insert ${of} below` }),
    button('Run', 'run', {
      index,
      disabled: disabled || unread,
      name: `Run ${of}`,
      title: 'Insert below and run'
    }),
    button('Dismiss', 'dismiss', { index, name: `Dismiss ${of}` })
  );
  return made;
}
