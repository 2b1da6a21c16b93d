/**
 * Opening a file at a line.
 *
 * Paths come from agents: relative to the notebook's folder, they are followed only to files that
 * exist and that the server shows.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import { FileEditor } from '@jupyterlab/fileeditor';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { ServerConnection } from '@jupyterlab/services';
import { DockPanel, type Widget } from '@lumino/widgets';

import type { ILocation } from '../protocol';

export const OPEN_COMMAND = 'acp:open-location';

/** A file that follows along is not to freeze the page. */
const FOLLOW_BYTES = 2_000_000;

/** What cannot be opened, and why. */
export class CannotOpen extends Error {}

/**
 * Where the file is for the server.
 *
 * @throws CannotOpen - it is outside the server's root folder.
 */
export function resolvePath(contents: Contents.IManager, notebook: string, path: string): string {
  const drive = contents.driveName(notebook);
  const folder = PathExt.dirname(contents.localPath(notebook));
  const resolved = path.startsWith('/') ? '..' : PathExt.join(folder, path);
  // A colon would name another drive.
  if (resolved === '..' || resolved.startsWith('../') || resolved.split('/')[0]?.includes(':')) {
    throw new CannotOpen(`${path} is outside the folder that this server shows.`);
  }
  return drive === '' ? resolved : `${drive}:${resolved}`;
}

export class Opener {
  /** The editor that follows, if we opened it. */
  private _followed: IDocumentWidget | null = null;

  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _documents: IDocumentManager
  ) {}

  /**
   * Open it for the user, who has asked for it.
   *
   * @param notebook - path of the notebook that it is relative to.
   */
  async open(location: ILocation, notebook: string): Promise<void> {
    try {
      const { path } = await this._find(location.path, notebook);
      const widget = this._documents.openOrReveal(path);
      await this._goTo(widget, location.line);
    } catch (error) {
      if (!(error instanceof CannotOpen)) {
        throw error;
      }
      Notification.error(error.message, { autoClose: 10_000 });
    }
  }

  /** Show it beside the notebook, where the focus stays. */
  async follow(location: ILocation, notebook: NotebookPanel): Promise<void> {
    let found: Contents.IModel;
    try {
      found = await this._find(location.path, notebook.context.path);
    } catch (error) {
      if (error instanceof CannotOpen) {
        return; // The agent may work anywhere; nobody has asked for this file.
      }
      throw error;
    }
    const tooLarge = (found.size ?? 0) > FOLLOW_BYTES;
    if (found.type !== 'file' || tooLarge || !notebook.isVisible) {
      return;
    }
    const options = this._beside(notebook);
    const old = this._followed;
    let widget = this._documents.findWidget(found.path, null);
    if (widget === undefined) {
      widget = this._documents.open(found.path, undefined, undefined, options);
      this._followed = widget ?? null;
    } else if (sharesTabs(widget, notebook)) {
      this._app.shell.add(widget, 'main', options);
    }
    if (widget?.parent instanceof DockPanel) {
      widget.parent.selectWidget(widget);
    }
    await refresh(widget, found);
    await this._goTo(widget, location.line);
    if (old !== null && old !== this._followed && !old.isDisposed && isUntouched(old)) {
      old.close(); // One tab that follows, not one for each file.
    }
  }

  /** Right of the notebook, in the tabs where the last file was shown. */
  private _beside(notebook: NotebookPanel): DocumentRegistry.IOpenOptions {
    const old = this._followed;
    if (old !== null && !old.isDisposed && old.isAttached && !sharesTabs(old, notebook)) {
      return { activate: false, mode: 'tab-after', ref: old.id };
    }
    return { activate: false, mode: 'split-right', ref: notebook.id };
  }

  private async _find(path: string, notebook: string): Promise<Contents.IModel> {
    const { contents } = this._documents.services;
    const resolved = resolvePath(contents, notebook, path);
    let found: Contents.IModel;
    try {
      found = await contents.get(resolved, { content: false });
    } catch (error) {
      if (error instanceof ServerConnection.ResponseError) {
        throw new CannotOpen(`${path} cannot be opened: the server shows no such file.`);
      }
      throw error;
    }
    if (found.type === 'directory') {
      throw new CannotOpen(`${path} is a folder. Open it in the file browser.`);
    }
    return found;
  }

  private async _goTo(widget: IDocumentWidget | undefined, line = 0): Promise<void> {
    if (widget === undefined || line < 1) {
      return;
    }
    await widget.context.ready;
    const { content } = widget;
    if (!(content instanceof FileEditor) || content.isDisposed) {
      return;
    }
    await content.ready;
    const { editor } = content;
    const position = { line: Math.min(line, editor.lineCount) - 1, column: 0 };
    editor.setCursorPosition(position);
    editor.revealPosition(position);
  }
}

/** Whether only one of them can be seen at a time. */
function sharesTabs(one: Widget, other: Widget): boolean {
  const dock = one.parent;
  if (!(dock instanceof DockPanel)) {
    return false;
  }
  return [...dock.tabBars()].some(
    bar => bar.titles.includes(one.title) && bar.titles.includes(other.title)
  );
}

/** Have an editor that was open already show what is in the file now, unless the user has edited. */
async function refresh(widget: IDocumentWidget | undefined, found: Contents.IModel): Promise<void> {
  await widget?.context.ready;
  const shown = widget?.context.contentsModel?.last_modified;
  if (shown !== undefined && shown !== found.last_modified && !widget?.context.model.dirty) {
    await widget?.context.revert();
  }
}

function isUntouched(widget: IDocumentWidget): boolean {
  return !widget.context.model.dirty && !widget.node.contains(document.activeElement);
}
