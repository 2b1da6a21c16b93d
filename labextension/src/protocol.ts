/**
 * What the kernel and this extension say to each other: the data of outputs, and the messages of
 * the comm. The Python side is `rendering/entrydata.py` and `host/live.py`; the files in
 * `tests/golden/entries` are read by the tests of both.
 *
 * Text that comes from an agent has had its deceptive characters made visible by the kernel. It
 * is still text: it becomes a text node, never markup.
 */

/** MIME type of the data of an entry, beside the `text/html` and `text/plain` of its output. */
export const ENTRY_MIME = 'application/vnd.acp.entry+json';

/** The version of the entry data that this extension reads. */
export const ENTRY_VERSION = 1;

/** A file that an entry is about. `path` is relative to the notebook's folder, with `/`. */
export interface ILocation {
  path: string;
  line?: number;
}

interface IEntryBase {
  /** Grows when a reader of an older version would misread the entry: it shows the HTML. */
  version: number;
  /** The entry's display id. */
  id: string;
  /** One line for screen readers, e.g. `Edit app.py: completed`. */
  label: string;
}

export interface IToolCallData extends IEntryBase {
  type: 'tool_call';
  kind: string;
  title: string;
  status: string;
  /** Whether it has ended, in whatever way. */
  finished: boolean;
  locations: ILocation[];
  /** Lines of its diffs. */
  added: number;
  removed: number;
  /** Ids of the terminals that it shows and whose command runs. */
  terminals?: string[];
}

/** A terminal of the client's that no tool call shows, while its command runs. */
export interface ITerminalData extends IEntryBase {
  type: 'terminal';
  terminals: string[];
}

export interface IPlanData extends IEntryBase {
  type: 'plan';
  done: number;
  total: number;
}

export interface IPermissionData extends IEntryBase {
  type: 'permission';
  state: 'allowed' | 'denied' | 'cancelled' | 'failed';
}

export interface IElicitationData extends IEntryBase {
  type: 'elicitation';
  state: 'accepted' | 'declined' | 'cancelled' | 'completed';
}

export interface IFooterData extends IEntryBase {
  type: 'footer';
  stopReason: string | null;
  /** Seconds. */
  duration: number;
}

/** A cell that is proposed. */
export interface IProposedCell {
  /** `python`, `bash`, `markdown`, …: the language's usual name in lower case. */
  language: string;
  source: string;
  state: 'proposed' | 'inserted' | 'run' | 'dismissed';
}

/** Where proposed cells come from; kept in the metadata of the cells made of them. */
export interface IOrigin {
  agent: string;
  session: string;
  turn: number;
}

export interface ICellsData extends IEntryBase {
  type: 'cells';
  cells: IProposedCell[];
  origin: IOrigin;
}

export type EntryData =
  | IToolCallData
  | ITerminalData
  | IPlanData
  | IPermissionData
  | IElicitationData
  | IFooterData
  | ICellsData;

// -- the comm --------------------------------------------------------------------------------

/** Target of the comm that a frontend opens; the kernel answers it also while a cell runs. */
export const LIVE_TARGET = 'acp.live';

/**
 * Target of the comm that the kernel opens once, to say that frontends may open theirs: when the
 * extension is loaded in a Python kernel that runs already.
 */
export const HELLO_TARGET = 'acp.live.hello';

export const LIVE_VERSION = 1;

/** What an agent of the notebook is doing. */
export type Status =
  /** There is none. */
  | 'none'
  | 'starting'
  | 'idle'
  | 'working'
  /** A question waits for the user. */
  | 'waiting'
  /** It ended by itself, or was ended. */
  | 'ended';

export interface IOptionValue {
  value: string;
  name: string;
  description: string;
  /** Title of the group it stands in; may be empty. */
  group: string;
}

/** Something of the session that the user can set: a config option, a mode, a model. */
export interface IOption {
  id: string;
  name: string;
  description: string;
  /** `mode`, `model`, `thought_level`, or what else the agent says; may be empty. */
  category: string;
  kind: 'select' | 'boolean';
  value: string | boolean;
  /** Of a select. */
  values: IOptionValue[];
}

/** An open question of the agent's. */
export interface IQuestion {
  id: string;
  kind: 'permission' | 'form' | 'url';
  title: string;
  /** The evidence as text: command, diff, input; bounded. */
  detail: string;
  /** Kind of the tool; `other` if it has none. */
  tool: string;
  /** Of a permission: in the order of the buttons, with our own Deny (index `null`) last. */
  choices: { index: number | null; label: string; kind: string }[];
  /** Id of the notebook's cell that shows it; may be empty. */
  cell: string;
}

/** A command that the agent runs. */
export interface ITerminal {
  id: string;
  command: string;
  /** Its working directory. */
  cwd: string;
}

export interface ILinkState {
  /** Unique in the kernel; named in requests. */
  key: string;
  /** The name that the user gave with `--as`; empty for the one without. */
  name: string;
  status: Status;
  agent: { name: string; version: string; protocol: string } | null;
  session: { id: string; title: string; cwd: string } | null;
  /** All sessions of the agent in this kernel. */
  sessions: { id: string; title: string; status: Status }[];
  options: IOption[];
  usage: {
    /** Tokens of context in use, and its size. */
    used?: number;
    size?: number;
    cost?: { amount: number; currency: string };
  };
  commands: { name: string; description: string }[];
  questions: IQuestion[];
  /** Commands that run; a kernel of an older version does not tell. */
  terminals?: ITerminal[];
}

export interface IWireLine {
  /** Counts from 1. */
  number: number;
  direction: 'sent' | 'received' | 'stderr';
  /** Milliseconds since the epoch. */
  time: number;
  /** The line, secrets replaced, bounded. */
  text: string;
}

/**
 * What the kernel asks about a document that may be open in the page: the agent has asked for its
 * file. `path` is the server's, relative to its root folder.
 */
export type DocumentQuestion =
  /** Answer: `IOpenDocument`, or `null` if it is not open. */
  | { op: 'find'; path: string }
  /**
   * Open it with those who may have it open elsewhere, without showing it, until it is settled.
   * Answer: as to `find`; `null` where documents are not shared (jupyter-collaboration).
   */
  | { op: 'join'; path: string }
  /** Show this text, as one step of the user's undo. Answer: `EditOutcome`. */
  | { op: 'edit'; path: string; revision: string; text: string }
  /** What was shown is in the file now; or never will be, so take it back. Answer: `null`. */
  | { op: 'settle'; path: string; saved: boolean }
  /** The notebook's file was written: show it. Answer: whether that was done. */
  | { op: 'reload'; path: string };

export interface IOpenDocument {
  kind: 'text' | 'notebook';
  /** Another one for each text of it. */
  revision: string;
  /** Whether it has edits that are not in the file. */
  dirty: boolean;
  /** Whether it is edited with others, and saved by the server (jupyter-collaboration). */
  shared: boolean;
  readOnly: boolean;
  /** Whether the file was changed since it was loaded; only looked for where it is dirty. */
  outdated: boolean;
  /** Where it is dirty or shared. Line ends are `\n`; a notebook is JSON. `null`: too large. */
  text: string | null;
}

export type EditOutcome =
  | 'made'
  /** It is another revision. */
  | 'changed'
  | 'closed'
  | 'outdated'
  | 'read-only';

/** Kernel to frontend. */
export type FromKernel =
  | { type: 'state'; version: number; links: ILinkState[] }
  /** The agent works on this file: for a user who follows along. */
  | { type: 'follow'; link: string; location: ILocation }
  | { type: 'wire'; link: string; lines: IWireLine[] }
  /** Answered by a request of type `document` with the same `ask`. */
  | { type: 'document'; ask: string; question: DocumentQuestion }
  /** Answer to the request of that id. */
  | { type: 'reply'; id: string; ok: true; value: unknown }
  | { type: 'reply'; id: string; ok: false; error: string };

/** Frontend to kernel. Each has an id and gets a `reply`. */
export type Request =
  /** First message, and after each reconnection: a `state` follows. */
  | { type: 'hello'; version: number }
  | { type: 'set'; link: string; option: string; value: string | boolean }
  | { type: 'answer'; link: string; question: string; choice: number | null }
  | { type: 'cancel'; link: string }
  /** Have the wire sent from now on, or no longer. */
  | { type: 'wire'; link: string; on: boolean }
  /** Reply: `ICompletion`. Places in the code are counted as JavaScript does. */
  | { type: 'complete'; code: string; cursor: number }
  /** End a command, and all that it started. */
  | { type: 'stop'; terminal: string }
  /** Reply: `IAttachment`. */
  | { type: 'attach'; terminal: string }
  /** What became of a proposed cell. */
  | { type: 'cells'; entry: string; index: number; state: IProposedCell['state'] }
  /** What a `document` of the kernel's asked for. */
  | { type: 'document'; ask: string; answer: IOpenDocument | EditOutcome | boolean | null }
  /** Reply: `{ name, text }`. `path` is the notebook's, absolute or relative to its folder. */
  | { type: 'export'; path: string; to: 'html' | 'md' | 'json'; redact: boolean };

export interface ICompletion {
  start: number;
  end: number;
  matches: { text: string; type: string; signature: string }[];
}

/** The command line that shows a command's output in a terminal on the kernel's machine. */
export interface IAttachment {
  command: string;
}
