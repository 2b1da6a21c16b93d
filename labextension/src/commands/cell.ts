/**
 * What a cell is to its kernel. Pure; the rules for the agent kernel are those of
 * `kernel/cells.py`.
 */

/** The kernels in which agents are: that of prompts, and Python with the extension. */
export type Kernel = 'agent' | 'python';

export interface ICellText {
  readonly type: 'code' | 'markdown' | 'raw';
  readonly source: string;
  readonly tags: readonly string[];
}

const PARAMETERS = ['parameters', 'injected-parameters'];

/** The kernel of a notebook by the name of its language; `null` if agents are none of its. */
export function kernelOf(language: string): Kernel | null {
  return language === 'acp' ? 'agent' : language === 'python' ? 'python' : null;
}

/** Where the prompt in a cell begins; `null` if it holds none. */
export function promptStart(kernel: Kernel, cell: ICellText): number | null {
  if (cell.type !== 'code') {
    return null;
  }
  const magic = /^\n*%%acp(?![\w.])[^\n]*(\n?)/.exec(cell.source);
  if (magic !== null) {
    return magic[1] === '' ? null : magic[0].length;
  }
  return kernel === 'agent' && !isPython(kernel, cell) ? 0 : null;
}

/** Whether a cell is code that the kernel runs, not a prompt and no command to us. */
export function isPython(kernel: Kernel, cell: ICellText): boolean {
  const source = cell.source.replace(/^\n+/, '');
  if (cell.type !== 'code' || /^%{1,2}acp(?![\w.])/.test(source)) {
    return false;
  }
  const tagged = PARAMETERS.some(tag => cell.tags.includes(tag));
  return kernel === 'python' || tagged || /^%%[A-Za-z_]/.test(source);
}

/** Whether a cell loads the extension, and does nothing that is not about agents. */
export function isLoading(source: string): boolean {
  const lines = source.split('\n').map(line => line.trim());
  const told = lines.filter(line => line !== '' && !line.startsWith('#'));
  return (
    told.some(line => LOADING.test(line)) &&
    told.every(line => LOADING.test(line) || /^%acp(?![\w.])/.test(line))
  );
}

const LOADING = /^%(?:re)?load_ext\s+acp_jupyter$/;
