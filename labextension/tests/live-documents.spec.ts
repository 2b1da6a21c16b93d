import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { TextModelFactory } from '@jupyterlab/docregistry';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import { ContentsManager } from '@jupyterlab/services';

import { Documents } from '../src/live/documents';
import type { DocumentQuestion, FromKernel, IOpenDocument } from '../src/protocol';
import { replaceText } from '../src/undo';
import { FakeLive, FakeNotebook } from './live-kernel';

const contents = new ContentsManager();

/** A file as the server has it. */
interface IFile {
  text: string;
  hash: string;
}

/** An open document with JupyterLab's own model of text, and its file. */
class OpenFile {
  contentsModel: object;
  isDisposed = false;
  isReady = true;
  readonly model: DocumentRegistry.ICodeModel;

  constructor(
    readonly path: string,
    readonly file: IFile,
    collaborationEnabled = false
  ) {
    this.model = new TextModelFactory().createNew({ collaborationEnabled });
    this.model.fromString(file.text);
    this.model.sharedModel.clearUndoHistory();
    this.model.dirty = false;
    this.contentsModel = { path, type: 'file', format: 'text', hash: file.hash };
  }

  get text(): string {
    return this.model.sharedModel.getSource();
  }

  /** What the user types at the end. */
  type(text: string): void {
    this.model.sharedModel.updateSource(this.text.length, this.text.length, text);
    this.model.dirty = true;
  }

  /** As JupyterLab does it. */
  async revert(): Promise<void> {
    await Promise.resolve();
    if (this.file.text !== '') {
      this.model.fromString(this.file.text);
    }
    this.contentsModel = { ...this.contentsModel, hash: this.file.hash };
  }
}

function made(...files: OpenFile[]): { documents: Documents; notebook: FakeNotebook } {
  const manager = {
    registry: {
      getModelFactory: () => new TextModelFactory(),
      getWidgetFactory: () => ({ contentProviderId: 'rtc' }),
      preferredWidgetFactories: () => [{ name: 'Editor' }, { name: 'CSVTable' }]
    },
    services: {
      contents: {
        getSharedModelFactory: () => null,
        normalize: (path: string) => contents.normalize(path),
        get: (path: string) => Promise.resolve(files.find(file => file.path === path)!.file)
      }
    },
    findWidget: (path: string) => {
      const context = files.find(file => file.path === path);
      return context && { context };
    }
  };
  const notebook = new FakeNotebook([]);
  const live = new FakeLive([notebook, notebook]);
  return { documents: new Documents(live, manager as unknown as IDocumentManager), notebook };
}

async function find(documents: Documents, path = 'a.py'): Promise<IOpenDocument> {
  return (await documents.answer({ op: 'find', path })) as IOpenDocument;
}

async function edit(documents: Documents, text: string, revision?: string): Promise<unknown> {
  revision ??= (await find(documents)).revision;
  return documents.answer({ op: 'edit', path: 'a.py', revision, text });
}

function settle(documents: Documents, saved: boolean): Promise<unknown> {
  return documents.answer({ op: 'settle', path: 'a.py', saved });
}

describe('what is told of an open document', () => {
  it('is nothing of a file that is not open', async () => {
    const { documents } = made(new OpenFile('a.py', { text: 'one', hash: '1' }));
    expect(await documents.answer({ op: 'find', path: 'b.py' })).toBeNull();
  });

  it('is its text only where that is not in the file', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    expect(await find(documents)).toMatchObject({ kind: 'text', dirty: false, text: null });
    file.type(' two');
    expect(await find(documents)).toMatchObject({ dirty: true, outdated: false, text: 'one two' });
  });

  it('is always the text of one that is shared', async () => {
    const { documents } = made(new OpenFile('a.py', { text: 'one', hash: '1' }, true));
    expect(await find(documents)).toMatchObject({ shared: true, text: 'one' });
  });

  it('is that the file has changed, too', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    file.type(' two');
    file.file.hash = '2';
    expect(await find(documents)).toMatchObject({ outdated: true });
    expect(await edit(documents, 'three')).toBe('outdated');
    expect(file.text).toBe('one two');
  });

  it('is not the text of one that is too large to be sent', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    file.type('x'.repeat(3_000_000));
    expect(await find(made(file).documents)).toMatchObject({ dirty: true, text: null });
  });

  it('is another revision after each change', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    const { revision } = await find(documents);
    expect((await find(documents)).revision).toBe(revision);
    file.type('x');
    expect((await find(documents)).revision).not.toBe(revision);
    expect((await find(made(file).documents)).revision).not.toBe(revision);
  });

  it('is nothing of a picture, whose model holds base64', async () => {
    const file = new OpenFile('a.py', { text: 'aaaa', hash: '1' });
    file.contentsModel = { ...file.contentsModel, format: 'base64' };
    expect(await made(file).documents.answer({ op: 'find', path: 'a.py' })).toBeNull();
  });
});

describe('a text that is shown before it is written', () => {
  it('is one step of undo, apart from what was typed just before', async () => {
    const file = new OpenFile('a.py', { text: 'one\n', hash: '1' });
    const { documents } = made(file);
    file.type('typed\n');
    expect(await edit(documents, 'ONE\ntyped\n')).toBe('made');
    expect(file.text).toBe('ONE\ntyped\n');
    file.model.sharedModel.undo();
    expect(file.text).toBe('one\ntyped\n');
  });

  it('is refused where the user has typed since', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    const { revision } = await find(documents);
    file.type('!');
    expect(await edit(documents, 'two', revision)).toBe('changed');
    expect(file.text).toBe('one!');
  });

  it('is refused in a document that is read-only', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    file.model.readOnly = true;
    expect(await edit(made(file).documents, 'two')).toBe('read-only');
  });

  it('is clean once it is in the file, and no conflict', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    await edit(documents, 'two');
    Object.assign(file.file, { text: 'two', hash: '2' });
    await settle(documents, true);
    expect(file.text).toBe('two');
    expect(file.model.dirty).toBe(false);
    expect(file.contentsModel).toMatchObject({ hash: '2' });
    file.model.sharedModel.undo();
    expect(file.text).toBe('one');
  });

  it('keeps what is typed while it is written', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    await edit(documents, 'two');
    file.type(' typed');
    Object.assign(file.file, { text: 'two', hash: '2' });
    await settle(documents, true);
    expect(file.text).toBe('two typed');
    expect(file.model.dirty).toBe(true);
    file.model.fromString('set');
    expect(file.text).toBe('set');
  });

  it('gives way to what somebody else has written since, and can be had back', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    await edit(documents, 'two');
    Object.assign(file.file, { text: 'three', hash: '3' });
    await settle(documents, true);
    expect(file.text).toBe('three');
    expect(file.model.dirty).toBe(false);
    file.model.sharedModel.undo();
    expect(file.text).toBe('two');
  });

  it('may empty the file', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    await edit(documents, '');
    Object.assign(file.file, { text: '', hash: '2' });
    await settle(documents, true);
    expect(file.text).toBe('');
    expect(file.model.dirty).toBe(false);
  });

  it.each([false, true])(
    'is taken back if it cannot be written (dirty before: %j)',
    async dirty => {
      const file = new OpenFile('a.py', { text: 'one', hash: '1' });
      const { documents } = made(file);
      if (dirty) {
        file.type(' typed');
      }
      const before = file.text;
      await edit(documents, 'two');
      await settle(documents, false);
      expect(file.text).toBe(before);
      expect(file.model.dirty).toBe(dirty);
    }
  );

  it('stays where the user has typed on, who can undo it', async () => {
    const file = new OpenFile('a.py', { text: 'one', hash: '1' });
    const { documents } = made(file);
    await edit(documents, 'two');
    file.type(' typed');
    await settle(documents, false);
    expect(file.text).toBe('two typed');
    expect(file.model.dirty).toBe(true);
  });
});

it('joins nothing where documents are not shared', async () => {
  const { documents } = made(new OpenFile('a.py', { text: 'one', hash: '1' }));
  expect(await documents.answer({ op: 'join', path: 'b.py' })).toBeNull();
  expect(await documents.answer({ op: 'find', path: 'b.py' })).toBeNull();
});

describe('an open notebook', () => {
  function notebook(): { file: OpenFile; documents: Documents; reverted: jest.Mock } {
    const file = new OpenFile('a.ipynb', { text: '{"cells": []}', hash: '1' });
    file.contentsModel = { ...file.contentsModel, type: 'notebook', format: 'json' };
    const reverted = jest.fn();
    file.revert = () => Promise.resolve(reverted());
    return { file, documents: made(file).documents, reverted };
  }

  it('is told as JSON where it has unsaved edits, and not edited', async () => {
    const { file, documents } = notebook();
    expect(await find(documents, 'a.ipynb')).toMatchObject({ kind: 'notebook', text: null });
    file.type(' ');
    const found = await find(documents, 'a.ipynb');
    expect(JSON.parse(found.text!)).toEqual({ cells: [] });
    const { revision } = found;
    expect(await documents.answer({ op: 'edit', path: 'a.ipynb', revision, text: '' })).toBe(
      'closed'
    );
  });

  it('shows its file anew unless it has unsaved edits', async () => {
    const { file, documents, reverted } = notebook();
    expect(await documents.answer({ op: 'reload', path: 'a.ipynb' })).toBe(true);
    expect(reverted).toHaveBeenCalledTimes(1);
    file.type(' ');
    expect(await documents.answer({ op: 'reload', path: 'a.ipynb' })).toBe(false);
    expect(reverted).toHaveBeenCalledTimes(1);
  });
});

describe('a question of the kernel', () => {
  it('is answered once, though two notebooks share the kernel', async () => {
    const { documents, notebook } = made(new OpenFile('a.py', { text: 'one', hash: '1' }));
    const question: DocumentQuestion = { op: 'find', path: 'a.py' };
    const message: FromKernel = { type: 'document', ask: 'q1', question };
    notebook.received.emit(message);
    notebook.received.emit(message);
    await new Promise(resolve => setTimeout(resolve));
    expect(notebook.requests).toMatchObject([
      { type: 'document', ask: 'q1', answer: { dirty: false } }
    ]);
    documents.dispose();
    notebook.received.emit({ ...message, ask: 'q2' });
    await new Promise(resolve => setTimeout(resolve));
    expect(notebook.requests).toHaveLength(1);
  });
});

describe('replacing a text', () => {
  function replaced(old: string, text: string): unknown[] {
    const calls: unknown[] = [];
    const shared = {
      getSource: () => old,
      updateSource: (...call: unknown[]) => void calls.push(...call),
      undo: () => {}
    };
    replaceText(shared, text);
    return calls;
  }

  it.each([
    ['one two three', 'one 2 three', [4, 7, '2']],
    ['aaa', 'aaaa', [3, 3, 'a']],
    ['aaaa', 'aaa', [3, 4, '']],
    ['', 'new', [0, 0, 'new']],
    ['old', '', [0, 3, '']],
    ['same', 'same', []]
  ])('touches of %j only what %j has not', (old, text, expected) => {
    expect(replaced(old, text)).toEqual(expected);
  });

  it('tears no character apart', () => {
    // 😀 and 😁 have their first half in common, 😀 and 🨀 their second one.
    expect(replaced('a😀b', 'a😁b')).toEqual([1, 3, '😁']);
    expect(replaced('a\u{1f600}b', 'a\u{1fa00}b')).toEqual([1, 3, '\u{1fa00}']);
  });
});
