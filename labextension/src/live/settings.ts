/** The user's settings, as `schema/plugin.json` describes them. */

import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { Signal, type ISignal } from '@lumino/signaling';

/** Under this name JupyterLab keeps the settings. */
export const SETTINGS_ID = 'acp-jupyter:plugin';

export interface ISettings {
  /** Open the file that the agent works on. */
  follow: boolean;
  /** How to tell that an agent waits in a notebook that is not in sight. */
  notifications: 'off' | 'lab' | 'browser';
  statusBar: boolean;
  /** How many lines the wire inspector keeps. */
  wireLines: number;
}

export const DEFAULTS: Readonly<ISettings> = {
  follow: false,
  notifications: 'lab',
  statusBar: true,
  wireLines: 2000
};

export interface IPreferences {
  readonly current: Readonly<ISettings>;
  readonly changed: ISignal<IPreferences, void>;
  set<K extends keyof ISettings>(name: K, value: ISettings[K]): Promise<void>;
}

export const IPreferences = new Token<IPreferences>(
  'acp-jupyter:IPreferences',
  'What the user has chosen in the settings of acp-jupyter.'
);

/** Without a registry, or before it has loaded, they last as long as the page. */
export class Preferences implements IPreferences {
  readonly changed = new Signal<this, void>(this);

  private _current: Readonly<ISettings> = DEFAULTS;
  private _stored: ISettingRegistry.ISettings | null = null;

  get current(): Readonly<ISettings> {
    return this._current;
  }

  connect(stored: ISettingRegistry.ISettings): void {
    this._stored = stored;
    stored.changed.connect(this._load);
    this._load();
  }

  async set<K extends keyof ISettings>(name: K, value: ISettings[K]): Promise<void> {
    if (this._stored === null) {
      this._current = { ...this._current, [name]: value };
      this.changed.emit();
    } else {
      await this._stored.set(name, value);
    }
  }

  private _load = (): void => {
    // The registry has checked them against the schema.
    this._current = { ...DEFAULTS, ...(this._stored?.composite as Partial<ISettings>) };
    this.changed.emit();
  };
}
