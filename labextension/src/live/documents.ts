/**
 * The documents that are open in this page, for the kernel whose agent asks for their files.
 *
 * - The agent reads what the user sees; what it writes is shown at once, as one step of undo.
 * - The page never writes a file for an agent: the kernel does, which keeps to the session's roots.
 *   The page shows the new text first, if it is still the one that the kernel knows, and takes it
 *   back if the file could not be written.
 * - Nothing here opens a dialog, and no edit of the user's is lost.
 */

import type { IDocumentManager } from '@jupyterlab/docmanager';
import { Context as DocumentContext, type DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { UUID } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';

import type {
  DocumentQuestion,
  EditOutcome,
  FromKernel,
  IOpenDocument,
  Request
} from '../protocol';
import type { ILive, ILiveNotebook } from '../tokens';
import { replaceText, type ISharedText } from '../undo';

type Context = DocumentRegistry.Context;
type Model = DocumentRegistry.IModel;
type Answer = Extract<Request, { type: 'document' }>['answer'];

/** Characters of a document that is read from here: a server refuses messages beyond 10 MiB. */
const LARGEST = 2 * 2 ** 20;

/** Milliseconds by which a file has to be newer to have changed: as JupyterLab has it. */
const MARGIN = 500;

/** Questions that are remembered: two notebooks with one kernel get each of them twice. */
const REMEMBERED = 100;

/** Milliseconds after which a document that was joined is left, if the kernel does not say so. */
const JOINED_FOR = 60_000;

/** Names of the factories of editors, and of their models, in JupyterLab. */
const EDITOR = 'Editor';
const TEXT = 'text';

/** jupyter-collaboration has had a drive of its own. */
const DRIVES = ['', 'RTC'];

/** The newest text of a model has its number. */
class Revisions {
  private _numbers = new WeakMap<Model, number>();
  private _page = UUID.uuid4();

  of(model: Model): string {
    if (!this._numbers.has(model)) {
      this._numbers.set(model, 0);
      model.contentChanged.connect(this._count);
    }
    return `${this._page}-${this._numbers.get(model) ?? 0}`;
  }

  private _count = (model: Model): void => {
    this._numbers.set(model, (this._numbers.get(model) ?? 0) + 1);
  };
}

/** What was shown and is not known to be in the file yet. */
interface IShown {
  text: string;
  changed: boolean;
  wasDirty: boolean;
  revision: string;
}

export class Documents implements IDisposable {
  private _asked = new Set<string>();
  private _isDisposed = false;
  private _joined = new Map<string, Context>();
  private _revisions = new Revisions();
  private _shown = new WeakMap<Context, IShown>();
  private _watched = new Set<ILiveNotebook>();

  constructor(
    private readonly _live: ILive,
    private readonly _documents: IDocumentManager
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
      [...this._joined.keys()].forEach(path => this._leave(path));
    }
  }

  /** What the kernel is answered. */
  async answer(question: DocumentQuestion): Promise<Answer> {
    const context = this._find(question.path);
    switch (question.op) {
      case 'find':
        return context === null ? null : this._describe(context);
      case 'join':
        return this._join(question.path);
      case 'edit':
        return context === null ? 'closed' : this._edit(context, question);
      case 'settle':
        if (context !== null) {
          await this._settle(context, question.saved);
        }
        this._leave(question.path);
        return null;
      case 'reload':
        return context !== null && this._reload(context);
      default:
        return null; // A newer kernel's: as if nothing were open here.
    }
  }

  /** The open document of a file; of several, which show it in different ways, the edited one. */
  private _find(path: string): Context | null {
    const { registry, services } = this._documents;
    const found = new Set<Context>();
    for (const drive of DRIVES) {
      const full = services.contents.normalize(drive === '' ? path : `${drive}:${path}`);
      const factories = registry.preferredWidgetFactories(full).map(factory => factory.name);
      for (const name of factories) {
        const context = this._documents.findWidget(full, name)?.context;
        if (context?.isReady && (isNotebook(context) || textOf(context) !== null)) {
          found.add(context);
        }
      }
    }
    const all = [...found];
    return all.find(context => context.model.dirty) ?? all[0] ?? this._joined.get(path) ?? null;
  }

  private async _join(path: string): Promise<IOpenDocument | null> {
    const { registry, services } = this._documents;
    const factory = registry.getModelFactory(TEXT);
    const contentProviderId = registry.getWidgetFactory(EDITOR)?.contentProviderId;
    const provider = contentProviderId === undefined ? {} : { contentProviderId };
    const shared = services.contents.getSharedModelFactory(path, provider);
    if (factory === undefined || shared?.collaborative !== true) {
      return null;
    }
    this._leave(path);
    const kernelPreference = { shouldStart: false, canStart: false };
    const context = new DocumentContext({
      manager: services,
      factory,
      path,
      kernelPreference,
      ...provider
    });
    this._joined.set(path, context);
    window.setTimeout(() => {
      if (this._joined.get(path) === context) {
        this._leave(path);
      }
    }, JOINED_FOR);
    await context.initialize(false);
    return context.isDisposed ? null : this._describe(context);
  }

  private _leave(path: string): void {
    this._joined.get(path)?.dispose();
    this._joined.delete(path);
  }

  private async _describe(context: Context): Promise<IOpenDocument> {
    const { model } = context;
    const shared = model.collaborative === true;
    const outdated = model.dirty && !shared && (await this._isOutdated(context));
    const live = model.dirty || shared;
    const text = live && !context.isDisposed ? currentText(context) : null;
    return {
      kind: isNotebook(context) ? 'notebook' : 'text',
      revision: this._revisions.of(model),
      dirty: model.dirty,
      shared,
      readOnly: model.readOnly,
      outdated,
      text: text !== null && text.length <= LARGEST ? text : null
    };
  }

  private async _edit(
    context: Context,
    { revision, text }: Extract<DocumentQuestion, { op: 'edit' }>
  ): Promise<EditOutcome> {
    const { model } = context;
    if (model.readOnly) {
      return 'read-only';
    }
    if (model.dirty && model.collaborative !== true && (await this._isOutdated(context))) {
      return 'outdated';
    }
    const document = textOf(context);
    if (context.isDisposed || document === null) {
      return 'closed';
    }
    if (this._revisions.of(model) !== revision) {
      return 'changed';
    }
    const wasDirty = model.dirty;
    const changed = replaceText(document, text);
    const now = this._revisions.of(model);
    this._shown.set(context, { text, changed, wasDirty, revision: now });
    return 'made';
  }

  private async _settle(context: Context, saved: boolean): Promise<void> {
    const shown = this._shown.get(context);
    const document = textOf(context);
    this._shown.delete(context);
    if (shown === undefined || document === null) {
      return;
    }
    const { model } = context;
    if (saved && model.collaborative !== true) {
      await takeOver(context, document, shown.text);
    } else if (!saved && shown.changed && this._revisions.of(model) === shown.revision) {
      document.undo();
      model.dirty = shown.wasDirty;
    }
  }

  private async _reload(context: Context): Promise<boolean> {
    const { model } = context;
    if (!isNotebook(context) || model.dirty || model.collaborative === true) {
      return false;
    }
    await context.revert();
    model.dirty = false;
    return true;
  }

  /** Whether JupyterLab would ask which version to keep if the user saved it now. */
  private async _isOutdated(context: Context): Promise<boolean> {
    const known = context.contentsModel;
    if (known === null) {
      return true;
    }
    let found: Contents.IModel;
    try {
      const { contents } = this._documents.services;
      found = await contents.get(context.path, { content: false, hash: true });
    } catch (error) {
      console.warn(`Whether ${context.path} was changed cannot be found out.`, error);
      return true; // It may have been deleted.
    }
    if (known.hash != null && found.hash != null) {
      return known.hash !== found.hash;
    }
    return Date.parse(found.last_modified) - Date.parse(known.last_modified) > MARGIN;
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
    if (message.type !== 'document' || this._asked.has(message.ask)) {
      return;
    }
    this._asked.add(message.ask);
    const [oldest] = this._asked;
    if (this._asked.size > REMEMBERED && oldest !== undefined) {
      this._asked.delete(oldest);
    }
    void this._reply(notebook, message.ask, message.question);
  };

  private async _reply(
    notebook: ILiveNotebook,
    ask: string,
    question: DocumentQuestion
  ): Promise<void> {
    try {
      const answer = await this.answer(question);
      await notebook.request({ type: 'document', ask, answer });
    } catch (error) {
      // The kernel goes on without an answer.
      console.warn(`The kernel's question about ${question.path} was not answered.`, error);
    }
  }
}

function isNotebook(context: Context): boolean {
  return context.contentsModel?.type === 'notebook';
}

/** The document of a file of text; `null` for others: what shows a picture holds it as base64. */
function textOf(context: Context): ISharedText | null {
  const stored = context.contentsModel;
  const shared: object = context.model.sharedModel;
  const isText = stored?.type === 'file' && stored.format !== 'base64';
  return isText && 'updateSource' in shared ? (shared as ISharedText) : null;
}

function currentText(context: Context): string {
  return textOf(context)?.getSource() ?? JSON.stringify(context.model.toJSON());
}

/**
 * Let a document know that its file was written, so that it is no conflict when the user saves.
 *
 * Reverting is the only way to that. It would set the whole text anew, which loses the cursor, and
 * what was typed since.
 *
 * @param written - what was shown before the file was written.
 */
async function takeOver(context: Context, document: ISharedText, written: string): Promise<void> {
  const { model } = context;
  let stored = '';
  model.fromString = (text: string): void => {
    stored = text;
    if (text !== written) {
      replaceText(document, text); // Somebody else has written it since.
    }
  };
  try {
    await context.revert();
  } finally {
    Reflect.deleteProperty(model, 'fromString');
  }
  if (!context.isDisposed) {
    model.dirty = document.getSource() !== stored;
  }
}
