/**
 * When completion is meant, by the text alone. Pure.
 *
 * A list that opens by itself must not disturb who types prose: it does where a command or a
 * mention begins, and nowhere else: not in an address, not in `and/or`.
 */

import { promptStart, type ICellText, type Kernel } from './cell';

/** The mention, or the part of its path, that stands before the cursor. */
const MENTION = /(?:^|[\s([{])@(?:"[^"\n]*|[^\s"@]*)$/;

/** Whether a cell's text is a prompt at the cursor. */
export function isInPrompt(kernel: Kernel, cell: ICellText, cursor: number): boolean {
  const start = promptStart(kernel, cell);
  return start !== null && cursor >= start;
}

/**
 * Where that begins which a list can complete: behind the `/` of a command, the `@` of a mention,
 * or the last `/` or `:` in it, for what follows is looked up anew; `null` in plain text.
 *
 * @param cursor - counted as JavaScript does
 */
export function wordStart(kernel: Kernel, cell: ICellText, cursor: number): number | null {
  const start = promptStart(kernel, cell);
  if (start === null || cursor <= start) {
    return null;
  }
  const before = cell.source.slice(start, cursor);
  if (/^\/[^\s/]*$/.test(before)) {
    return start + 1;
  }
  const mention = MENTION.exec(before)?.[0];
  return mention === undefined ? null : cursor - (/[^@/:]*$/.exec(mention)?.[0].length ?? 0);
}
