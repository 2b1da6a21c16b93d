/** Finds the question that waits longest for the user. */

import type { INotebookTracker } from '@jupyterlab/notebook';

import type { IQuestion } from '../protocol';
import type { ILive, ILiveNotebook } from '../tokens';

interface IOpenQuestion {
  readonly notebook: ILiveNotebook;
  readonly question: IQuestion;
}

/** The first open question of the current notebook, else of any other. */
export function nextQuestion(live: ILive, tracker: INotebookTracker): IOpenQuestion | null {
  const current = live.of(tracker.currentWidget);
  const others = live.notebooks.filter(each => each !== current);
  for (const notebook of current === undefined ? others : [current, ...others]) {
    const question = notebook.links.flatMap(link => link.questions)[0];
    if (question !== undefined) {
      return { notebook, question };
    }
  }
  return null;
}
