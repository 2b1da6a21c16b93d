/** Requests that the user makes by a control: what the kernel refuses is told. */

import { Notification } from '@jupyterlab/apputils';

import type { Request } from '../protocol';
import type { ILiveNotebook } from '../tokens';

/** Returns whether it was granted. */
export async function ask(notebook: ILiveNotebook, message: Request): Promise<boolean> {
  try {
    await notebook.request(message);
    return true;
  } catch (error) {
    Notification.error(error instanceof Error ? error.message : String(error), {
      autoClose: 10_000
    });
    return false;
  }
}
