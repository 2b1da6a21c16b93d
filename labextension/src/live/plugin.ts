/** The live side of the extension, in parts that can be switched off one by one. */

import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';

import { ILive } from '../tokens';
import { Documents } from './documents';
import { Follower } from './follow';
import { Live } from './notebooks';
import { Notices } from './notices';
import { OPEN_COMMAND, Opener } from './open';
import { AgentsPanel } from './panel';
import type { IOpenQuestion } from './questions';
import { SHOW_PANEL, showQuestion } from './reveal';
import { QuestionScroller } from './scroll';
import { IPreferences, Preferences, SETTINGS_ID } from './settings';
import { StatusItem } from './status';
import { addOpenTerminal } from './terminals';

const CATEGORY = 'ACP Agent';
const FOLLOW_COMMAND = 'acp:toggle-follow';

const settings: JupyterFrontEndPlugin<IPreferences> = {
  id: SETTINGS_ID,
  description: 'The settings of acp-jupyter.',
  autoStart: true,
  provides: IPreferences,
  optional: [ISettingRegistry],
  activate: (_: JupyterFrontEnd, registry: ISettingRegistry | null): IPreferences => {
    const preferences = new Preferences();
    registry?.load(SETTINGS_ID).then(
      stored => preferences.connect(stored),
      (error: unknown) => console.warn('The settings of acp-jupyter cannot be read.', error)
    );
    return preferences;
  }
};

const live: JupyterFrontEndPlugin<ILive> = {
  id: 'acp-jupyter:live',
  description: 'Asks the kernels of open notebooks what their agents do.',
  autoStart: true,
  provides: ILive,
  // Pages of Notebook 7 without a notebook have no tracker.
  optional: [INotebookTracker],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker | null): ILive => new Live(tracker)
};

/** How a question is brought into sight. */
function shower(app: JupyterFrontEnd): (open: IOpenQuestion) => void {
  return open => void showQuestion(app, open);
}

const panel: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:panel',
  description: 'The panel of agents, their questions and their wire.',
  autoStart: true,
  requires: [ILive, IPreferences],
  optional: [INotebookTracker, ILabShell, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    agents: ILive,
    preferences: IPreferences,
    tracker: INotebookTracker | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ): void => {
    if (tracker === null) {
      return;
    }
    const widget = new AgentsPanel(
      agents,
      preferences,
      shower(app),
      notebook => app.shell.activateById(notebook.panel.id),
      labShell !== null
    );
    app.shell.add(widget, 'right', { rank: 900 });
    restorer?.add(widget, widget.id);
    app.commands.addCommand(SHOW_PANEL, {
      label: 'Show Agents Panel',
      caption: 'The agents of all notebooks, what they ask, and their wire',
      execute: () => app.shell.activateById(widget.id)
    });
    palette?.addItem({ command: SHOW_PANEL, category: CATEGORY });
  }
};

const status: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:status',
  description: 'What the agent of the current notebook does, in the status bar.',
  autoStart: true,
  requires: [ILive, IPreferences],
  optional: [INotebookTracker, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    agents: ILive,
    preferences: IPreferences,
    tracker: INotebookTracker | null,
    statusBar: IStatusBar | null
  ): void => {
    if (tracker === null) {
      return;
    }
    const item = new StatusItem(
      agents,
      tracker,
      preferences,
      () => void app.commands.execute(SHOW_PANEL),
      shower(app)
    );
    item.id = 'acp-status';
    if (statusBar === null) {
      app.shell.add(item, 'top', { rank: 5000 }); // Notebook 7: before the kernel's logo.
      return;
    }
    statusBar.registerStatusItem('acp-jupyter:status', {
      item,
      align: 'left',
      rank: 4,
      isActive: () => item.isActive,
      activeStateChanged: item.activeChanged
    });
  }
};

const notices: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:notices',
  description: 'Tells when an agent waits in a notebook that is not in sight.',
  autoStart: true,
  requires: [ILive, IPreferences],
  activate: (app: JupyterFrontEnd, agents: ILive, preferences: IPreferences): void => {
    new Notices(agents, preferences, shower(app));
  }
};

const scroll: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:scroll',
  description: 'Scrolls to a question that comes up below the cell that the user looks at.',
  autoStart: true,
  requires: [ILive],
  activate: (_: JupyterFrontEnd, agents: ILive): void => {
    new QuestionScroller(agents);
  }
};

const open: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:open',
  description: 'Opens files at a line, and follows along with the agent.',
  autoStart: true,
  requires: [ILive, IPreferences],
  optional: [IDocumentManager, INotebookTracker, ILabShell, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    agents: ILive,
    preferences: IPreferences,
    documents: IDocumentManager | null,
    tracker: INotebookTracker | null,
    labShell: ILabShell | null,
    palette: ICommandPalette | null
  ): void => {
    if (documents === null) {
      return;
    }
    const opener = new Opener(app, documents);
    app.commands.addCommand(OPEN_COMMAND, {
      label: 'Open File at Location',
      describedBy: { args: OPEN_ARGUMENTS },
      execute: async args => {
        const { path, line, notebook } = args as { path: string; line?: number; notebook?: string };
        const from = notebook ?? tracker?.currentWidget?.context.path ?? '';
        await opener.open(line === undefined ? { path } : { path, line }, from);
      }
    });
    if (labShell === null) {
      return; // Notebook 7 shows one document in a page: there is no place beside the notebook.
    }
    new Follower(agents, opener, preferences);
    app.commands.addCommand(FOLLOW_COMMAND, {
      label: 'Follow Along with Agent',
      caption: 'Show the file that an agent works on beside the notebook',
      isToggled: () => preferences.current.follow,
      execute: () => preferences.set('follow', !preferences.current.follow)
    });
    preferences.changed.connect(() => app.commands.notifyCommandChanged(FOLLOW_COMMAND));
    palette?.addItem({ command: FOLLOW_COMMAND, category: CATEGORY });
  }
};

const documents: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:documents',
  description: 'Lets agents read and write the files that are open, unsaved edits included.',
  autoStart: true,
  requires: [ILive],
  optional: [IDocumentManager],
  activate: (_: JupyterFrontEnd, agents: ILive, manager: IDocumentManager | null): void => {
    if (manager !== null) {
      new Documents(agents, manager);
    }
  }
};

const terminals: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:terminals',
  description: 'Shows the commands that agents run in terminals.',
  autoStart: true,
  requires: [ILive],
  activate: (app: JupyterFrontEnd, agents: ILive): void => addOpenTerminal(app, agents)
};

const OPEN_ARGUMENTS = {
  type: 'object',
  required: ['path'],
  properties: {
    path: { type: 'string', description: 'Relative to the folder of the notebook.' },
    line: { type: 'integer', description: 'Counts from 1.' },
    notebook: { type: 'string', description: 'Path of the notebook; by default the current one.' }
  }
} as const;

export const plugins: JupyterFrontEndPlugin<unknown>[] = [
  settings,
  live,
  panel,
  status,
  notices,
  scroll,
  open,
  terminals,
  documents
];
