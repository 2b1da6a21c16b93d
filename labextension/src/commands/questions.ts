/** Finds the question that waits longest for the user, and takes them to it. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';

import type { IQuestion } from '../protocol';
import { revealCell } from '../live/reveal';
import type { ILive, ILiveNotebook } from '../tokens';

const SHOW_PANEL = 'acp:show-agents';

interface IOpenQuestion {
  readonly notebook: ILiveNotebook;
  readonly question: IQuestion;
}

/** The first open question of the current notebook, else of any other. */
export function nextQuestion(live: ILive, tracker: INotebookTracker): IOpenQuestion | null {
  const current = live.of(tracker.currentWidget);
  const others = live.notebooks.filter(each => each !== current);
  for (const notebook of current === undefined ? others : [current, ...others]) {
    const question = notebook.links.flatMap(link => link.questions)[0];
    if (question !== undefined) {
      return { notebook, question };
    }
  }
  return null;
}

/**
 * Bring its cell into view, and the focus before its buttons: not on one, so that a key that is
 * pressed once too often answers nothing. A question that is in no cell is in the panel.
 */
export async function showQuestion(app: JupyterFrontEnd, open: IOpenQuestion): Promise<void> {
  const { panel } = open.notebook;
  await revealCell(app, panel, open.question.cell);
  const notebook = panel.content;
  const index = notebook.widgets.findIndex(cell => cell.model.id === open.question.cell);
  const outputs = notebook.widgets[index]?.node.querySelectorAll('.jp-OutputArea-child') ?? [];
  const place = [...outputs].find(output => output.querySelector('button:not([disabled])'));
  if (!(place instanceof HTMLElement)) {
    await app.commands.execute(SHOW_PANEL);
    return;
  }
  notebook.activeCellIndex = index;
  place.tabIndex = -1;
  place.focus();
  place.scrollIntoView({ block: 'nearest' });
}
