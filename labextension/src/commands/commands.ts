/**
 * The commands, and when each can be used.
 *
 * Those that ask are there in notebooks of the agent kernel and of Python: in the latter they load
 * the extension where it is not loaded yet. The others need a kernel that speaks with us.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import type { ILinkState } from '../protocol';
import { showQuestion } from '../live/reveal';
import type { ILive, ILiveNotebook } from '../tokens';
import type { Kernel } from './cell';
import { askOptions, exportConversation } from './export';
import { insertPrompt, runPrompt, type IPrompt } from './insert';
import { askPrompt, explainPrompt, fixPrompt, type ISubject } from './prompts';
import { nextQuestion } from './questions';
import { hasFailed, kernelOfPanel, subjectOf } from './subject';

type Options = Parameters<JupyterFrontEnd['commands']['addCommand']>[1];

/** A cell that can be asked about. */
interface ITarget {
  readonly panel: NotebookPanel;
  readonly cell: Cell;
  readonly kernel: Kernel;
}

const BUSY: readonly ILinkState['status'][] = ['starting', 'working', 'waiting'];

const NOT_LOADED =
  'The kernel of this notebook could not load acp_jupyter; the cell shows why. Where it is not ' +
  'installed, run %pip install acp-jupyter and try again.';

export class AgentCommands {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _tracker: INotebookTracker,
    private readonly _live: ILive | null
  ) {}

  /** By id. */
  options(): Record<string, Options> {
    return {
      'acp:ask-about-cell': {
        label: 'Ask Agent About This Cell',
        caption: 'Begin a question about this cell, or what is selected in it, in a new cell below',
        isVisible: () => this._isKnownKernel(),
        isEnabled: () => this._target() !== null,
        execute: () => this._ask(askPrompt, insertPrompt)
      },
      'acp:explain-cell': {
        label: 'Explain This Cell with Agent',
        caption: 'Have an agent explain this cell and its output, in a new cell below',
        isVisible: () => this._isKnownKernel(),
        isEnabled: () => this._target() !== null,
        execute: () => this._ask(explainPrompt, runPrompt)
      },
      'acp:fix-error': {
        label: 'Fix This Error with Agent',
        caption: 'Have an agent fix the error in this cell, in a new cell below',
        isVisible: () => this._hasFailed(),
        isEnabled: () => this._hasFailed(),
        execute: () => this._ask(fixPrompt, runPrompt)
      },
      'acp:cancel-turn': {
        label: 'Stop Agent',
        caption: 'Cancel what the agents of this notebook are doing; what has arrived is kept',
        isEnabled: () => this._busy().length > 0,
        execute: () => this._cancel()
      },
      'acp:answer-next': {
        label: 'Go to Next Question of an Agent',
        caption: 'Show the question that waits for you, in whichever notebook it is',
        isEnabled: () => this._live !== null && nextQuestion(this._live, this._tracker) !== null,
        execute: () => this._answerNext()
      },
      'acp:export-conversation': {
        label: 'Export Conversation…',
        caption: 'Save this notebook as one file to share: HTML, Markdown or JSON',
        isEnabled: () => this._current()?.connected === true,
        execute: () => this._export()
      }
    };
  }

  // -- asking --------------------------------------------------------------------------------

  private _isKnownKernel(): boolean {
    const panel = this._tracker.currentWidget;
    return panel?.model != null && kernelOfPanel(panel) !== null;
  }

  private _target(): ITarget | null {
    const panel = this._tracker.currentWidget;
    const cell = panel?.content.activeCell;
    const kernel = panel?.model ? kernelOfPanel(panel) : null;
    if (!panel || !cell || kernel === null || panel.model?.readOnly === true) {
      return null;
    }
    const blank = cell.model.sharedModel.getSource().trim() === '';
    return blank ? null : { panel, cell, kernel };
  }

  private _hasFailed(): boolean {
    const target = this._target();
    return target !== null && hasFailed(target.panel, target.cell.model);
  }

  private async _ask(
    write: (kernel: Kernel, cell: ISubject) => string,
    insert: (panel: NotebookPanel, below: Cell, prompt: IPrompt) => Promise<boolean>
  ): Promise<void> {
    const target = this._target();
    if (target === null) {
      return;
    }
    const { panel, cell, kernel } = target;
    const text = write(kernel, await subjectOf(panel, cell));
    const understood = kernel === 'agent' || this._live?.of(panel)?.connected === true;
    if (!(await insert(panel, cell, { kernel, text, understood }))) {
      Notification.error(NOT_LOADED, { autoClose: false });
    }
  }

  // -- what runs, and what was said ----------------------------------------------------------

  private _current(): ILiveNotebook | undefined {
    return this._live?.of(this._tracker.currentWidget);
  }

  private _busy(): ILinkState[] {
    return (this._current()?.links ?? []).filter(link => BUSY.includes(link.status));
  }

  private async _cancel(): Promise<void> {
    const notebook = this._current();
    if (notebook !== undefined) {
      const busy = this._busy();
      const asked = busy.map(link => notebook.request({ type: 'cancel', link: link.key }));
      await told('The agent was not stopped', Promise.all(asked));
    }
  }

  private async _answerNext(): Promise<void> {
    const open = this._live === null ? null : nextQuestion(this._live, this._tracker);
    if (open !== null) {
      await showQuestion(this._app, open);
    }
  }

  private async _export(): Promise<void> {
    const panel = this._tracker.currentWidget;
    const notebook = this._current();
    const options = await askOptions();
    if (panel !== null && notebook !== undefined && options !== null) {
      await told('The export failed', exportConversation(panel, notebook, options));
    }
  }
}

/** Tell the user why something did not happen. */
async function told(what: string, done: Promise<unknown>): Promise<void> {
  try {
    await done;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    Notification.error(`${what}: ${reason}`, { autoClose: false });
  }
}
