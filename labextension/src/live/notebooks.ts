/**
 * The agents of all open notebooks: a channel to the kernel of each that speaks of them.
 *
 * Which does: the "ACP Agent" kernel; a Python kernel whose notebook loads acp_jupyter, or that
 * says by a comm that it is loaded, now or earlier. Others are not asked: they would complain in their log.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, Session } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { HELLO_TARGET, type FromKernel, type ILinkState, type Request } from '../protocol';
import type { ILive, ILiveNotebook } from '../tokens';
import { Channels, type Channel } from './channel';

/** Name of the "ACP Agent" kernel, and of its language. */
const AGENT_KERNEL = 'acp';

const USES_AGENTS = /acp_jupyter|^\s*%{1,2}acp\b/m;

const NO_LINKS: readonly ILinkState[] = [];

export class LiveNotebook implements ILiveNotebook, IDisposable {
  readonly changed = new Signal<this, void>(this);
  readonly received = new Signal<this, FromKernel>(this);

  private _channel: Channel | null = null;
  private _isDisposed = false;

  constructor(
    readonly panel: NotebookPanel,
    private readonly _channels: Channels
  ) {
    panel.sessionContext.kernelChanged.connect(this._onKernelChanged);
    this._attach(panel.sessionContext.session?.kernel ?? null);
  }

  get connected(): boolean {
    return this._channel?.connected ?? false;
  }

  get links(): readonly ILinkState[] {
    return this._channel?.links ?? NO_LINKS;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  request(message: Request): Promise<unknown> {
    if (this._channel === null) {
      return Promise.reject(new Error('This notebook has no kernel. Start one.'));
    }
    return this._channel.request(message);
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this.panel.sessionContext.kernelChanged.disconnect(this._onKernelChanged);
      this._attach(null);
      Signal.clearData(this);
    }
  }

  private _onKernelChanged = (
    _: unknown,
    args: Session.ISessionConnection.IKernelChangedArgs
  ): void => {
    this._attach(args.newValue);
  };

  private _attach(kernel: Kernel.IKernelConnection | null): void {
    const old = this._channel;
    this._channel = null;
    if (old !== null) {
      old.changed.disconnect(this._onChanged);
      old.received.disconnect(this._onReceived);
      old.disposed.disconnect(this._onChannelDisposed);
      this._channels.release(old);
    }
    if (kernel !== null && !kernel.isDisposed) {
      const channel = this._channels.acquire(kernel);
      this._channel = channel;
      channel.changed.connect(this._onChanged);
      channel.received.connect(this._onReceived);
      channel.disposed.connect(this._onChannelDisposed);
      if (kernel.name === AGENT_KERNEL) {
        channel.open();
      } else {
        void this._openIfItSpeaks(channel, kernel);
      }
    }
    this.changed.emit();
  }

  private async _openIfItSpeaks(channel: Channel, kernel: Kernel.IKernelConnection): Promise<void> {
    try {
      if (!(await this._speaks(kernel)) || this._channel !== channel) {
        return;
      }
    } catch (error) {
      if (kernel.isDisposed || this._channel !== channel) {
        return; // It went before it could tell.
      }
      throw error;
    }
    channel.open();
  }

  private async _speaks(kernel: Kernel.IKernelConnection): Promise<boolean> {
    await this.panel.context.ready;
    const cells = [...(this.panel.content.model?.cells ?? [])];
    if (cells.some(cell => cell.type === 'code' && USES_AGENTS.test(cell.sharedModel.source))) {
      return true;
    }
    // A kernel that does not start, or is busy, tells no more than that.
    if ((await kernel.info).language_info.name === AGENT_KERNEL) {
      return true;
    }
    const { content } = await kernel.requestCommInfo({ target_name: HELLO_TARGET });
    return content.status === 'ok' && Object.keys(content.comms).length > 0;
  }

  private _onChanged = (): void => {
    this.changed.emit();
  };

  private _onReceived = (_: unknown, message: FromKernel): void => {
    this.received.emit(message);
  };

  /** The connection that it used was another notebook's, which was closed. */
  private _onChannelDisposed = (): void => {
    this._attach(this.panel.sessionContext.session?.kernel ?? null);
  };
}

export class Live implements ILive, IDisposable {
  readonly changed = new Signal<this, void>(this);

  private _channels = new Channels();
  private _isDisposed = false;
  private _notebooks = new Map<NotebookPanel, LiveNotebook>();

  /** @param _tracker - `null` where there are no notebooks. */
  constructor(private readonly _tracker: INotebookTracker | null) {
    _tracker?.widgetAdded.connect(this._onAdded);
    _tracker?.forEach(panel => this._add(panel));
  }

  get notebooks(): readonly LiveNotebook[] {
    return [...this._notebooks.values()];
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  of(panel: NotebookPanel | null): LiveNotebook | undefined {
    return panel === null ? undefined : this._notebooks.get(panel);
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._tracker?.widgetAdded.disconnect(this._onAdded);
      this.notebooks.forEach(notebook => notebook.dispose());
      this._notebooks.clear();
      Signal.clearData(this);
    }
  }

  private _onAdded = (_: unknown, panel: NotebookPanel): void => {
    this._add(panel);
  };

  private _add(panel: NotebookPanel): void {
    const notebook = new LiveNotebook(panel, this._channels);
    this._notebooks.set(panel, notebook);
    notebook.changed.connect(this._onChanged);
    panel.disposed.connect(this._onPanelDisposed);
    this.changed.emit();
  }

  private _onPanelDisposed = (panel: NotebookPanel): void => {
    this._notebooks.get(panel)?.dispose();
    this._notebooks.delete(panel);
    this.changed.emit();
  };

  private _onChanged = (): void => {
    this.changed.emit();
  };
}
