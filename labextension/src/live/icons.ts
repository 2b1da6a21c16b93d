/** Small pictures, drawn in the colour of the text beside them. */

import type { VirtualElement } from '@lumino/virtualdom';

import type { Status } from '../protocol';

const SVG = 'http://www.w3.org/2000/svg';

const AGENT =
  'M12 2a1.5 1.5 0 0 0-.75 2.8V6H7a3 3 0 0 0-3 3v8a3 3 0 0 0 3 3h10a3 3 0 0 0 3-3V9a3 3 0 0 0-3-3' +
  'h-4.25V4.8A1.5 1.5 0 0 0 12 2zM6 9a1 1 0 0 1 1-1h10a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1H7a1 1 0 0 1' +
  '-1-1zm3 2.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3zm6 0a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3z' +
  'M1 11h2v4H1zm20 0h2v4h-2z';

const STATUS: Record<Status, string> = {
  none: 'M12 6a6 6 0 1 0 0 12 6 6 0 0 0 0-12zm0 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z',
  starting: 'M12 3a9 9 0 1 0 9 9h-2.5A6.5 6.5 0 1 1 12 5.5z',
  idle: 'M12 6a6 6 0 1 0 0 12 6 6 0 0 0 0-12z',
  working: 'M12 3a9 9 0 1 0 9 9h-2.5A6.5 6.5 0 1 1 12 5.5z',
  waiting:
    'M12 22a2 2 0 0 0 2-2h-4a2 2 0 0 0 2 2zm6-6v-5c0-3.1-1.6-5.6-4.5-6.3V4a1.5 1.5 0 0 0-3 0v.7' +
    'C7.6 5.4 6 7.9 6 11v5l-2 2v1h16v-1z',
  ended: 'M6 6h12v12H6z'
};

export function statusIcon(status: Status): SVGSVGElement {
  const icon = svg(STATUS[status] ?? STATUS.none);
  icon.classList.add('acp-StatusIcon');
  return icon;
}

/** That of the panel's tab. */
export const agentIcon: VirtualElement.IRenderer = {
  render: host => {
    const icon = svg(AGENT);
    icon.classList.add('acp-AgentIcon');
    host.replaceChildren(icon);
  },
  unrender: host => host.replaceChildren()
};

function svg(path: string): SVGSVGElement {
  const node = document.createElementNS(SVG, 'svg');
  node.setAttribute('viewBox', '0 0 24 24');
  node.setAttribute('aria-hidden', 'true');
  const shape = document.createElementNS(SVG, 'path');
  shape.setAttribute('d', path);
  shape.setAttribute('fill', 'currentColor');
  node.append(shape);
  return node;
}
