/** Bringing a cell into the user's sight. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';

/** Show the notebook, and the end of this cell: there a question stands. */
export async function revealCell(
  app: JupyterFrontEnd,
  panel: NotebookPanel,
  id: string
): Promise<void> {
  if (panel.isDisposed) {
    return;
  }
  app.shell.activateById(panel.id);
  const cell = panel.content.widgets.find(widget => widget.model.id === id);
  if (cell === undefined) {
    return;
  }
  await panel.content.scrollToCell(cell);
  const outputs = cell.node.querySelectorAll('.jp-OutputArea-child');
  outputs[outputs.length - 1]?.scrollIntoView({ block: 'nearest' });
}
