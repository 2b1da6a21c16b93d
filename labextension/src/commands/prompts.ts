/**
 * The prompts that commands make of cells. Pure.
 *
 * A cell that the kernel knows is mentioned, so that its output goes with it; any other one is
 * quoted. Fences are longer than any in what they hold: nothing in it is read as our words.
 */

import type { ICellText, Kernel } from './cell';

export interface IFailure {
  /** The traceback, without colours. */
  readonly text: string;
  /** Nothing has failed in the kernel since. */
  readonly last: boolean;
}

/** The cell that a command is about. */
export interface ISubject extends ICellText {
  /** Its number, if the kernel has run it under that number as it stands; else `null`. */
  readonly number: number | null;
  /** What is selected in it; may be empty. */
  readonly selection: string;
  /** The error in its output. */
  readonly failure: IFailure | null;
}

/** Characters of a traceback that is quoted: its end, where the error is. */
const TRACEBACK_LIMIT = 6000;

/** The beginning of a question, for the user to go on. */
export function askPrompt(kernel: Kernel, cell: ISubject): string {
  if (cell.selection.trim() !== '') {
    const place = cell.number === null ? 'a cell' : `@cell:${cell.number}`;
    return `About this part of ${place}:\n\n${quoted(kernel, cell, cell.selection)}\n\n`;
  }
  if (cell.number !== null) {
    return `About @cell:${cell.number}: `;
  }
  return `About this cell:\n\n${quoted(kernel, cell)}\n\n`;
}

export function explainPrompt(kernel: Kernel, cell: ISubject): string {
  if (cell.number !== null) {
    return `Explain @cell:${cell.number}: what it does, step by step, and what its output means.`;
  }
  const what = cell.type === 'code' ? 'what it does, step by step' : 'what it says';
  return `Explain this cell: ${what}.\n\n${quoted(kernel, cell)}`;
}

export function fixPrompt(kernel: Kernel, cell: ISubject): string {
  const failure = cell.failure;
  if (cell.number !== null && failure?.last === true) {
    return `Fix the error in @cell:${cell.number}: @error`;
  }
  const error = failure === null ? '' : `\n\n${fenced(clipped(failure.text), '')}`;
  if (cell.number !== null) {
    return `Fix the error in @cell:${cell.number}:${error}`;
  }
  return `Fix the error in this cell:\n\n${quoted(kernel, cell)}\n\nIt ended with:${error}`;
}

/** The cell that sends a prompt. */
export function promptCell(kernel: Kernel, prompt: string): string {
  return kernel === 'agent' ? prompt : `%%acp\n${prompt}`;
}

/** What a terminal would show of an error's traceback, without its colours. */
export function plainTraceback(lines: readonly string[]): string {
  // eslint-disable-next-line no-control-regex
  return lines.join('\n').replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, '');
}

function quoted(kernel: Kernel, cell: ICellText, text = cell.source): string {
  const python = cell.type === 'code' && (kernel === 'python' || /^\s*%%/.test(cell.source));
  return fenced(text, python ? 'python' : cell.type === 'markdown' ? 'markdown' : '');
}

function fenced(text: string, language: string): string {
  const runs = text.match(/`{3,}/g) ?? [];
  const fence = '`'.repeat(Math.max(2, ...runs.map(run => run.length)) + 1);
  return `${fence}${language}\n${text.replace(/\n+$/, '')}\n${fence}`;
}

function clipped(text: string): string {
  return text.length > TRACEBACK_LIMIT ? `…${text.slice(-TRACEBACK_LIMIT)}` : text;
}
