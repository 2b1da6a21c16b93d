/** Exports a conversation: asks how, has the kernel write it, and downloads what it wrote. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import type { ILiveNotebook } from '../tokens';

export type Format = 'html' | 'md' | 'json';

export interface IExportOptions {
  readonly to: Format;
  /** Have secrets and home paths removed. */
  readonly redact: boolean;
}

const FORMATS: Record<Format, { label: string; mime: string }> = {
  html: { label: 'HTML: one page that still unfolds', mime: 'text/html' },
  md: { label: 'Markdown: to read and to paste', mime: 'text/markdown' },
  json: { label: 'JSON: for programs', mime: 'application/json' }
};

/** Milliseconds that a browser gets to begin the download in. */
const DOWNLOAD_TIME = 60_000;

/** Ask the user how; `null` if nothing is to be exported. */
export async function askOptions(): Promise<IExportOptions | null> {
  const result = await showDialog({
    title: 'Export the Conversation',
    body: new OptionsForm(),
    buttons: [
      Dialog.cancelButton(),
      Dialog.okButton({ label: 'Export', caption: 'Write the file and download it' })
    ],
    focusNodeSelector: 'select'
  });
  return result.button.accept ? result.value : null;
}

/**
 * Export the notebook as it is now; it is saved before, for the kernel reads its file.
 *
 * @throws Error - with the kernel's words, or those of the server that did not save.
 */
export async function exportConversation(
  panel: NotebookPanel,
  live: ILiveNotebook,
  options: IExportOptions
): Promise<void> {
  await panel.context.save();
  // The kernel runs in the notebook's folder.
  const path = PathExt.basename(panel.context.localPath);
  const reply = await live.request({ type: 'export', path, ...options });
  const { name, text } = reply as { name: string; text: string };
  download(name, text, FORMATS[options.to].mime);
}

function download(name: string, text: string, mime: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: `${mime};charset=utf-8` }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(address), DOWNLOAD_TIME);
}

class OptionsForm extends Widget implements Dialog.IBodyWidget<IExportOptions> {
  constructor() {
    super();
    this.addClass('acp-ExportForm');
    for (const [value, { label }] of Object.entries(FORMATS)) {
      this._format.add(new Option(label, value));
    }
    this._redact.type = 'checkbox';
    this._redact.checked = true;
    this.node.append(
      labelled('Format', this._format),
      labelled('Remove secrets and home paths', this._redact)
    );
  }

  getValue(): IExportOptions {
    return { to: this._format.value as Format, redact: this._redact.checked };
  }

  private readonly _format = document.createElement('select');
  private readonly _redact = document.createElement('input');
}

function labelled(text: string, control: HTMLElement): HTMLLabelElement {
  const label = document.createElement('label');
  const words = document.createElement('span');
  words.textContent = text;
  label.append(words, control);
  return label;
}
