import type { NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { FromKernel, ILinkState, Request } from './protocol';

/** The agents of one notebook's kernel. */
export interface ILiveNotebook {
  readonly panel: NotebookPanel;
  /** Whether the kernel speaks with us. */
  readonly connected: boolean;
  readonly links: readonly ILinkState[];
  /** `links` or `connected` have changed. */
  readonly changed: ISignal<ILiveNotebook, void>;
  /** Every message that is no state and no reply. */
  readonly received: ISignal<ILiveNotebook, FromKernel>;
  /**
   * Ask the kernel.
   *
   * @throws Error - with the kernel's words, if it refuses, or is not connected.
   */
  request(message: Request): Promise<unknown>;
}

/** The agents of all notebooks that are open in this page. */
export interface ILive {
  readonly notebooks: readonly ILiveNotebook[];
  /** A notebook was opened, closed, or has changed. */
  readonly changed: ISignal<ILive, void>;
  /** That of a notebook; `undefined` if it is not open. */
  of(panel: NotebookPanel | null): ILiveNotebook | undefined;
}

export const ILive = new Token<ILive>(
  'acp-jupyter:ILive',
  'The coding agents of the open notebooks.'
);
