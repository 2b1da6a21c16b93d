import { ContentsManager, ServerConnection, type Contents } from '@jupyterlab/services';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';

import { Follower } from '../src/live/follow';
import { CannotOpen, Opener, resolvePath } from '../src/live/open';
import { Preferences } from '../src/live/settings';
import type { ILocation } from '../src/protocol';
import { FakeLive, FakeNotebook } from './live-kernel';

describe('where a file is', () => {
  const contents = new ContentsManager();

  it.each([
    ['work/a.ipynb', 'app.py', 'work/app.py'],
    ['work/a.ipynb', './src/../app.py', 'work/app.py'],
    ['work/deep/a.ipynb', '../app.py', 'work/app.py'],
    ['a.ipynb', 'src/app.py', 'src/app.py'],
    ['', 'app.py', 'app.py']
  ])('for the notebook %j, %j is %j', (notebook, path, expected) => {
    expect(resolvePath(contents, notebook, path)).toBe(expected);
  });

  it.each([
    ['a.ipynb', '../app.py'],
    ['work/a.ipynb', '../../etc/passwd'],
    ['work/a.ipynb', '..'.padEnd(300, '/..')],
    ['work/a.ipynb', '/etc/passwd'],
    ['a.ipynb', 'Other:app.py'],
    ['work/a.ipynb', '../Other:app.py']
  ])('for the notebook %j, %j is nowhere', (notebook, path) => {
    expect(() => resolvePath(contents, notebook, path)).toThrow(CannotOpen);
  });
});

// Only needed to move a tab that is open.
const NO_APP = {} as unknown as JupyterFrontEnd;

/** What the server has, and what was opened. */
class Documents {
  opened: string[] = [];
  readonly services: { contents: object };

  constructor(files: Record<string, Partial<Contents.IModel>>) {
    const contents = new ContentsManager();
    this.services = {
      contents: {
        driveName: (path: string) => contents.driveName(path),
        localPath: (path: string) => contents.localPath(path),
        get: (path: string) =>
          path in files
            ? Promise.resolve({ path, type: 'file', size: 10, ...files[path] })
            : Promise.reject(
                new ServerConnection.ResponseError(new Response(null, { status: 404 }))
              )
      }
    };
  }

  findWidget(): undefined {
    return undefined;
  }

  open = (path: string): undefined => void this.opened.push(path);

  openOrReveal = this.open;

  get opener(): Opener {
    return new Opener(NO_APP, this as unknown as IDocumentManager);
  }
}

describe('opening a location', () => {
  afterEach(() => Notification.dismiss());

  it('asks the server first, and tells what it does not have', async () => {
    const documents = new Documents({ 'work/app.py': {}, 'work/src': { type: 'directory' } });
    for (const path of ['app.py', 'missing.py', 'src', '../../x']) {
      await documents.opener.open({ path }, 'work/a.ipynb');
    }
    expect(documents.opened).toEqual(['work/app.py']);
    expect(Notification.manager.notifications.map(each => each.message).reverse()).toEqual([
      'missing.py cannot be opened: the server shows no such file.',
      'src is a folder. Open it in the file browser.',
      '../../x is outside the folder that this server shows.'
    ]);
  });
});

describe('following along', () => {
  const FILES = {
    'work/one.py': {},
    'work/two.py': {},
    'work/huge.csv': { size: 50_000_000 },
    'work/b.ipynb': { type: 'notebook' }
  };

  async function follow(on: boolean, ...paths: string[]): Promise<string[]> {
    const live = new FakeLive([new FakeNotebook([])]);
    const documents = new Documents(FILES);
    const preferences = new Preferences();
    await preferences.set('follow', on);
    const follower = new Follower(live, documents.opener, preferences);
    for (const path of paths) {
      const location: ILocation = { path };
      live.notebooks[0]!.received.emit({ type: 'follow', link: 'a', location });
    }
    await new Promise(resolve => setTimeout(resolve));
    follower.dispose();
    live.notebooks[0]!.received.emit({ type: 'follow', link: 'a', location: { path: 'one.py' } });
    await new Promise(resolve => setTimeout(resolve));
    return documents.opened;
  }

  it('is off until it is switched on', async () => {
    expect(await follow(false, 'one.py')).toEqual([]);
    expect(await follow(true, 'one.py')).toEqual(['work/one.py']);
  });

  it('leaves out what was overtaken', async () => {
    expect(await follow(true, 'one.py', 'one.py', 'one.py', 'two.py')).toEqual([
      'work/one.py',
      'work/two.py'
    ]);
  });

  it.each(['huge.csv', 'b.ipynb', 'missing.py', '../../etc/passwd'])(
    'passes over %s without a word',
    async path => {
      expect(await follow(true, path)).toEqual([]);
      expect(Notification.manager.notifications).toEqual([]);
    }
  );
});
