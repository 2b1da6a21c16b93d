/**
 * When completion is meant, by the text alone. Pure.
 *
 * A list that opens by itself must not disturb who types prose: an `@` opens it where a mention
 * can begin, a `/` where a command can, and nowhere else: not in an address, not in `and/or`.
 */

import { promptStart, type ICellText, type Kernel } from './cell';

/** Whether a cell's text is a prompt at the cursor. */
export function isInPrompt(kernel: Kernel, cell: ICellText, cursor: number): boolean {
  const start = promptStart(kernel, cell);
  return start !== null && cursor >= start;
}

/**
 * Whether what was typed last opens the list.
 *
 * @param cursor - behind what was typed, counted as JavaScript does
 */
export function opensList(kernel: Kernel, cell: ICellText, cursor: number): boolean {
  const start = promptStart(kernel, cell);
  if (start === null || cursor <= start) {
    return false;
  }
  const before = cell.source.slice(start, cursor);
  return before === '/' || /(?:^|[\s([{])@$/.test(before);
}
