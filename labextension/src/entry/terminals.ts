/** The controls of commands that run: stop them, look at them in a terminal. */

import type { ILinkState, ITerminal } from '../protocol';
import { button } from './buttons';

/** Which of these terminals run, as the kernel says now: an output may have been saved earlier. */
export function runningIn(links: readonly ILinkState[], ids: readonly string[]): ITerminal[] {
  return links.flatMap(({ terminals }) => terminals ?? []).filter(({ id }) => ids.includes(id));
}

/** Put the controls below the body. */
export function addControls(
  body: ParentNode,
  running: readonly ITerminal[],
  canOpen: boolean
): void {
  running.forEach(({ command }, index) => {
    const made = document.createElement('div');
    made.className = 'acp-Entry-actions';
    made.dataset.acpKey = `terminal ${index}`;
    made.setAttribute('role', 'group');
    made.setAttribute('aria-label', `Running: ${command}`);
    const title = `End ${command} and all that it started`;
    made.append(button('Stop', 'stop', { index, name: `Stop ${command}`, title }));
    if (canOpen) {
      const name = `Open in a terminal: ${command}`;
      const live = 'Show the output live in a terminal';
      made.append(button('Open in a terminal', 'attach', { index, name, title: live }));
    }
    body.append(made);
  });
}
