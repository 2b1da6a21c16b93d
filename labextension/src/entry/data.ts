/**
 * From the JSON of an output to an entry, or to nothing.
 *
 * An output may come from a kernel of another version, or from a notebook that somebody made to
 * be opened here: each property is looked at before it is believed. What is not understood is
 * shown as its HTML alone.
 */

import { ENTRY_VERSION } from '../protocol';
import type { EntryData, ILocation, IOrigin, IProposedCell } from '../protocol';

type JSONObject = Record<string, unknown>;

const STATES: Record<'permission' | 'elicitation' | 'cells', readonly string[]> = {
  permission: ['allowed', 'denied', 'cancelled', 'failed'],
  elicitation: ['accepted', 'declined', 'cancelled', 'completed'],
  cells: ['proposed', 'inserted', 'run', 'dismissed']
};

function isObject(value: unknown): value is JSONObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function hasTexts(value: JSONObject, ...names: string[]): boolean {
  return names.every(name => typeof value[name] === 'string');
}

function hasCounts(value: JSONObject, ...names: string[]): boolean {
  return names.every(name => isCount(value[name]));
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isLocation(value: unknown): value is ILocation {
  return (
    isObject(value) && hasTexts(value, 'path') && (value.line === undefined || isCount(value.line))
  );
}

/** Whether it is where cells come from. */
export function isOrigin(value: unknown): value is IOrigin {
  return isObject(value) && hasTexts(value, 'agent', 'session') && isCount(value.turn);
}

/** Whether it has what makes a cell. */
export function isCode(value: unknown): value is Pick<IProposedCell, 'language' | 'source'> {
  return isObject(value) && hasTexts(value, 'language', 'source');
}

function isProposed(value: unknown): value is IProposedCell {
  return isCode(value) && STATES.cells.includes((value as IProposedCell).state);
}

function isList<T>(value: unknown, is: (item: unknown) => item is T): value is T[] {
  return Array.isArray(value) && value.every(is);
}

function isWhole(data: JSONObject): boolean {
  switch (data.type) {
    case 'tool_call':
      return (
        hasTexts(data, 'kind', 'title', 'status') &&
        typeof data.finished === 'boolean' &&
        isList(data.locations, isLocation) &&
        hasCounts(data, 'added', 'removed') &&
        (data.terminals === undefined || isList(data.terminals, isText))
      );
    case 'terminal':
      return isList(data.terminals, isText);
    case 'plan':
      return hasCounts(data, 'done', 'total');
    case 'permission':
    case 'elicitation':
      return STATES[data.type].includes(String(data.state));
    case 'footer':
      return (
        hasCounts(data, 'duration') && (data.stopReason === null || hasTexts(data, 'stopReason'))
      );
    case 'cells':
      return isList(data.cells, isProposed) && isOrigin(data.origin);
    default:
      return false;
  }
}

/** The entry, or null if this version does not understand it in full. */
export function readEntry(data: unknown): EntryData | null {
  if (!isObject(data) || !isCount(data.version) || data.version > ENTRY_VERSION) {
    return null;
  }
  return hasTexts(data, 'id', 'label') && isWhole(data) ? (data as unknown as EntryData) : null;
}
