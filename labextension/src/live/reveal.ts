/** Bringing a question into the user's sight. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { IOpenQuestion } from './questions';

/** Shows the questions that are in no cell. */
export const SHOW_PANEL = 'acp:show-agents';

/** Where a question waits for a click or a line: not what our entries have to copy and open. */
const ANSWERS = '.jupyter-widgets button:not([disabled]), .jp-Stdin-input';

/** The output of a cell in which a question can be answered; `null` if there is none, yet. */
export function questionIn(cell: Element): HTMLElement | null {
  const outputs = [...cell.querySelectorAll<HTMLElement>('.jp-OutputArea-child')];
  return outputs.reverse().find(output => output.querySelector(ANSWERS) !== null) ?? null;
}

/**
 * Bring a question into view, and the focus before its buttons: not on one, so that a key that is
 * pressed once too often answers nothing. A question that is in no cell is in the panel.
 */
export async function showQuestion(
  app: JupyterFrontEnd,
  { notebook, question }: Pick<IOpenQuestion, 'notebook' | 'question'>
): Promise<void> {
  const { panel } = notebook;
  if (panel.isDisposed) {
    return;
  }
  app.shell.activateById(panel.id);
  const index = panel.content.widgets.findIndex(cell => cell.model.id === question.cell);
  const cell = panel.content.widgets[index];
  if (cell !== undefined) {
    panel.content.activeCellIndex = index;
    await panel.content.scrollToCell(cell);
    const place = questionIn(cell.node);
    if (place !== null) {
      place.tabIndex = -1;
      place.focus({ preventScroll: true });
      scrollToEnd(panel, place);
      return;
    }
  }
  await app.commands.execute(SHOW_PANEL);
}

/** As little as shows all of it; of what is higher than the page, its end, where the buttons are. */
function scrollToEnd(panel: NotebookPanel, place: HTMLElement): void {
  const isHigh = place.offsetHeight > panel.content.outerNode.clientHeight;
  place.scrollIntoView({ block: isHigh ? 'end' : 'nearest' });
}

/**
 * Scroll down to a question that came up below the page, in a cell that is seen in part.
 *
 * @returns whether that was called for.
 */
export function followTo(panel: NotebookPanel, cell: Element, place: HTMLElement): boolean {
  const page = panel.content.outerNode.getBoundingClientRect();
  const whole = cell.getBoundingClientRect();
  const isSeen = whole.top < page.bottom && whole.bottom > page.top;
  if (!isSeen || place.getBoundingClientRect().bottom <= page.bottom) {
    return false;
  }
  scrollToEnd(panel, place);
  return true;
}
