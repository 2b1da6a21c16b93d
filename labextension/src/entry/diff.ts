/**
 * Unified diffs, as they stand in the HTML of an entry, and the same in two columns.
 *
 * A diff is known by its lines: two numbers (or one, of an added or a removed line), a sign, and
 * the text. Numbers have to count up; what does not fit is shown as it is.
 */

import { Signal } from '@lumino/signaling';

/** A line, or what stands for lines that are left out (`⋯`, without numbers). */
export interface IDiffLine {
  sign: ' ' | '+' | '-' | '⋯';
  old: string;
  new: string;
  text: string;
}

/** Digits that a number of a line may have. */
const MAX_WIDTH = 7;

/** Lines up to which two columns are offered; four cells for each take their time. */
const MAX_LINES = 2_000;

/** Whether diffs stand in two columns where there is room: for this session of the page. */
class Columns {
  readonly changed = new Signal<this, void>(this);
  private _wanted = false;

  get wanted(): boolean {
    return this._wanted;
  }

  toggle(): void {
    this._wanted = !this._wanted;
    this.changed.emit();
  }
}

export const columns = new Columns();

/** The lines of a diff, or null if the block is none. */
export function readDiff(block: Element): IDiffLine[] | null {
  const colored = [...block.children].some(part => (part as HTMLElement).style.display === 'block');
  const lines = block.textContent.replace(/\n$/, '').split('\n');
  if (!colored || lines.length > MAX_LINES) {
    return null;
  }
  for (let width = 1; width <= MAX_WIDTH; width += 1) {
    const read = lines.map(line => readLine(line, width));
    if (read.every(line => line !== null) && counts(read)) {
      return read;
    }
  }
  return null;
}

function readLine(line: string, width: number): IDiffLine | null {
  const gap = /^ *⋯ {2}(.*)$/.exec(line);
  if (gap) {
    return { sign: '⋯', old: '', new: '', text: gap[1] ?? '' };
  }
  const found = new RegExp(`^([ \\d]{${width}}) ([ \\d]{${width}}) ([-+ ]) (.*)$`, 's').exec(line);
  if (!found) {
    return null;
  }
  const [, left = '', right = '', sign = ' ', text = ''] = found;
  return { sign: sign as ' ' | '+' | '-', old: left.trim(), new: right.trim(), text };
}

/** Whether each line has the numbers that its sign asks for, one after the other. */
function counts(lines: IDiffLine[]): boolean {
  let [old, fresh] = [0, 0];
  return lines.every(line => {
    if (line.sign === '⋯') {
      return true;
    }
    const fits =
      (line.old === '') === (line.sign === '+') &&
      (line.new === '') === (line.sign === '-') &&
      (line.old === '' || Number(line.old) > old) &&
      (line.new === '' || Number(line.new) > fresh);
    old = Number(line.old) || old;
    fresh = Number(line.new) || fresh;
    return fits;
  });
}

/** A diff without numbers, to be copied. */
export function unified(lines: readonly IDiffLine[]): string {
  return lines.map(({ sign, text }) => (sign === '⋯' ? `⋯ ${text}` : `${sign}${text}`)).join('\n');
}

/** A table with the old text on the left and the new one on the right. */
export function sideBySide(lines: readonly IDiffLine[]): HTMLTableElement {
  const table = document.createElement('table');
  table.className = 'acp-Entry-columns';
  table.setAttribute('aria-label', 'Changes, old and new side by side');
  const body = table.createTBody();
  let at = 0;
  while (at < lines.length) {
    const changed = lines.slice(at, endOfChange(lines, at));
    if (changed.length) {
      addChange(body, changed);
      at += changed.length;
    } else {
      addSame(body, lines[at]);
      at += 1;
    }
  }
  return table;
}

function endOfChange(lines: readonly IDiffLine[], start: number): number {
  let end = start;
  while (lines[end]?.sign === '-') {
    end += 1;
  }
  while (lines[end]?.sign === '+') {
    end += 1;
  }
  return end;
}

function addSame(body: HTMLTableSectionElement, line: IDiffLine | undefined): void {
  const row = body.insertRow();
  if (line?.sign === '⋯') {
    row.className = 'acp-Entry-gap';
    const cell = row.insertCell();
    cell.colSpan = 4;
    cell.textContent = `⋯ ${line.text}`;
    return;
  }
  addSide(row, line?.old, line?.text, '');
  addSide(row, line?.new, line?.text, '');
}

function addChange(body: HTMLTableSectionElement, changed: readonly IDiffLine[]): void {
  const removed = changed.filter(line => line.sign === '-');
  const added = changed.filter(line => line.sign === '+');
  for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
    const row = body.insertRow();
    addSide(row, removed[index]?.old, removed[index]?.text, 'acp-Entry-removed');
    addSide(row, added[index]?.new, added[index]?.text, 'acp-Entry-added');
  }
}

function addSide(
  row: HTMLTableRowElement,
  number: string | undefined,
  text: string | undefined,
  kind: string
): void {
  const numbered = row.insertCell();
  numbered.className = 'acp-Entry-number';
  numbered.textContent = number ?? '';
  const cell = row.insertCell();
  cell.className = text === undefined ? 'acp-Entry-nothing' : kind;
  cell.textContent = text ?? '';
}
