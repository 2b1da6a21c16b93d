/**
 * The HTML of an entry, made anew from what may be in it.
 *
 * The sanitizer of the application takes away what our HTML needs (styles with variables of the
 * theme) and keeps what it must not have (buttons, forms, positions, classes of the application),
 * and a trusted notebook does not pass through it at all. So an inert document is parsed, in
 * which nothing runs or loads, and each element, attribute and style that is on the lists below
 * is created again. Nothing is copied, and no HTML is written or parsed a second time. The rules:
 *
 * * Elements that hold code or other languages go with their content; other unknown ones leave
 *   theirs.
 * * Links lead to http(s), in a new tab. Pictures and sounds are embedded data; nothing is fetched.
 * * No ids, names, data attributes or handlers, and no classes but those of code in colour.
 */

const TAGS = new Set(
  (
    'a audio b blockquote br caption code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img' +
    ' kbd li ol p pre s small span strong sub summary sup table tbody td th thead tr ul'
  ).split(' ')
);

/** What goes with its content. */
const DROPPED = new Set(
  (
    'applet base embed frame frameset head iframe link math meta noembed noframes noscript object' +
    ' script select style svg template textarea title xmp'
  ).split(' ')
);

/** Browsers themselves allow 512 levels. */
const MAX_DEPTH = 256;

const CLASSES = new Set(['highlight', 'mathjax_ignore', 'tex2jax_ignore']);
/** Names of tokens in coloured code. */
const TOKEN_CLASS = /^[a-z][a-z0-9]{0,2}$/;

const EMBEDDED = {
  img: /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/,
  audio: /^data:audio\/[a-z0-9]{1,10};base64,[A-Za-z0-9+/]+={0,2}$/
};

const LENGTH = '(?:0|\\d{0,3}(?:\\.\\d{1,3})?(?:em|rem|ch|ex|px|pt|%))';
const NAMED_COLOR = '[a-z]{1,20}|#[0-9a-f]{3,8}|(?:rgb|hsl)a?\\([0-9., %/]{1,40}\\)';
const COLOR = `(?:var\\(--jp-[a-z0-9-]{1,60}(?:, ?(?:${NAMED_COLOR}))?\\)|${NAMED_COLOR})`;
const BORDER = `(?:${LENGTH} ?)?(?:(?:none|solid|dashed|dotted) ?)?(?:${COLOR})?`;
const SIZE = `(?:${LENGTH}|auto|none|min-content|max-content)`;
const BOX = `${LENGTH}(?: ${LENGTH}){0,3}`;

/** Properties to the values that they may have. None takes an element out of its place. */
const STYLES = new Map(
  Object.entries({
    background: COLOR,
    'background-color': COLOR,
    border: BORDER,
    'border-bottom': BORDER,
    'border-collapse': 'collapse|separate',
    'border-color': COLOR,
    'border-left': BORDER,
    'border-left-color': COLOR,
    'border-radius': BOX,
    'border-right': BORDER,
    'border-top': BORDER,
    color: COLOR,
    display: 'block|inline|inline-block|flex|grid|list-item',
    'flex-wrap': 'wrap|nowrap',
    'font-family': 'var\\(--jp-code-font-family(?:, ?monospace)?\\)|monospace',
    'font-size': '(?:0?\\.[5-9]\\d?|1(?:\\.[0-5]\\d?)?)em|(?:[5-9]\\d|1[0-5]\\d)%',
    'font-style': 'normal|italic',
    'font-weight': 'normal|bold|[1-9]00',
    gap: BOX,
    'line-height': '\\d(?:\\.\\d{1,2})?(?:em)?',
    'list-style': 'none',
    margin: `(?:${LENGTH}|auto)(?: (?:${LENGTH}|auto)){0,3}`,
    'margin-bottom': LENGTH,
    'margin-left': LENGTH,
    'margin-right': LENGTH,
    'margin-top': LENGTH,
    'max-height': SIZE,
    'max-width': SIZE,
    'min-width': SIZE,
    opacity: '(?:0?\\.[3-9]\\d?|1)',
    overflow: 'auto|hidden|visible',
    'overflow-wrap': 'anywhere|break-word|normal',
    'overflow-x': 'auto|hidden|visible',
    'overflow-y': 'auto|hidden|visible',
    padding: BOX,
    'padding-left': LENGTH,
    'padding-right': LENGTH,
    'text-align': 'left|right|center|start|end',
    'text-decoration': '(?:underline|line-through|none)(?: (?:underline|line-through))?',
    'user-select': 'none|auto',
    'vertical-align': 'top|middle|bottom|baseline',
    'white-space': 'normal|nowrap|pre|pre-wrap|pre-line',
    width: SIZE,
    'word-break': 'normal|break-all|break-word'
  }).map(([name, values]): [string, RegExp] => [name, new RegExp(`^(?:${values})$`, 'i')])
);

/** The declarations of a style that may stay. */
function cleanStyle(style: string): string {
  const kept: string[] = [];
  for (const declaration of style.split(';')) {
    const [name = '', value = '', ...rest] = declaration.split(':').map(part => part.trim());
    if (!rest.length && STYLES.get(name.toLowerCase())?.test(value)) {
      kept.push(`${name}:${value}`);
    }
  }
  return kept.join(';');
}

function cleanClasses(classes: string, tag: string): string {
  const names = classes.split(/\s+/);
  return names
    .filter(name => CLASSES.has(name) || (tag === 'span' && TOKEN_CLASS.test(name)))
    .join(' ');
}

const WEB = /^https?:\/\/[^\s/?#\\@"<>`]+(?:[/?#][^\s"<>`]*)?$/i;

/** Whether it is an absolute web address, without user and password. */
export function isWebAddress(href: string): boolean {
  return WEB.test(href);
}

function setLink(made: Element, given: Element): void {
  const address = given.getAttribute('href') ?? '';
  if (isWebAddress(address)) {
    made.setAttribute('href', address);
    made.setAttribute('target', '_blank');
    made.setAttribute('rel', 'noopener noreferrer');
  }
}

function setMedia(made: Element, given: Element, tag: 'img' | 'audio'): void {
  const source = given.getAttribute('src') ?? '';
  if (EMBEDDED[tag].test(source)) {
    made.setAttribute('src', source);
  }
  if (tag === 'audio') {
    made.setAttribute('controls', '');
  } else {
    made.setAttribute('alt', given.getAttribute('alt') ?? '');
  }
}

function setNumber(made: Element, given: Element, name: string, limit: number): void {
  const value = given.getAttribute(name) ?? '';
  if (/^\d{1,9}$/.test(value) && Number(value) <= limit) {
    made.setAttribute(name, value);
  }
}

function setAttributes(made: Element, given: Element, tag: string): void {
  const classes = cleanClasses(given.getAttribute('class') ?? '', tag);
  if (classes) {
    made.setAttribute('class', classes);
  }
  const style = cleanStyle(given.getAttribute('style') ?? '');
  if (style) {
    made.setAttribute('style', style);
  }
  if (tag === 'a') {
    setLink(made, given);
  } else if (tag === 'img' || tag === 'audio') {
    setMedia(made, given, tag);
  } else if (tag === 'details' && given.hasAttribute('open')) {
    made.setAttribute('open', '');
  } else if (tag === 'ol') {
    setNumber(made, given, 'start', 999_999_999);
  } else if (tag === 'td' || tag === 'th') {
    setNumber(made, given, 'colspan', 100);
  }
}

function isHTML(element: Element): boolean {
  return element.namespaceURI === 'http://www.w3.org/1999/xhtml';
}

function build(given: Node, into: Node, depth: number): void {
  for (const child of given.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) {
      into.appendChild(document.createTextNode(child.nodeValue ?? ''));
    } else if (child instanceof Element) {
      buildElement(child, into, depth);
    }
  }
}

function buildElement(given: Element, into: Node, depth: number): void {
  const tag = given.localName;
  if (!isHTML(given) || DROPPED.has(tag)) {
    return;
  }
  if (depth > MAX_DEPTH) {
    into.appendChild(document.createTextNode(given.textContent));
    return;
  }
  if (!TAGS.has(tag)) {
    build(given, into, depth + 1);
    return;
  }
  const made = document.createElement(tag);
  setAttributes(made, given, tag);
  build(given, made, depth + 1);
  into.appendChild(made);
}

/** Elements for HTML of any origin. */
export function sanitized(html: string): DocumentFragment {
  // An inert document, of which nothing is used but names and texts that are on a list.
  // eslint-disable-next-line no-restricted-syntax
  const given = new DOMParser().parseFromString(html, 'text/html');
  const made = document.createDocumentFragment();
  build(given.body, made, 0);
  return made;
}
