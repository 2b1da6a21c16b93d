/** What an agent is and does, in words. */

import type { ILinkState, IOption, Status } from '../protocol';
import type { ILiveNotebook } from '../tokens';

const WORDS: Record<Status, string> = {
  none: 'No agent',
  starting: 'Starting',
  idle: 'Idle',
  working: 'Working',
  waiting: 'Waiting for you',
  ended: 'Ended'
};

/** What is shown of several links: the one that wants the user most. */
const URGENCY: readonly Status[] = ['waiting', 'working', 'starting', 'idle', 'ended', 'none'];

/** Characters of a session's title: mode and cost are to have room beside it. */
const TITLE_LENGTH = 24;

export function statusWords(status: Status): string {
  return WORDS[status] ?? status;
}

export function foremost(links: readonly ILinkState[]): ILinkState | undefined {
  const rank = (link: ILinkState): number => {
    const index = URGENCY.indexOf(link.status);
    return index < 0 ? URGENCY.length : index;
  };
  return [...links].sort((one, other) => rank(one) - rank(other))[0];
}

/** The agent's name, with that which the user gave it. */
export function linkName(link: ILinkState): string {
  const agent = link.agent?.name ?? '';
  if (link.name !== '' && agent !== '') {
    return `${agent} (${link.name})`;
  }
  return agent || link.name || 'Agent';
}

export function valueName(option: IOption): string {
  if (typeof option.value === 'boolean') {
    return option.value ? 'on' : 'off';
  }
  return option.values.find(value => value.value === option.value)?.name ?? option.value;
}

/** Names of the mode and the model that are set. */
function setNames(link: ILinkState): string[] {
  return ['mode', 'model'].flatMap(category =>
    link.options.filter(option => option.category === category).map(valueName)
  );
}

/** Share of the context in use, 0 to 100; `null` if it is not known. */
export function contextPercent(usage: ILinkState['usage']): number | null {
  const { used, size } = usage;
  return used === undefined || size === undefined || size <= 0
    ? null
    : Math.round((100 * used) / size);
}

export function costText(cost: { amount: number; currency: string }): string {
  try {
    return new Intl.NumberFormat(undefined, {
      style: 'currency',
      currency: cost.currency,
      // Turns cost fractions of a cent.
      maximumFractionDigits: Math.abs(cost.amount) < 1 ? 4 : 2
    }).format(cost.amount);
  } catch (error) {
    if (error instanceof RangeError) {
      return `${cost.amount} ${cost.currency}`; // No currency that the browser knows of.
    }
    throw error;
  }
}

function shortened(title: string): string {
  const characters = Array.from(title);
  return characters.length > TITLE_LENGTH
    ? `${characters.slice(0, TITLE_LENGTH - 1).join('')}…`
    : title;
}

/** Beside the status: agent, session, mode, model, context in use, cost. */
export function linkParts(link: ILinkState): string[] {
  const percent = contextPercent(link.usage);
  return [
    linkName(link),
    shortened(link.session?.title ?? ''),
    ...setNames(link),
    percent === null ? '' : `${percent} %`,
    link.usage.cost === undefined ? '' : costText(link.usage.cost)
  ].filter(part => part !== '');
}

/** All that there is to tell, a line each. */
export function linkLines(link: ILinkState): string[] {
  const { agent, session, usage } = link;
  const percent = contextPercent(usage);
  return [
    `${linkName(link)}: ${statusWords(link.status)}`,
    session === null ? '' : `Session: ${session.title || session.id}`,
    ...link.options.map(option => `${option.name}: ${valueName(option)}`),
    percent === null ? '' : `Context: ${percent} % of ${(usage.size ?? 0).toLocaleString()} tokens`,
    usage.cost === undefined ? '' : `Cost: ${costText(usage.cost)}`,
    agent === null ? '' : `Version ${agent.version}, protocol ${agent.protocol}`
  ].filter(line => line !== '');
}

/** The notebooks whose kernels speak, each kernel once. */
export function speaking(notebooks: readonly ILiveNotebook[]): ILiveNotebook[] {
  const seen = new Set<unknown>();
  return notebooks.filter(notebook => {
    if (!notebook.connected || seen.has(notebook.links)) {
      return false;
    }
    seen.add(notebook.links);
    return true;
  });
}
