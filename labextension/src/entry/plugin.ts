/** The renderer of entries, and the command that makes cells of what they propose. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISessionContextDialogs } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { ENTRY_MIME } from '../protocol';
import { ILive } from '../tokens';
import { addInsertCells } from './cells';
import { RenderedEntry } from './renderer';

/** Before `text/html` (50), after what a widget is shown by (0). */
const RANK = 40;

const renderer: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:entry',
  description: 'Shows what coding agents do, in the outputs of notebooks.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [INotebookTracker, ILive],
  activate: (
    { commands }: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    notebooks: INotebookTracker | null,
    live: ILive | null
  ) => {
    rendermime.addFactory(
      {
        safe: true,
        mimeTypes: [ENTRY_MIME],
        createRenderer: options => new RenderedEntry(options, { commands, notebooks, live })
      },
      RANK
    );
  }
};

const cells: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:cells',
  description: 'Inserts cells that coding agents propose.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ISessionContextDialogs],
  activate: (
    { commands }: JupyterFrontEnd,
    notebooks: INotebookTracker,
    dialogs: ISessionContextDialogs | null
  ) => {
    addInsertCells(commands, notebooks, dialogs);
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [renderer, cells];
