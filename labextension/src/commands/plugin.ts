/** Registers what the user can do with agents: commands, and completion in prompts. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { CompletionProviderManager, ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker } from '@jupyterlab/notebook';

import { ILive } from '../tokens';
import { AgentCommands } from './commands';
import { leavePrompts, PromptCompletion } from './completion';
import { ListOpener } from './opener';

const commands: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:commands',
  description: 'Commands that ask an agent, answer it, stop it and export what was said.',
  autoStart: true,
  // Pages of Notebook 7 without a notebook have no tracker.
  optional: [INotebookTracker, ILive, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker | null,
    live: ILive | null,
    palette: ICommandPalette | null
  ) => {
    if (tracker === null) {
      return;
    }
    const made = new AgentCommands(app, tracker, live);
    for (const [id, options] of Object.entries(made.options())) {
      app.commands.addCommand(id, options);
      palette?.addItem({ command: id, category: 'ACP Agent' });
    }
  }
};

const completion: JupyterFrontEndPlugin<void> = {
  id: 'acp-jupyter:completion',
  description: 'Completion of commands and mentions in prompts.',
  autoStart: true,
  optional: [INotebookTracker, ILive, ICompletionProviderManager],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker | null,
    live: ILive | null,
    completer: ICompletionProviderManager | null
  ) => {
    if (tracker === null || completer === null) {
      return;
    }
    if (live !== null) {
      const provider = new PromptCompletion(live);
      completer.registerProvider(provider);
      // The others may be registered after ours.
      void app.restored.then(() => {
        if (completer instanceof CompletionProviderManager) {
          leavePrompts(completer.getProviders(), provider);
        }
      });
    }
    new ListOpener(tracker, completer);
  }
};

export const plugins: JupyterFrontEndPlugin<void>[] = [commands, completion];
