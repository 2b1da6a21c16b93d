/** Reads a notebook's cell as what a command is about. */

import {
  isCodeCellModel,
  type Cell,
  type ICellModel,
  type ICodeCellModel
} from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel as KernelServices } from '@jupyterlab/services';

import { isPython, kernelOf, type ICellText, type Kernel } from './cell';
import { plainTraceback, type IFailure, type ISubject } from './prompts';

/** How long the kernel may take to say what it has run, in milliseconds: it may be busy. */
const HISTORY_TIMEOUT = 1000;

/** The kernel of a notebook; `null` if agents are none of its. */
export function kernelOfPanel(panel: NotebookPanel): Kernel | null {
  return kernelOf(panel.context.model.defaultKernelLanguage);
}

export function textOf(model: ICellModel): ICellText {
  const tags: unknown = model.getMetadata('tags');
  return {
    type: model.type === 'markdown' ? 'markdown' : model.type === 'code' ? 'code' : 'raw',
    source: model.sharedModel.getSource(),
    tags: Array.isArray(tags) ? tags.filter(tag => typeof tag === 'string') : []
  };
}

/** Whether code in this cell has failed. */
export function hasFailed(panel: NotebookPanel, model: ICellModel): boolean {
  const kernel = kernelOfPanel(panel);
  return (
    kernel !== null &&
    isPython(kernel, textOf(model)) &&
    isCodeCellModel(model) &&
    traceback(model) !== null
  );
}

export async function subjectOf(panel: NotebookPanel, cell: Cell): Promise<ISubject> {
  const model = cell.model;
  return {
    ...textOf(model),
    number: isCodeCellModel(model) ? await knownNumber(panel, model) : null,
    selection: selectionOf(cell),
    failure: isCodeCellModel(model) ? failureOf(panel, model) : null
  };
}

function selectionOf(cell: Cell): string {
  const editor = cell.editor;
  if (editor === null) {
    return '';
  }
  const { start, end } = editor.getSelection();
  const [first, last] = [editor.getOffsetAt(start), editor.getOffsetAt(end)].sort((a, b) => a - b);
  return cell.model.sharedModel.getSource().slice(first, last);
}

/**
 * The cell's number, if the kernel knows this very source under it. The number beside a cell may be
 * one of a kernel that was restarted since, or of what the cell was before it was edited.
 */
async function knownNumber(panel: NotebookPanel, model: ICodeCellModel): Promise<number | null> {
  const kernel = panel.sessionContext.session?.kernel;
  const number = model.executionCount;
  if (!kernel || number === null || kernel.status === 'busy') {
    return null;
  }
  const source = await sourceInKernel(kernel, number);
  return source?.trimEnd() === model.sharedModel.getSource().trimEnd() ? number : null;
}

async function sourceInKernel(
  kernel: KernelServices.IKernelConnection,
  number: number
): Promise<string | null> {
  let timer = 0;
  const late = new Promise<null>(resolve => {
    timer = window.setTimeout(() => resolve(null), HISTORY_TIMEOUT);
  });
  const asked = kernel.requestHistory({
    hist_access_type: 'range',
    session: 0,
    start: number,
    stop: number + 1,
    raw: true,
    output: false
  });
  try {
    const content = (await Promise.race([asked, late]))?.content;
    const source = content?.status === 'ok' ? content.history[0]?.[2] : null;
    return typeof source === 'string' ? source : null;
  } finally {
    window.clearTimeout(timer);
  }
}

function failureOf(panel: NotebookPanel, model: ICodeCellModel): IFailure | null {
  const text = traceback(model);
  if (text === null) {
    return null;
  }
  const later = [...(panel.content.model?.cells ?? [])].filter(
    other =>
      isCodeCellModel(other) &&
      (other.executionCount ?? 0) > (model.executionCount ?? 0) &&
      traceback(other) !== null
  );
  return { text, last: later.length === 0 };
}

function traceback(model: ICodeCellModel): string | null {
  for (const output of model.outputs.toJSON()) {
    if (output.output_type === 'error') {
      const lines: unknown = output.traceback;
      return Array.isArray(lines) ? plainTraceback(lines.map(String)) : '';
    }
  }
  return null;
}
