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

/**
 * Make the files that a tool call's summary names buttons that open them.
 *
 * What is outside of the server's folder is named only, and stays text. A file that the summary
 * does not name, as that of a diff, is added to it.
 */
export function linkLocations(body: ParentNode, locations: readonly ILocation[]): void {
  const summary = body.querySelector('summary') ?? body.firstElementChild;
  if (summary === null || !locations.length) {
    return;
  }
  const last = summary.lastElementChild;
  const named = last?.textContent.startsWith(SEPARATOR) ? last : null;
  const open = locations.slice(0, MAX_LOCATIONS).map((location, index) => ({ location, index }));
  const nodes = (named?.textContent.slice(SEPARATOR.length).split(', ') ?? []).map(shown => {
    const found = open.findIndex(({ location }) => isSame(shown, labelOf(location)));
    const taken = found < 0 ? undefined : open.splice(found, 1)[0];
    return taken === undefined ? shown : opener(taken.location, taken.index, shown);
  });
  nodes.push(...open.map(({ location, index }) => opener(location, index, labelOf(location))));
  const places = document.createElement('span');
  places.className = 'acp-Entry-locations';
  nodes.forEach((node, index) => places.append(index === 0 ? SEPARATOR : ', ', node));
  named?.remove();
  summary.append(places);
}

/** What stands before the files in the HTML of a tool call. */
const SEPARATOR = ' · ';

/** Whether two paths with lines mean the same, seen from different folders. */
function isSame(shown: string, label: string): boolean {
  return shown === label || shown.endsWith(`/${label}`) || label.endsWith(`/${shown}`);
}

function labelOf({ path, line }: ILocation): string {
  return line === undefined ? path : `${path}:${line}`;
}

function opener({ path, line }: ILocation, index: number, label: string): HTMLElement {
  const name = line === undefined ? `Open ${path}` : `Open ${path} at line ${line}`;
  return button(label, 'open', { index, name, title: name });
}
