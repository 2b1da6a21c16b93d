import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { plugins as commands } from './commands/plugin';
import { plugins as entry } from './entry/plugin';
import { plugins as live } from './live/plugin';

const plugins: JupyterFrontEndPlugin<unknown>[] = [...entry, ...live, ...commands];

export default plugins;
