/** The output of a running command, live in a terminal of JupyterLab. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

import type { IAttachment } from '../protocol';
import type { ILive } from '../tokens';

export const OPEN_TERMINAL = 'acp:open-terminal';

/** JupyterLab's own; there is none where the server has no terminals. */
const CREATE_TERMINAL = 'terminal:create-new';

/** Milliseconds in which a new terminal is to be connected. */
const CONNECT_TIMEOUT = 30_000;

/** What is used of JupyterLab's terminals (`ITerminal.ITerminal` of `@jupyterlab/terminal`). */
interface ITerminalSession {
  readonly connectionStatus: string;
  readonly isDisposed: boolean;
  send(message: { type: 'stdin'; content: string[] }): void;
}

interface ITerminalWidget {
  content: { session: ITerminalSession };
}

const ARGUMENTS = {
  type: 'object',
  required: ['terminal', 'notebook'],
  properties: {
    terminal: { type: 'string', description: 'Id of the terminal of the agent.' },
    notebook: { type: 'string', description: 'Id of the panel of the notebook.' }
  }
} as const;

export function addOpenTerminal({ commands }: JupyterFrontEnd, live: ILive): void {
  commands.addCommand(OPEN_TERMINAL, {
    label: 'Open Running Command in a Terminal',
    describedBy: { args: ARGUMENTS },
    isEnabled: () => commands.hasCommand(CREATE_TERMINAL),
    execute: async args => {
      const { terminal, notebook } = args as { terminal: string; notebook: string };
      const found = live.notebooks.find(({ panel }) => panel.id === notebook);
      try {
        if (found === undefined) {
          throw new Error('The notebook of this command is not open.');
        }
        const { command } = (await found.request({ type: 'attach', terminal })) as IAttachment;
        const made = (await commands.execute(CREATE_TERMINAL)) as ITerminalWidget;
        const { session } = made.content;
        await connected(session);
        session.send({ type: 'stdin', content: [`${command}\r`] });
      } catch (error) {
        Notification.error(error instanceof Error ? error.message : String(error), {
          autoClose: 10_000
        });
      }
    }
  });
}

/** Until a terminal takes input: what is sent before is lost with some versions. */
async function connected(session: ITerminalSession): Promise<void> {
  const end = Date.now() + CONNECT_TIMEOUT;
  while (session.connectionStatus !== 'connected') {
    if (session.isDisposed || Date.now() > end) {
      throw new Error('The terminal could not be connected.');
    }
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}
