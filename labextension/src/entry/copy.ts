/** Text to the clipboard. */

import { Clipboard } from '@jupyterlab/apputils';

/** Copy a text; also on pages without a secure origin, where browsers have no clipboard API. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch (reason) {
    if (!(reason instanceof TypeError || reason instanceof DOMException)) {
      throw reason;
    }
    Clipboard.copyToSystem(text);
  }
}
