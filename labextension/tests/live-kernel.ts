/** A kernel as the live side sees it: comms that record what is sent, and signals to emit. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import type { FromKernel, ILinkState, IOption, IQuestion, Request } from '../src/protocol';
import type { ILive, ILiveNotebook } from '../src/tokens';

type Sent = Request & { id: string };

export class FakeComm {
  closed = false;
  isDisposed = false;
  onClose: (message: unknown) => void = () => {};
  onMsg: (message: unknown) => void = () => {};
  opened = false;
  sent: Sent[] = [];

  constructor(readonly targetName: string) {}

  open(): void {
    this.opened = true;
  }

  send(data: Sent): void {
    this.sent.push(data);
  }

  close(): void {
    this.closed = true;
    this.dispose();
  }

  dispose(): void {
    this.isDisposed = true;
  }

  /** The kernel says this. */
  say(data: FromKernel | object | null): void {
    this.onMsg({ content: { data } });
  }

  /** The kernel closes it. */
  end(): void {
    this.dispose();
    this.onClose({});
  }

  reply(index: number, value: unknown = null): void {
    this.say({ type: 'reply', id: this.sent[index]!.id, ok: true, value });
  }
}

export class FakeKernel {
  comms: FakeComm[] = [];
  connectionStatus: Kernel.ConnectionStatus = 'connected';
  handleComms = true;
  info = Promise.resolve({ language_info: { name: 'python' } });
  isDisposed = false;
  says: string[] = [];
  targets = new Map<string, (comm: FakeComm) => void>();

  readonly connectionStatusChanged = new Signal<this, Kernel.ConnectionStatus>(this);
  readonly disposed = new Signal<this, void>(this);
  readonly statusChanged = new Signal<this, Kernel.Status>(this);

  constructor(
    readonly name = 'acp',
    readonly id = 'k1'
  ) {}

  /** The comm that is open now. */
  get comm(): FakeComm {
    return this.comms.at(-1)!;
  }

  createComm(target: string): FakeComm {
    if (!this.handleComms) {
      throw new Error('Comms are disabled on this kernel connection');
    }
    const comm = new FakeComm(target);
    this.comms.push(comm);
    return comm;
  }

  registerCommTarget(target: string, callback: (comm: FakeComm) => void): void {
    this.targets.set(target, callback);
  }

  removeCommTarget(target: string): void {
    this.targets.delete(target);
  }

  /** Lists the comms that the kernel keeps open, as `says` has them. */
  requestCommInfo({ target_name }: { target_name: string }): Promise<object> {
    const comms = this.says.includes(target_name) ? { c1: { target_name } } : {};
    return Promise.resolve({ content: { status: 'ok', comms } });
  }

  connect(status: Kernel.ConnectionStatus): void {
    this.connectionStatus = status;
    this.connectionStatusChanged.emit(status);
  }

  /** As JupyterLab does it: comms are disposed without a word, and the connection is made anew. */
  restart(): void {
    this.statusChanged.emit('restarting');
    this.comms.forEach(comm => comm.dispose());
    this.connect('connecting');
    this.connect('connected');
  }

  dispose(): void {
    this.isDisposed = true;
    this.disposed.emit();
  }

  get connection(): Kernel.IKernelConnection {
    return this as unknown as Kernel.IKernelConnection;
  }
}

/** A notebook with these code cells. */
export class FakePanel {
  readonly content: unknown;
  readonly context: { path: string; ready: Promise<void> };
  readonly disposed = new Signal<this, void>(this);
  isDisposed = false;
  isVisible = true;
  readonly kernelChanged = new Signal<this, { newValue: Kernel.IKernelConnection | null }>(this);
  readonly sessionContext: {
    kernelChanged: FakePanel['kernelChanged'];
    session: { kernel: Kernel.IKernelConnection | null };
  };

  constructor(
    readonly id: string,
    kernel: FakeKernel | null,
    sources: string[] = []
  ) {
    const cells = sources.map(source => ({ type: 'code', sharedModel: { source } }));
    this.content = { model: { cells } };
    this.context = { path: `work/${id}.ipynb`, ready: Promise.resolve() };
    const session = { kernel: kernel?.connection ?? null };
    this.sessionContext = { kernelChanged: this.kernelChanged, session };
  }

  use(kernel: FakeKernel | null): void {
    const newValue = kernel?.connection ?? null;
    this.sessionContext.session.kernel = newValue;
    this.kernelChanged.emit({ newValue });
  }

  get panel(): NotebookPanel {
    return this as unknown as NotebookPanel;
  }
}

/** A notebook whose kernel has said this. */
export class FakeNotebook implements ILiveNotebook {
  readonly changed = new Signal<this, void>(this);
  connected = true;
  failure: string | null = null;
  links: ILinkState[];
  readonly panel: NotebookPanel;
  readonly received = new Signal<this, FromKernel>(this);
  requests: Request[] = [];

  constructor(links: ILinkState[], id = 'one') {
    this.links = links;
    this.panel = new FakePanel(id, null).panel;
  }

  request(message: Request): Promise<unknown> {
    this.requests.push(message);
    return this.failure === null ? Promise.resolve(null) : Promise.reject(new Error(this.failure));
  }
}

export class FakeLive implements ILive {
  readonly changed = new Signal<this, void>(this);

  constructor(public notebooks: FakeNotebook[]) {}

  of(panel: NotebookPanel | null): ILiveNotebook | undefined {
    return this.notebooks.find(notebook => notebook.panel === panel);
  }

  /** The kernel of the first notebook says this. */
  set(links: ILinkState[]): void {
    const notebook = this.notebooks[0]!;
    notebook.links = links;
    notebook.changed.emit();
    this.changed.emit();
  }
}

export function linkState(fields: Partial<ILinkState> = {}): ILinkState {
  return {
    key: 'a',
    name: '',
    status: 'idle',
    agent: { name: 'Demo Agent', version: '1.0.0', protocol: '1' },
    session: { id: 's1', title: 'Mend the tests', cwd: '/work' },
    sessions: [],
    options: [],
    usage: {},
    commands: [],
    questions: [],
    ...fields
  };
}

export function mode(value = 'ask'): IOption {
  const values = ['ask', 'trust'].map(each => ({
    value: each,
    name: each.toUpperCase(),
    description: '',
    group: ''
  }));
  const kind = 'select' as const;
  return { id: 'm', name: 'Mode', description: '', category: 'mode', kind, value, values };
}

export function question(fields: Partial<IQuestion> = {}): IQuestion {
  return {
    id: 'q1',
    kind: 'permission',
    title: 'Run make',
    detail: '$ make',
    tool: 'execute',
    choices: [
      { index: 0, label: 'Allow once', kind: 'allow_once' },
      { index: null, label: 'Deny', kind: 'reject_once' }
    ],
    cell: 'c1',
    ...fields
  };
}
