/** What an entry's HTML gets in JupyterLab: copying, diffs in two columns, locations to open. */

import type { EntryData, ILocation } from '../protocol';
import { button } from './buttons';
import { columns, readDiff, sideBySide, unified } from './diff';

/** Locations that get a button; the text of an entry names no more either. */
const MAX_LOCATIONS = 5;

/** Put each block of the body into a frame with its tools; whether one of them is a diff. */
export function addTools(body: ParentNode, hasRoom: boolean): boolean {
  let hasDiff = false;
  body.querySelectorAll('pre').forEach((block, index) => {
    const lines = readDiff(block);
    const tools = document.createElement('div');
    tools.className = 'acp-Entry-tools';
    const frame = document.createElement('div');
    frame.className = 'acp-Entry-block';
    block.replaceWith(frame);
    const wide = lines !== null && hasRoom && columns.wanted;
    frame.append(wide ? sideBySide(lines) : block, tools);
    if (lines !== null) {
      hasDiff = true;
      if (hasRoom) {
        tools.append(button('Side by side', 'columns', { index, pressed: wide }));
      }
    }
    tools.append(button('Copy', 'copy', { index }));
  });
  return hasDiff;
}

/** What is copied of a block of the body as it came. */
export function copied(body: ParentNode, index: number, entry: EntryData): string {
  const block = body.querySelectorAll('pre')[index];
  if (!block) {
    return '';
  }
  const lines = readDiff(block);
  if (lines) {
    return `${unified(lines)}\n`;
  }
  // A command alone is to be pasted into a shell; of a terminal's output, the prompt is part.
  const isCommand = entry.type === 'tool_call' && entry.kind === 'execute' && index === 0;
  const isAlone = block.firstElementChild === null;
  return isCommand && isAlone ? block.textContent.replace(/^\$ /, '') : block.textContent;
}

/** Buttons that open the files of a tool call; null if there are none. */
export function locationBar(locations: readonly ILocation[]): HTMLElement | null {
  if (!locations.length) {
    return null;
  }
  const bar = document.createElement('div');
  bar.className = 'acp-Entry-locations';
  locations.slice(0, MAX_LOCATIONS).forEach(({ path, line }, index) => {
    const shown = line === undefined ? path : `${path}:${line}`;
    const name = line === undefined ? `Open ${path}` : `Open ${path} at line ${line}`;
    bar.append(button(`↗ ${shown}`, 'open', { index, name, title: name }));
  });
  return bar;
}
