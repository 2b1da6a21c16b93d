/**
 * The comm with one kernel: what it says of its agents, and what it is asked.
 *
 * A comm does not outlive a restart, and what a kernel said while the connection was down is lost:
 * after either a new comm is opened, and says hello. A kernel that closes the comm does not know
 * it; it is asked again when it says that it does, or after a restart.
 */

import type { Kernel } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import {
  HELLO_TARGET,
  LIVE_TARGET,
  LIVE_VERSION,
  type FromKernel,
  type ILinkState,
  type Request
} from '../protocol';

/** Milliseconds a request may take. A kernel answers within one, unless it hangs. */
export const REQUEST_TIMEOUT = 30_000;

const NO_LINKS: readonly ILinkState[] = [];

const GONE: readonly Kernel.Status[] = ['restarting', 'autorestarting', 'dead', 'terminating'];

interface IPending {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  timer: number;
}

export class Channel implements IDisposable {
  readonly changed = new Signal<this, void>(this);
  readonly received = new Signal<this, FromKernel>(this);
  readonly disposed = new Signal<this, void>(this);

  private _comm: Kernel.IComm | null = null;
  private _connected = false;
  private _isDisposed = false;
  private _links = NO_LINKS;
  private _pending = new Map<string, IPending>();
  private _requests = 0;
  private _wanted = false;

  constructor(readonly kernel: Kernel.IKernelConnection) {
    kernel.statusChanged.connect(this._onStatus);
    kernel.connectionStatusChanged.connect(this._onConnection);
    kernel.disposed.connect(this._onKernelDisposed);
    kernel.registerCommTarget(HELLO_TARGET, this._onHello);
    window.addEventListener('pagehide', this._onPageHide);
  }

  /** Whether the kernel has said what its agents do. */
  get connected(): boolean {
    return this._connected;
  }

  get links(): readonly ILinkState[] {
    return this._links;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Speak with the kernel from now on: it is known to understand, or likely to. */
  open(): void {
    this._wanted = true;
    if (this._comm === null && this.kernel.connectionStatus === 'connected') {
      this._open();
    }
  }

  /** See `ILiveNotebook.request`. */
  request(message: Request): Promise<unknown> {
    const comm = this._comm;
    if (comm === null) {
      return Promise.reject(new Error('The kernel is not connected. Try again when it is.'));
    }
    const id = String(++this._requests);
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => {
        this._pending.delete(id);
        const seconds = REQUEST_TIMEOUT / 1000;
        reject(
          new Error(`The kernel has not answered in ${seconds} s. It may have to be restarted.`)
        );
      }, REQUEST_TIMEOUT);
      this._pending.set(id, { resolve, reject, timer });
      comm.send({ ...message, id } as unknown as JSONObject); // Interfaces name no other keys.
    });
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    window.removeEventListener('pagehide', this._onPageHide);
    this.kernel.statusChanged.disconnect(this._onStatus);
    this.kernel.connectionStatusChanged.disconnect(this._onConnection);
    this.kernel.disposed.disconnect(this._onKernelDisposed);
    if (!this.kernel.isDisposed) {
      this.kernel.removeCommTarget(HELLO_TARGET, this._onHello);
    }
    this._close('The notebook or its kernel was closed.');
    this.disposed.emit();
    Signal.clearData(this);
  }

  private _open(): void {
    if (this._isDisposed || !this.kernel.handleComms) {
      return; // A second connection to the same kernel: the first one speaks.
    }
    const comm = this.kernel.createComm(LIVE_TARGET);
    this._comm = comm;
    comm.onMsg = message => {
      if (this._comm === comm) {
        this._onMessage(message.content.data);
      }
    };
    comm.onClose = () => {
      if (this._comm === comm) {
        this._forget('The kernel has ended the connection.');
      }
    };
    comm.open();
    this.request({ type: 'hello', version: LIVE_VERSION }).catch((error: unknown) => {
      // One that is closed at once speaks with nobody: a kernel without agents.
      if (this._comm === comm) {
        console.warn('The kernel has not answered the hello of the agents extension.', error);
      }
    });
  }

  private _onMessage(data: unknown): void {
    if (!isMessage(data)) {
      return;
    }
    switch (data.type) {
      case 'state':
        this._connected = true;
        this._links = data.links;
        this.changed.emit();
        break;
      case 'reply':
        this._settle(data);
        break;
      default:
        this.received.emit(data);
    }
  }

  private _settle(reply: Extract<FromKernel, { type: 'reply' }>): void {
    const pending = this._pending.get(reply.id);
    if (pending === undefined) {
      return; // It came too late.
    }
    this._pending.delete(reply.id);
    window.clearTimeout(pending.timer);
    if (reply.ok) {
      pending.resolve(reply.value);
    } else {
      pending.reject(new Error(reply.error));
    }
  }

  /** Close the comm, as far as there is someone to hear of it. */
  private _close(reason: string): void {
    const comm = this._comm;
    this._forget(reason);
    if (comm !== null && !comm.isDisposed && !this.kernel.isDisposed) {
      comm.close();
    }
  }

  private _forget(reason: string): void {
    const hadComm = this._comm !== null;
    this._comm = null;
    this._connected = false;
    this._links = NO_LINKS;
    const pending = [...this._pending.values()];
    this._pending.clear();
    for (const { reject, timer } of pending) {
      window.clearTimeout(timer);
      reject(new Error(reason));
    }
    if (hadComm) {
      this.changed.emit();
    }
  }

  private _onStatus = (_: unknown, status: Kernel.Status): void => {
    if (GONE.includes(status)) {
      this._forget('The kernel was restarted or has ended.');
    }
  };

  private _onConnection = (_: unknown, status: Kernel.ConnectionStatus): void => {
    if (status !== 'connected') {
      return;
    }
    this._close('The connection to the kernel was lost for a while. Try again.');
    if (this._wanted) {
      this._open();
    }
  };

  private _onKernelDisposed = (): void => this.dispose();

  private _onHello = (comm: Kernel.IComm): void => {
    comm.dispose(); // It has said all that it is for.
    this.open();
  };

  /** So that the kernel does not speak to pages that are gone. */
  private _onPageHide = (event: PageTransitionEvent): void => {
    if (!event.persisted) {
      this._close('The page was closed.');
    }
  };
}

/** The channels of a page: one for each kernel, whatever number of notebooks shows it. */
export class Channels {
  private _all = new Map<string, { channel: Channel; users: number }>();

  /** Each call is followed by a `release`. */
  acquire(kernel: Kernel.IKernelConnection): Channel {
    const known = this._all.get(kernel.id);
    if (known !== undefined && !known.channel.isDisposed) {
      known.users += 1;
      return known.channel;
    }
    const channel = new Channel(kernel);
    this._all.set(kernel.id, { channel, users: 1 });
    return channel;
  }

  release(channel: Channel): void {
    const known = this._all.get(channel.kernel.id);
    if (known?.channel !== channel) {
      return;
    }
    known.users -= 1;
    if (known.users === 0 || channel.isDisposed) {
      this._all.delete(channel.kernel.id);
      channel.dispose();
    }
  }
}

function isMessage(data: unknown): data is FromKernel {
  return typeof data === 'object' && data !== null && 'type' in data;
}
