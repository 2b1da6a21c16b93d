/**
 * Completion of `/commands` and `@mentions` in prompts. The kernel answers on the comm, and so
 * also while a cell runs, when its own completion is silent.
 */

import type {
  CompletionHandler,
  ICompletionContext,
  ICompletionProvider
} from '@jupyterlab/completer';

import type { ICompletion } from '../protocol';
import type { ILive, ILiveNotebook } from '../tokens';
import { isInPrompt } from './typing';
import { kernelOfPanel, textOf } from './subject';

/**
 * Of JupyterLab: the words of the cell, which are no mentions, and the kernel's completion, which
 * has our matches, and would be waited for.
 */
const OTHERS = ['CompletionProvider:context', 'CompletionProvider:kernel'];

/** Characters of a description beside its command. */
const DESCRIPTION_LIMIT = 72;

export class PromptCompletion implements ICompletionProvider {
  readonly identifier = 'acp-jupyter:completion';

  /** Before the kernel's (550). */
  readonly rank = 600;

  constructor(private readonly _live: ILive) {}

  isApplicable(context: ICompletionContext): Promise<boolean> {
    return Promise.resolve(this._notebook(context) !== null);
  }

  async fetch(
    request: CompletionHandler.IRequest,
    context: ICompletionContext
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const notebook = this._notebook(context);
    if (notebook === null) {
      return { start: request.offset, end: request.offset, items: [] };
    }
    const { text, offset } = request;
    const asked = notebook.request({ type: 'complete', code: text, cursor: offset });
    return itemsOf((await asked) as ICompletion);
  }

  /** The list opens by itself as `ListOpener` has it, whatever JupyterLab is set to. */
  shouldShowContinuousHint(): boolean {
    return false;
  }

  private _notebook(context: ICompletionContext): ILiveNotebook | null {
    const editor = context.editor;
    const notebook = this._live.notebooks.find(each => each.panel === context.widget);
    if (!editor || !notebook?.connected) {
      return null;
    }
    const kernel = kernelOfPanel(notebook.panel);
    const cell = notebook.panel.content.widgets.find(each => each.editor === editor);
    if (kernel === null || cell === undefined) {
      return null;
    }
    const cursor = editor.getOffsetAt(editor.getCursorPosition());
    return isInPrompt(kernel, textOf(cell.model), cursor) ? notebook : null;
  }
}

/** Have prompts completed by ours alone, where it can: JupyterLab asks all that apply. */
export function leavePrompts(
  providers: ReadonlyMap<string, ICompletionProvider>,
  ours: PromptCompletion
): void {
  for (const id of OTHERS) {
    const other = providers.get(id);
    if (other !== undefined) {
      const isApplicable = other.isApplicable.bind(other);
      other.isApplicable = async context =>
        !(await ours.isApplicable(context)) && isApplicable(context);
    }
  }
}

/** Matches as the completer shows them. What stands in parentheses is not searched by it. */
export function itemsOf(completion: ICompletion): CompletionHandler.ICompletionItemsReply {
  const items = completion.matches.map(({ text, type, signature }) => {
    const words = signature.replace(/\s+/g, ' ').trim();
    const label = words === '' ? text : `${text} (${shortened(words)})`;
    return { label, insertText: text, type, ...(words === '' ? {} : { documentation: words }) };
  });
  return { start: completion.start, end: completion.end, items };
}

function shortened(text: string): string {
  if (text.length <= DESCRIPTION_LIMIT) {
    return text;
  }
  // At the end of a word, or at least not within a character.
  const kept = text.slice(0, DESCRIPTION_LIMIT + 1).replace(/\s\S*$/, '');
  return `${kept.slice(0, DESCRIPTION_LIMIT).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
