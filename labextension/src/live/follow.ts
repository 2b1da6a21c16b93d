/** Following along: the file that the agent works on is shown, if the user has switched it on. */

import type { IDisposable } from '@lumino/disposable';

import type { FromKernel, ILocation } from '../protocol';
import type { ILive, ILiveNotebook } from '../tokens';
import type { Opener } from './open';
import type { IPreferences } from './settings';

export class Follower implements IDisposable {
  private _isDisposed = false;
  private _latest: { location: ILocation; notebook: ILiveNotebook } | null = null;
  private _running = false;
  private _watched = new Set<ILiveNotebook>();

  constructor(
    private readonly _live: ILive,
    private readonly _opener: Opener,
    private readonly _preferences: IPreferences
  ) {
    _live.changed.connect(this._watch);
    this._watch();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._live.changed.disconnect(this._watch);
      this._watched.forEach(notebook => notebook.received.disconnect(this._onReceived));
      this._watched.clear();
    }
  }

  private _watch = (): void => {
    const open = new Set(this._live.notebooks);
    for (const notebook of open) {
      if (!this._watched.has(notebook)) {
        notebook.received.connect(this._onReceived);
      }
    }
    this._watched = open;
  };

  private _onReceived = (notebook: ILiveNotebook, message: FromKernel): void => {
    if (message.type === 'follow' && this._preferences.current.follow) {
      this._latest = { location: message.location, notebook };
      void this._run();
    }
  };

  /** One file at a time; those that are overtaken meanwhile are left out. */
  private async _run(): Promise<void> {
    if (this._running) {
      return;
    }
    this._running = true;
    try {
      while (this._latest !== null && !this._isDisposed) {
        const { location, notebook } = this._latest;
        this._latest = null;
        if (!notebook.panel.isDisposed) {
          await this._opener.follow(location, notebook.panel);
        }
      }
    } finally {
      this._running = false;
    }
  }
}
